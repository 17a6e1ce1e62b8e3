"""Finding parts: entry points, dotted names, and what goes wrong with either."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from anyorder.core import SEAMS, PluginError, available, find, registry


def install(site: Path, distribution: str, points: dict[str, str], *, module: str = "", source: str = "") -> None:
    """A distribution as an installer leaves it: metadata, entry points, perhaps a module."""
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = ["[anyorder.order_samplers]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    if module:
        (site / f"{module}.py").write_text(source)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_an_entry_point_is_found_and_loaded_only_when_named(site: Path) -> None:
    install(site, "zig", {"zig_order": "zig_loaded:Zig"}, module="zig_loaded", source="class Zig: pass\n")
    assert [point.value for point in available("order")["zig_order"]] == ["zig_loaded:Zig"]
    assert "zig_loaded" not in sys.modules
    assert find("order", "zig_order").__name__ == "Zig"


def test_metadata_is_read_once_and_again_when_the_path_changes(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = []
    monkeypatch.setattr(registry, "entry_points", lambda: scans.append(1) or entry_points())
    registry._scan.cache_clear()
    for seam in SEAMS:
        available(seam)
    assert len(scans) == 1
    install(site, "zig", {"zig_order": "zig_later:Zig"})  # into a folder that was searched before
    assert "zig_order" in available("order")
    install(tmp_path / "more", "zag", {"zag_order": "zag_later:Zag"})
    monkeypatch.syspath_prepend(tmp_path / "more")
    assert {"zig_order", "zag_order"} <= set(available("order"))
    shutil.rmtree(site / "zig-1.0.dist-info")
    assert "zig_order" not in available("order")
    assert len(scans) == 4


def test_an_unknown_name_lists_what_there_is_and_the_nearest(site: Path) -> None:
    install(site, "zig", {"zig_order": "zig_near:Zig"})
    with pytest.raises(PluginError, match=r"no order part is called 'zig_ordr'.*zig_order.*did you mean 'zig_order'\?"):
        find("order", "zig_ordr")


def test_seams_do_not_mix(site: Path) -> None:
    install(site, "zig", {"zig_order": "zig_seam:Zig"})
    assert "zig_order" not in available("masks")
    with pytest.raises(PluginError, match="no masks part is called 'zig_order'"):
        find("masks", "zig_order")


def test_two_of_one_name_are_refused_with_both_distributions(site: Path) -> None:
    install(site, "zig-one", {"zig_order": "zig_one:Zig"})
    install(site, "zig-two", {"zig_order": "zig_two:Zig"})
    with pytest.raises(PluginError, match=r"zig-one \(zig_one:Zig\) and zig-two \(zig_two:Zig\)"):
        find("order", "zig_order")


def test_one_distribution_seen_twice_is_one(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable install beside its build, or a path that is listed twice."""
    source = "class Zig: pass\n"
    install(site, "zig", {"zig_order": "zig_twice:Zig"}, module="zig_twice", source=source)
    install(tmp_path / "again", "zig", {"zig_order": "zig_twice:Zig"})
    monkeypatch.syspath_prepend(tmp_path / "again")
    assert find("order", "zig_order").__name__ == "Zig"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_at_all\n", "ModuleNotFoundError.*no_such_module_at_all"),
        ("raise RuntimeError('out of order')\n", "RuntimeError: out of order"),
        ("class Zag: pass\n", "AttributeError"),
    ],
)
def test_a_broken_plugin_is_named_and_harms_no_other(site: Path, source: str, reason: str) -> None:
    name = f"zig_broken_{abs(hash(source))}"
    install(site, "zig", {"zig_order": f"{name}:Zig"}, module=name, source=source)
    install(site, "fine", {"fine_order": "zig_fine:Fine"}, module="zig_fine", source="class Fine: pass\n")
    assert find("order", "fine_order").__name__ == "Fine"
    with pytest.raises(PluginError, match=rf"'zig_order' of zig .*does not import: {reason}"):
        find("order", "zig_order")


def test_a_dotted_name_is_looked_up_in_the_recipes_folder_first(site: Path, tmp_path: Path) -> None:
    (site / "my_zigzag.py").write_text("class Zigzag: home = 'site'\n")
    (tmp_path / "my_zigzag.py").write_text("import my_helper\nclass Zigzag: home = my_helper.HOME\n")
    (tmp_path / "my_helper.py").write_text("HOME = 'recipe'\n")
    before = list(sys.path)
    assert find("order", "my_zigzag.Zigzag", folder=tmp_path).home == "recipe"  # type: ignore[attr-defined]
    assert sys.path == before
    again = find("order", "my_zigzag.Zigzag", folder=tmp_path)
    assert again is find("order", "my_zigzag.Zigzag", folder=tmp_path)


def test_two_folders_may_have_a_file_of_one_name(tmp_path: Path) -> None:
    for home in ("one", "two"):
        (tmp_path / home).mkdir()
        (tmp_path / home / "my_part.py").write_text("from my_parts_helper import HOME\nclass Part: home = HOME\n")
        (tmp_path / home / "my_parts_helper.py").write_text(f"HOME = {home!r}\n")
    homes = [find("order", "my_part.Part", folder=tmp_path / home).home for home in ("one", "two", "one")]  # type: ignore[attr-defined]
    assert homes == ["one", "two", "one"]


def test_a_file_named_like_an_imported_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("class Zigzag: pass\n")
    with pytest.raises(PluginError, match=r"'json' is a module of .* and one already imported from .*rename"):
        find("order", "json.Zigzag", folder=tmp_path)


def test_dotted_names_that_fail(tmp_path: Path) -> None:
    (tmp_path / "my_broken.py").write_text("1 / 0\n")
    (tmp_path / "my_named.py").write_text("class Zigzag: pass\n")
    with pytest.raises(PluginError, match=r"'my_broken.Zigzag' does not import \(looked in .*ZeroDivisionError"):
        find("order", "my_broken.Zigzag", folder=tmp_path)
    with pytest.raises(PluginError, match=r"'my_absent.Zigzag' does not import.*ModuleNotFoundError"):
        find("order", "my_absent.Zigzag")
    with pytest.raises(PluginError, match=r"'my_named' has no class 'Zigzga'; did you mean 'Zigzag'\?"):
        find("order", "my_named.Zigzga", folder=tmp_path)
    with pytest.raises(PluginError, match="does not import"):
        find("order", ".Zigzag")
