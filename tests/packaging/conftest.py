"""The eleven packages as their pyproject files describe them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Package:
    """One folder of `packages/`."""

    folder: Path
    project: dict[str, Any]

    @property
    def dist(self) -> str:
        """The name that pip knows, such as `anyorder-core`."""
        return str(self.project["name"])

    @property
    def module(self) -> str:
        """The name that Python knows, such as `anyorder.core`."""
        return "anyorder.cli" if self.dist == "anyorder" else self.dist.replace("-", ".")

    @property
    def requirements(self) -> list[Requirement]:
        """What it always needs, its extras left out."""
        return [Requirement(line) for line in self.project["dependencies"]]

    @property
    def entry_points(self) -> list[tuple[str, str, str]]:
        """Each (group, name, "module:attribute"), the command included."""
        groups = {**self.project.get("entry-points", {}), "console_scripts": self.project.get("scripts", {})}
        return [(group, name, value) for group, points in groups.items() for name, value in points.items()]

    @property
    def sources(self) -> set[str]:
        """Every file that must reach a user, relative to `src`."""
        src = self.folder / "src"
        files = (path for path in src.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(src).as_posix() for path in files}


PACKAGES = [
    Package(path.parent, tomllib.loads(path.read_text())["project"])
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "package" in metafunc.fixturenames:
        metafunc.parametrize("package", PACKAGES, ids=lambda package: package.dist)


@pytest.fixture(scope="session")
def packages() -> list[Package]:
    return PACKAGES
