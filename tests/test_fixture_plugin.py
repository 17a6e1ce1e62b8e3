"""A third party's package: installed from outside the workspace, found by name, held to the contracts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from anyorder.core import (
    Draws,
    IncompatiblePartsError,
    MaskBuilder,
    OrderSampler,
    PluginError,
    TokenBatch,
    available,
    find,
    require_compatible,
)
from anyorder.core.testing import MaskBuilderContract, OrderSamplerContract
from anyorder.masks import Shift, TwoStream

PROJECT = Path(__file__).parent / "fixtures" / "anyorder-zigzag"


def install(project: Path, site: Path) -> None:
    """Build and install a project as a user would, into a folder of its own and without a network."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-cache"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(site), str(project)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the plugin is installed, on the import path."""
    work = tmp_path_factory.mktemp("zigzag")
    install(shutil.copytree(PROJECT, work / "project"), work / "site")
    sys.path.insert(0, str(work / "site"))
    yield work / "site"
    sys.path.remove(str(work / "site"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "anyorder_zigzag"]:
        del sys.modules[name]


class TestZigzag(OrderSamplerContract):
    def make(self) -> OrderSampler:
        sampler: OrderSampler = find("order", "zigzag")(part=0.4)
        return sampler

    def builders(self) -> Sequence[MaskBuilder]:
        return (*super().builders(), TwoStream(), find("masks", "mask_slots")())


class TestMaskSlots(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        masks: MaskBuilder = find("masks", "mask_slots")()
        return masks


def test_it_is_found_beside_our_own_parts(site: Path) -> None:
    assert {"zigzag", "permutation"} <= set(available("order"))
    part = find("order", "zigzag")
    assert Path(sys.modules[part.__module__].__file__ or "").is_relative_to(site)


def test_it_goes_from_both_ends_inwards() -> None:
    batch = TokenBatch.of(torch.zeros(1, 7, dtype=torch.long))
    plan = find("order", "zigzag")(part=1.0).sample(batch, generator=Draws(0, rows=1))
    assert plan.time.tolist() == [[1, 3, 5, 7, 6, 4, 2]]


def test_a_pair_that_cannot_work_is_refused() -> None:
    with pytest.raises(IncompatiblePartsError, match="'zigzag' offers 'permutation': use two_stream"):
        require_compatible(find("order", "zigzag")(), Shift(), order_name="zigzag", masks_name="shift")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(PluginError, match=r"did you mean 'zigzag'\?"):
        find("order", "zigzagg")


def test_a_second_distribution_of_the_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = shutil.copytree(PROJECT, tmp_path / "project")
    described = (project / "pyproject.toml").read_text()
    renamed = described.replace('name = "anyorder-zigzag"', 'name = "another-zigzag"')
    (project / "pyproject.toml").write_text(renamed)
    install(project, tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(PluginError, match=r"'zigzag': another-zigzag .* and anyorder-zigzag .*uninstall one"):
        find("order", "zigzag")
