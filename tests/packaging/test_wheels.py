"""Every package alone: its wheel is whole, and works in an environment that has what it declares and no more.

Each environment is gigabytes of torch, so uv links the files from its cache. Versions are those of the environment
that runs the tests: nothing is downloaded twice.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

pytestmark = pytest.mark.slow

# Imports every module of one package, then every entry point that its environment offers.
IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib.metadata import distributions

package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
for distribution in distributions():
    for point in distribution.entry_points:
        if point.value.startswith("anyorder."):
            point.load()
"""


UV = find_uv_bin()


def call(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Wheelhouse:
    """Built distributions, and the versions that everything else is held to."""

    folder: Path
    constraints: Path

    def wheel(self, package: Any) -> Path:
        return self._built(package, "-py3-none-any.whl")

    def sdist(self, package: Any) -> Path:
        return self._built(package, ".tar.gz")

    def _built(self, package: Any, ending: str) -> Path:
        return self.folder / f"{package.dist.replace('-', '_')}-{package.project['version']}{ending}"


@pytest.fixture(scope="module")
def wheelhouse(packages: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    """An sdist of each package, and a wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    for package in packages:
        call(
            *(UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable),
            *("--out-dir", folder, package.folder),
        )
    ours = {package.dist for package in packages}
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{d.name}=={d.version}\n" for d in metadata.distributions() if d.name not in ours))
    return Wheelhouse(folder, constraints)


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty environment, at one path for all tests so that they share compiled bytecode."""
    folder = tmp_path_factory.getbasetemp() / "alone"
    call(UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder)
    yield folder
    shutil.rmtree(folder)


def test_distributions_are_whole(package: Any, wheelhouse: Wheelhouse) -> None:
    with zipfile.ZipFile(wheelhouse.wheel(package)) as wheel:
        names = set(wheel.namelist())
    info = f"{package.dist.replace('-', '_')}-{package.project['version']}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == package.sources
    assert {info + "METADATA", info + "licenses/LICENSE"} <= names

    with tarfile.open(wheelhouse.sdist(package)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in package.sources} <= names
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_works_alone(package: Any, wheelhouse: Wheelhouse, environment: Path, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    cache = Path(call(UV, "cache", "dir").strip())
    same_disk = cache.exists() and cache.stat().st_dev == environment.stat().st_dev
    call(
        *(UV, "pip", "install", "--quiet", "--python", python, "--find-links", wheelhouse.folder),
        *("--constraints", wheelhouse.constraints, "--link-mode", "hardlink" if same_disk else "symlink"),
        f"{package.dist}=={package.project['version']}",
    )
    call(UV, "pip", "check", "--quiet", "--python", python)
    bytecode = f"pycache_prefix={wheelhouse.folder / 'bytecode'}"
    call(python, "-I", "-X", bytecode, "-c", IMPORT_ALL, package.module)
