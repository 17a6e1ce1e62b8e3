"""Decoding with cached keys and values, against computing the whole text for every token."""

from __future__ import annotations

import pytest
import torch
from small_training import VOCAB, small_objective
from torch import Tensor

from anyorder.core import IncompatiblePartsError
from anyorder.masks import InPlace
from anyorder.models.absolute import AbsoluteEmbedding
from anyorder.train.decode import Decoder, Sampling, generate
from anyorder.train.objective import Objective


def model(kind: str) -> Objective:
    """A small model whose predictions depend on much of what it reads."""
    objective = small_objective("plm" if kind == "ordered cloze" else kind)
    for parameter in objective.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    if kind == "ordered cloze":
        objective.masks = InPlace(mask=1.0, random=0.0, visibility="ordered")
    return objective.double().eval()


def steps(objective: Objective, ids: Tensor, *, prompt: int, window: int, cached: bool) -> tuple[Tensor, Decoder]:
    decoder = Decoder(objective, window=window, cached=cached)
    scores = [decoder.read(ids[:, :prompt])]
    scores += [decoder.read(ids[:, place : place + 1]) for place in range(prompt, ids.shape[1])]
    return torch.stack(scores), decoder


@pytest.mark.parametrize("kind", ["plm", "clm", "ordered cloze"])
@pytest.mark.parametrize("prompt", [1, 7])
def test_cached_equals_computing_everything(kind: str, prompt: int) -> None:
    objective = model(kind)
    ids = torch.randint(9, VOCAB.size, (2, 14), generator=torch.Generator().manual_seed(0))
    mine, decoder = steps(objective, ids, prompt=prompt, window=16, cached=True)
    twin, naive = steps(objective, ids, prompt=prompt, window=16, cached=False)
    assert (decoder.cached, naive.cached) == (True, False)
    torch.testing.assert_close(mine, twin, rtol=0, atol=1e-5)  # log-probabilities are float32
    assert (mine[-1] - mine[-2]).abs().max() > 0.01, "the tokens read matter"


def test_a_full_window_forgets_the_oldest_tokens_and_no_more() -> None:
    objective = model("plm")
    ids = torch.randint(9, VOCAB.size, (1, 12), generator=torch.Generator().manual_seed(0))
    twin, _ = steps(objective, ids, prompt=1, window=12, cached=False)
    roomy, _ = steps(objective, ids, prompt=1, window=12, cached=True)
    tight, _ = steps(objective, ids, prompt=1, window=4, cached=True)
    torch.testing.assert_close(roomy, twin, rtol=0, atol=1e-5)
    torch.testing.assert_close(tight[:5], twin[:5], rtol=0, atol=1e-5)  # four tokens back and the one at hand
    assert (tight[-1] - twin[-1]).abs().max() > 1e-3


def test_absolute_positions_are_never_cached() -> None:
    objective = model("plm")
    absolute = AbsoluteEmbedding(positions=32, segments=None, d_model=16).double()
    torch.nn.init.normal_(absolute.position.weight)
    objective.backbone.absolute = absolute
    ids = torch.randint(9, VOCAB.size, (1, 6), generator=torch.Generator().manual_seed(0))
    mine, decoder = steps(objective, ids, prompt=2, window=8, cached=True)
    twin, _ = steps(objective, ids, prompt=2, window=8, cached=False)
    assert not decoder.cached
    assert torch.equal(mine, twin)


def test_a_model_without_a_next_token_is_refused() -> None:
    with pytest.raises(IncompatiblePartsError, match="at once"):
        Decoder(model("mlm"), window=8)


def test_greedy_text_is_what_the_scores_say_and_seeds_repeat() -> None:
    objective = model("plm")
    prompt = torch.tensor([[9, 12, 15]])
    greedy = generate(Decoder(objective, window=16), prompt, tokens=5, sampling=Sampling(temperature=0.0))
    text = torch.cat([prompt, greedy], dim=1)
    scores, _ = steps(objective, text[:, :-1], prompt=3, window=16, cached=False)
    assert torch.equal(scores.argmax(dim=-1)[:, 0], greedy[0])
    drawn = [generate(Decoder(objective, window=16), prompt, tokens=20, seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_forbidden_tokens_are_never_written() -> None:
    objective = model("plm")
    forbidden = tuple(range(0, VOCAB.size, 2))
    text = generate(Decoder(objective, window=16), torch.tensor([[9]]), tokens=40, forbidden=forbidden)
    assert bool((text % 2 == 1).all())


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(top_k=2), {0, 1}),
        (Sampling(top_p=0.6), {0, 1}),
        (Sampling(top_p=0.5), {0}),
        (Sampling(temperature=0.0), {0}),
    ],
    ids=str,
)
def test_only_what_is_likely_enough_is_drawn(sampling: Sampling, allowed: set[int]) -> None:
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(2000, -1)
    drawn = sampling.choose(scores, torch.Generator().manual_seed(0))
    assert set(drawn.tolist()) == allowed
    if sampling == Sampling():
        share = (drawn == 0).float().mean().item()
        assert abs(share - 0.5) < 4 * (0.25 / 2000) ** 0.5
