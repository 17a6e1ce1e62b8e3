"""Packages of a stranger's part, written from templates."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from anyorder.core import SEAMS, RecipeError, available
from anyorder.data.folder import atomic_folder

__all__ = ["KINDS", "Kind", "write_package"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of part that can be begun.

    Attributes:
        seam: its key in recipes.
        recipe: what a recipe says to use the part, ``$name`` being its name.
    """

    name: str
    seam: str
    recipe: str

    @property
    def words(self) -> str:
        return self.name.replace("-", " ")

    @property
    def article(self) -> str:
        return "an" if self.name[0] in "aeiou" else "a"

    @property
    def file(self) -> str:
        return self.name.replace("-", "_")


KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="order-sampler", seam="order", recipe="objective:\n  order: {type: $name, rate: 0.2}\n"),
        Kind(name="mask-builder", seam="masks", recipe="objective:\n  masks: {type: $name}\n"),
        Kind(name="loss-head", seam="loss", recipe="objective:\n  loss: {type: $name, smoothing: 0.1}\n"),
        Kind(name="attention-backend", seam="attention", recipe="attention: {type: $name}\n"),
        Kind(name="position-bias", seam="positions", recipe="model:\n  biases: [{type: $name}]\n"),
        Kind(name="memory", seam="memory", recipe="memory: {type: $name, mem_len: 96, reuse_len: 64}\n"),
    )
}


def write_package(kind: Kind, name: str, *, parent: Path, version: str) -> Path:
    """Write a package with a working part, its tests, a README and recipes. It appears whole or not at all.

    Args:
        kind: of part.
        name: of the part, such as ``zigzag``; ``two-sided`` becomes ``two_sided``.
        parent: folder in which the package's folder is made.
        version: the least ``anyorder-core``.

    Returns:
        the folder.

    Raises:
        RecipeError: a name that Python or another part has taken, or a folder that exists.
    """
    name = _checked(name, kind)
    package = f"anyorder-{name.replace('_', '-')}"
    folder = parent / package
    if folder.exists():
        raise RecipeError(f"{folder} exists and is left as it is; choose another name, or another folder with --out")
    words = {
        "name": name,
        "Class": "".join(part.title() for part in name.split("_")),
        "package": package,
        "module": package.replace("-", "_"),
        "group": SEAMS[kind.seam],
        "seam": kind.seam,
        "kind": kind.words,
        "Article": kind.article.title(),
        "file": kind.file,
        "recipe": "mine" if name == "plm" else name,
        "version": version,
    }
    lines = f"# A permutation language model with the {kind.words} $name.\nextends: _base/small.yaml\nname: $recipe\n"
    texts = {
        "pyproject.toml": _template("pyproject.toml"),
        "README.md": _template("README.md"),
        "src/$module/__init__.py": _template("init.py"),
        "src/$module/$file.py": _template(f"{kind.file}.py"),
        "tests/test_$name.py": _template(f"{kind.file}_test.py"),
        "recipes/_base/small.yaml": _template("base.yaml"),
        "recipes/plm.yaml": "# What to compare with.\nextends: _base/small.yaml\nname: plm\n",
        "recipes/$recipe.yaml": lines + kind.recipe,
    }
    with atomic_folder(folder) as work:
        for place, text in texts.items():
            path = work / Template(place).substitute(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    return folder


def _template(name: str) -> str:
    return (files(__package__) / "scaffolds" / f"{name}.in").read_text(encoding="utf-8")


def _checked(name: str, kind: Kind) -> str:
    plain = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", plain) or keyword.iskeyword(plain):
        raise RecipeError(
            f"{name!r} cannot name a part; use lower-case letters, digits and hyphens, a letter first: two-sided"
        )
    if claims := available(kind.seam).get(plain):
        owner = claims[0].dist.name if claims[0].dist is not None else "an unnamed distribution"
        raise RecipeError(f"{owner} has {kind.article} {kind.words} called {plain!r} already; choose another name")
    if plain in {other.file for other in KINDS.values()}:
        raise RecipeError(f"{name!r} is what the kind is called; give the part a name of its own")
    return plain
