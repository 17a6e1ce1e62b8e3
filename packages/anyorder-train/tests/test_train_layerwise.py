"""Layer-wise learning rates, and the official optimiser's groups and schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import RecipeError
from anyorder.losses import SequenceClassification, SequenceSummary
from anyorder.models import TransformerXL
from anyorder.train.checkpoint import Checkpoint, save
from anyorder.train.layerwise import LayerwiseAdamW, layer_factors
from anyorder.train.optimizer import AdamW
from anyorder.train.recipe import SECTIONS, Call
from anyorder.train.recipe.source import parse_yaml
from anyorder.train.schedule import Schedule
from anyorder.train.xlnet_adam import XLNetAdam
from anyorder.train.xlnet_schedule import XLNetSchedule

LAYERS = 3


def model(*, untie_biases: bool = True) -> nn.ModuleDict:
    torch.manual_seed(0)
    backbone = TransformerXL(
        vocab_size=11,
        n_layer=LAYERS,
        d_model=8,
        n_head=2,
        d_inner=12,
        attention=Naive(),
        biases=(TransformerXLBias, SegmentBias),
        untie_biases=untie_biases,
    )
    return nn.ModuleDict(
        {
            "backbone": backbone,
            "summary": SequenceSummary(d_model=8),
            "head": SequenceClassification(d_model=8, classes=2),
        }
    )


def give_gradients(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("untie_biases", [True, False])
def test_factors_fall_from_the_head_to_the_embeddings(untie_biases: bool) -> None:
    module = model(untie_biases=untie_biases)
    factors = layer_factors(module, decay=0.5)
    assert factors.keys() == dict(module.named_parameters()).keys()
    for name, factor in factors.items():
        shared = not untie_biases and name.endswith(("r_w_bias", "r_r_bias", "r_s_bias"))
        if name in ("backbone.embedding.weight", "backbone.query_embedding"):
            assert factor == 0.5**LAYERS, name
        elif shared or name.startswith(("summary", "head")):
            assert factor == 1.0, name
        else:
            assert factor == 0.5 ** (LAYERS - 1 - int(name.split(".")[2])), name


def test_the_first_update_is_as_large_as_its_factor_says() -> None:
    """Adam's first step is the learning rate whatever the gradient: here the rate is scaled, so the step is too."""
    module = model()
    optimizer = LayerwiseAdamW(lr=0.01, decay=0.5, eps=1e-12, weight_decay=0.0).build(module)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    give_gradients(module)
    optimizer.step()
    for name, factor in layer_factors(module, decay=0.5).items():
        moved = (dict(module.named_parameters())[name] - before[name]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 0.01 * factor), rtol=2e-3, atol=1e-7, msg=name)


def test_gradient_decay_does_next_to_nothing() -> None:
    """The official way, for comparison: Adam undoes a factor on the gradient."""
    steps = []
    for decay in (1.0, 0.5):
        module = model()
        optimizer = XLNetAdam(lr=0.01, eps=1e-12, weight_decay=0.0, gradient_layer_decay=decay).build(module)
        give_gradients(module)
        optimizer.step()
        steps.append([parameter.detach().clone() for parameter in module.parameters()])
    for one, other in zip(*steps, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_every_parameter_is_in_one_group_and_decayed_as_by_adamw() -> None:
    module = model()
    plain, layered = AdamW(weight_decay=0.1).build(module), LayerwiseAdamW(weight_decay=0.1).build(module)

    def decays(optimizer: torch.optim.Optimizer) -> dict[int, float]:
        found = [(id(p), group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]]
        assert len(found) == len(dict(found)) == len(list(module.parameters()))
        return dict(found)

    assert decays(plain) == decays(layered)
    assert layered.param_groups[0]["lr"] == max(group["lr"] for group in layered.param_groups)
    official = decays(XLNetAdam(weight_decay=0.1).build(module))
    names = {id(p): name for name, p in module.named_parameters()}
    differ = {names[key].rsplit(".", 1)[-1] for key, decay in decays(plain).items() if official[key] != decay}
    assert differ == {"r_w_bias", "r_r_bias", "r_s_bias"}


def test_decay_of_one_is_plain_adamw_and_frozen_parameters_stay_out() -> None:
    ends = []
    for settings in (AdamW(lr=0.01), LayerwiseAdamW(lr=0.01, decay=1.0)):
        module = model()
        module["backbone"].embedding.requires_grad_(False)
        optimizer = settings.build(module)
        for _ in range(3):
            give_gradients(module)
            optimizer.step()
        ends.append([parameter.detach().clone() for parameter in module.parameters()])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


def test_the_official_schedule_is_ours_one_step_later() -> None:
    for decay in ("linear", "cosine", "constant"):
        ours, official = (kind(warmup=4, decay=decay, min_ratio=0.1) for kind in (Schedule, XLNetSchedule))
        assert official.factor(1, steps=10) == 0
        assert [official.factor(t + 1, steps=10) for t in range(1, 10)] == [
            ours.factor(t, steps=10) for t in range(1, 10)
        ]
        assert official.factor(99, steps=10) == ours.factor(10, steps=10)
    assert XLNetSchedule(warmup=0).factor(1, steps=10) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LayerwiseAdamW(decay=0), "decay is 0"),
        (lambda: LayerwiseAdamW(decay=1.5), "decay is 1.5"),
        (lambda: XLNetAdam(gradient_layer_decay=2), "gradient_layer_decay is 2"),
        (lambda: XLNetAdam(lr=-1), "lr is -1"),
    ],
)
def test_settings_out_of_range_are_refused(make: object, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make()  # type: ignore[operator]


def test_the_official_optimiser_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    def steps(module: nn.Module, optimizer: torch.optim.Optimizer, seeds: range) -> None:
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            for parameter in module.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimizer.step()

    for weight_decay in (0.0, 0.1):
        settings = XLNetAdam(lr=0.01, weight_decay=weight_decay)
        whole, parts = model(), model()
        optimizer = settings.build(whole)
        steps(whole, optimizer, range(6))

        optimizer = settings.build(parts)
        steps(parts, optimizer, range(3))
        folder = save(
            tmp_path / str(weight_decay), step=3, model=parts, optimizer=optimizer, memory=None, state={}, keep=1
        )
        resumed = model()
        optimizer = settings.build(resumed)
        Checkpoint.open(folder).restore(resumed, optimizer)
        steps(resumed, optimizer, range(3, 6))
        for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(one, other)


def read(section: str, text: str) -> Call:
    node = parse_yaml(text, name="test", folder=Path())
    call: Call = SECTIONS[section].read(node, node)
    return call


def test_a_recipe_chooses_the_official_optimiser() -> None:
    optimizer = read("optimizer", "{type: xlnet_adam, lr: 0.001, weight_decay: 0.0}").build()
    assert isinstance(optimizer, XLNetAdam)
    assert optimizer.build(model()).defaults["corrected"]


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("{warmup: 4}", Schedule, "warmup_decay"),  # as recipes were written before there was a choice
        ("{type: warmup_decay, warmup: 4}", Schedule, "warmup_decay"),
        ("{type: xlnet, warmup: 4}", XLNetSchedule, "xlnet"),
        ("xlnet", XLNetSchedule, "xlnet"),
    ],
)
def test_a_recipe_chooses_the_schedule(text: str, kind: type[Schedule], name: str) -> None:
    call = read("schedule", text)
    assert type(call.build()) is kind
    assert call.resolved()["type"] == name
    if "warmup" in text:
        assert [call.build().factor(step, steps=9) for step in (1, 4)] == (
            [0, 0.75] if kind is XLNetSchedule else [0.25, 1]
        )
