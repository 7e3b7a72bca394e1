"""A tox runner whose environments can share one virtual environment.

tox records the environment's name in `env_dir` and rebuilds the directory whenever another name uses it.
Types, tests and the report need the same packages, and torch takes hundreds of megabytes (thousands with
CUDA), so `runner = shared` leaves the name out of the record; any other difference still rebuilds.
Environments that share a directory must not run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tox.plugin import impl
from tox.tox_env.api import ToxEnv
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class NamelessInfo(Info):
    """The record of an environment without its name."""

    @contextmanager
    def compare(self, value: Any, section: str, sub_section: str | None = None) -> Iterator[tuple[bool, Any]]:
        if section == ToxEnv.__name__:
            value = {key: item for key, item in value.items() if key != "name"}
        with super().compare(value, section, sub_section) as result:
            yield result


class SharedRunner(VirtualEnvRunner):
    """A virtual environment that several tox environments use in turn."""

    @staticmethod
    def id() -> str:
        return "shared"

    @property
    def cache(self) -> Info:
        return NamelessInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Make `runner = shared` known."""
    register.add_run_env(SharedRunner)
