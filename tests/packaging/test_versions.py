"""One version, one namespace, entry points that resolve, and a lock that any machine can use."""

import ast
import importlib
import re
import sys
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PARTS = {f"anyorder-{name}" for name in ("attention", "losses", "masks", "memory", "orders")}


def test_eleven_packages(packages: list[Any]) -> None:
    assert len(packages) == 11


def test_one_version(packages: list[Any]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {package.dist: package.project["version"] for package in packages} == {
        package.dist: version for package in packages
    }


def test_installed_from_here(package: Any) -> None:
    """The environment has this checkout's packages, with the metadata of their present pyproject files."""
    installed = metadata.distribution(package.dist)
    assert installed.version == package.project["version"]
    assert {(p.group, p.name, p.value) for p in installed.entry_points} == set(package.entry_points)


def test_siblings_are_pinned_to_the_one_version(package: Any) -> None:
    extras = package.project.get("optional-dependencies", {}).values()
    for line in chain(package.project["dependencies"], *extras):
        if line.startswith("anyorder"):
            assert line.endswith(f"=={package.project['version']}"), line


def test_parts_depend_only_on_core(package: Any) -> None:
    siblings = {requirement.name for requirement in package.requirements if requirement.name.startswith("anyorder")}
    if package.dist in PARTS | {"anyorder-models", "anyorder-data"}:
        assert siblings == {"anyorder-core"}
    if package.dist == "anyorder-core":
        assert siblings == set()


def imported(file: Path) -> set[str]:
    """The top-level modules that a file imports anywhere, itself and the standard library left out."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).partition(".")[0])
    return names - sys.stdlib_module_names - {"anyorder"}


def test_what_is_imported_is_declared(package: Any) -> None:
    """As a dependency, or in an extra; not left to arrive with somebody else's dependencies."""
    extras = package.project.get("optional-dependencies", {}).values()
    declared = {Requirement(line).name for line in chain(package.project["dependencies"], *extras)}
    providers = metadata.packages_distributions()
    for file in (package.folder / "src").rglob("*.py"):
        for name in imported(file):
            found = {canonicalize_name(provider) for provider in providers.get(name, [])}
            assert found & declared, f"{file.relative_to(ROOT)} imports {name}"


def test_namespace_and_files(package: Any) -> None:
    own = package.module.replace(".", "/")
    assert "anyorder/__init__.py" not in package.sources
    assert f"{own}/py.typed" in package.sources
    assert all(path.startswith(f"{own}/") for path in package.sources)
    assert (package.folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert package.dist in (package.folder / "README.md").read_text()


def test_entry_points_resolve(package: Any) -> None:
    for group, name, value in package.entry_points:
        module, _, attribute = value.partition(":")
        part = getattr(importlib.import_module(module), attribute)
        assert callable(part), (group, name)
        if group != "console_scripts":
            assert isinstance(part, type), (group, name)
            assert attribute in importlib.import_module(module).__all__, f"{value} is not exported"


def test_lock_names_no_host_and_no_folder_of_a_machine() -> None:
    """A lock with addresses in it works only where they do."""
    lock = (ROOT / "pdm.lock").read_text()
    assert "://" not in lock
    assert not re.search(r'"/|"[A-Z]:\\', lock)
