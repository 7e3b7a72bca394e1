"""What the wheel ships, and what importing the package costs.

Every check here runs in a process of its own: the test process has torch and Hypothesis loaded already.
"""

from __future__ import annotations

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ("harness", "references")
HEAVY = ("torch", "triton", "hypothesis")


def run_python(*args: str, cwd: Path) -> str:
    """The output of a fresh interpreter; its errors are shown when it fails."""
    command = [sys.executable, *args]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy of the project so that no build folder is left in it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for package in (*SHIPPED, "kernels", "tests", "benchmarks"):
        for file in (ROOT / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                target = source / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    run_python(
        *("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--no-index", "--wheel-dir", str(out), str(source)),
        cwd=source,
    )
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def entry_points(wheel: zipfile.ZipFile) -> configparser.ConfigParser:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(wheel.read(name).decode())
    return parser


def test_wheel_is_named_kernel_numerics(wheel: zipfile.ZipFile) -> None:
    assert Path(str(wheel.filename)).name.startswith("kernel_numerics-")


def test_wheel_ships_harness_and_references_only(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(SHIPPED)


@pytest.mark.parametrize("package", SHIPPED)
def test_wheel_ships_every_module(wheel: zipfile.ZipFile, package: str) -> None:
    """A pattern that misses a subpackage would leave it out in silence."""
    modules = {file.relative_to(ROOT).as_posix() for file in (ROOT / package).rglob("*.py")}
    assert modules, f"no modules in {package}"
    assert modules <= set(wheel.namelist())


def test_wheel_ships_the_type_marker_and_the_licence(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {f"{package}/py.typed" for package in SHIPPED} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_wheel_declares_the_command_and_the_plugin(wheel: zipfile.ZipFile) -> None:
    points = entry_points(wheel)
    assert dict(points["console_scripts"]) == {"harness": "harness.cli:main"}
    assert dict(points["pytest11"]) == {"harness": "harness.plugin"}


@pytest.mark.parametrize("module", ["harness", "harness.plugin"])
def test_import_is_cheap(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    assert run_python("-c", code, cwd=ROOT).split() == []


def test_pytest_with_the_plugin_imports_no_torch_until_a_test_needs_it(tmp_path: Path) -> None:
    """Collecting and running a test that uses nothing of the harness leaves torch alone."""
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_plain(request):\n"
        "    assert request.config.pluginmanager.hasplugin('harness')\n"
        "    assert not {'torch', 'triton'} & sys.modules.keys()\n"
    )
    out = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path)
    assert "1 passed" in out
