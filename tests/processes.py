"""Programs run in a process of their own, whose memory nothing else has touched."""

from __future__ import annotations

import subprocess
import sys

_REPORT = "\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)\n"


def peak_gib(program: str) -> float:
    """The most memory that a program was resident with, in GiB; it must end well."""
    command = [sys.executable, "-c", program + _REPORT]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return float(run.stdout)
