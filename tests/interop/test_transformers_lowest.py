"""The lowest transformers that anyorder-hf accepts, in an environment of its own, beside this one's torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from anyorder.core import Slots, Streams, TokenBatch
from anyorder.data import Tokenizer
from anyorder.hf import export_hf, import_hf
from anyorder.losses import CrossEntropy
from anyorder.models import Architecture, Pretrained

from .lowest_script import SCRIPT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
SPIECE = ROOT / "tests" / "data" / "golden" / "spm" / "spiece.model"
TEXTS = ["The old woman paid 2,000 for it.", "Hello, naïve café!"]


def lowest() -> str:
    """The version in ``transformers>=...``."""
    project = tomllib.loads((ROOT / "packages" / "anyorder-hf" / "pyproject.toml").read_text())["project"]
    (requirement,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "transformers")
    (bound,) = requirement.specifier
    assert bound.operator == ">="
    return bound.version


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with that transformers; what it does not bring comes from this environment."""
    uv = shutil.which("uv") or Path(sys.executable).with_name("uv")
    folder = tmp_path_factory.mktemp("lowest") / "env"
    interpreter = folder / "bin" / "python"
    version = lowest()
    version = version if version.count(".") > 1 else f"{version}.0"
    needs = [f"transformers=={version}", "sentencepiece", "protobuf"]
    commands = [
        [uv, "venv", "--quiet", "--python", sys.executable, folder],
        [uv, "pip", "install", "--quiet", "--python", interpreter, *needs],
    ]
    for command in commands:
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"no environment of its own: {error}")
        if done.returncode:
            pytest.skip(f"no environment of its own: {done.stderr.strip().splitlines()[-1]}")
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "this.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # after its own
    return interpreter


def test_what_is_exported_loads_and_gives_our_numbers(python: Path, tmp_path: Path) -> None:
    architecture = Architecture(vocab_size=500, n_layer=2, d_model=24, n_head=3, d_head=8, d_inner=40)
    torch.manual_seed(0)
    state = {
        f"backbone.{name}": torch.randn_like(value) * 0.3 for name, value in architecture.build().state_dict().items()
    }
    state["heads.loss.bias"] = torch.randn(500)
    tokenizer = Tokenizer.load(SPIECE)
    model = Pretrained(
        architecture=architecture,
        state=state,
        tokenizer=tokenizer.model,
        tokenizer_settings=tokenizer.settings,
        source="a test",
    )
    export_hf(model, tmp_path / "exported")
    ids = torch.tensor([tokenizer.encode(TEXTS[0])])
    torch.save({"ids": ids, "logits": _logits(model, ids), "texts": TEXTS}, tmp_path / "expected.pt")
    encoded = repr([tokenizer.encode(text) for text in TEXTS])
    done = subprocess.run(
        [str(python), "-c", SCRIPT, str(tmp_path), lowest(), encoded],
        capture_output=True,
        text=True,
        check=False,
        env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    again = import_hf(tmp_path / "saved", tokenizer=SPIECE)
    assert all(torch.equal(again.state[name], value) for name, value in model.state.items())


def _logits(model: Pretrained, ids: torch.Tensor) -> torch.Tensor:
    backbone = model.backbone()
    head = CrossEntropy(vocab_size=500)
    head.load_state_dict(model.part("heads.loss."))
    batch = TokenBatch.of(ids)
    with torch.no_grad():
        states = backbone(Streams(content=Slots.of_tokens(batch, torch.zeros_like(ids)))).content
        return head.logits(states, embedding=backbone.embedding.weight)
