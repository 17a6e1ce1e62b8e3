"""What to look at: a sentence under a given order, or what a recipe draws."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch

from anyorder.core import (
    AnyorderError,
    Draws,
    Plan,
    RecipeError,
    TokenBatch,
    Vocab,
    did_you_mean,
    find,
)
from anyorder.train.recipe import Recipe

from .visibility_view import View

__all__ = ["view_of_recipe", "view_of_sentence"]

_SPECIAL = Vocab(size=0).eop + 1  # ids under it stand for no word


def view_of_sentence(
    text: str | None, *, order: str | None, targets: str | None, masks: str | None, memory: int
) -> View:
    """A sentence whose order is given.

    Args:
        text: tokens divided by spaces; ``x1 x2 ...`` by default where there is an order.
        order: places from 1, divided by commas; the order of the sentence by default.
        targets: words or places, divided by commas; all by default. Without ``order`` they are predicted as listed.
        masks: type of the mask builder.
        memory: remembered tokens.

    Raises:
        RecipeError: an order that is no permutation, a target that the sentence lacks.
    """
    places = None if order is None else _numbers(order)
    if text is None:
        tokens = ["New", "York", "is", "a", "city"] if places is None else [f"x{n + 1}" for n in range(len(places))]
    else:
        tokens = text.split()
    if not tokens:
        raise RecipeError("--text is empty")
    if places is not None and sorted(places) != list(range(len(tokens))):
        raise RecipeError(f"--order {order}: each place from 1 to {len(tokens)} must stand in it once")
    chosen = None if targets is None else [_place(target.strip(), tokens) for target in targets.split(",")]
    if chosen is not None and len(set(chosen)) < len(chosen):
        raise RecipeError(f"--targets {targets}: a token is predicted once")
    if places is None:
        ranked = list(range(len(tokens))) if chosen is None else chosen
    else:
        ranked = [place for place in places if chosen is None or place in chosen]
    given = [place for place in range(len(tokens)) if place not in ranked]
    plan = Plan.from_order(torch.tensor([given + ranked]), given=len(given))
    batch, vocab = _sentence(tokens)
    builder = find("masks", masks or "two_stream")().scoring()
    if "consecutive" in builder.needs and given + ranked != list(range(len(tokens))):
        raise RecipeError(f"--masks {masks}: it predicts from left to right to the end; two_stream takes any order")
    if "one_shot" in builder.needs:  # all at once, whatever the order
        plan = Plan.of(plan.target.long(), plan.target)
    streams = builder.build(
        batch, plan, vocab=vocab, num_targets=len(ranked), generator=Draws(0, rows=1, purpose="masks")
    )
    title = f"{' '.join(tokens)}, {masks or 'two_stream'}"
    return View.of(streams, batch=batch, plan=plan, tokens=tokens, vocab=vocab, memory=memory, title=title)


def view_of_recipe(recipe: Recipe, *, text: str | None, memory: int | None, step: int) -> View:
    """A sentence, or a segment of the recipe's own data, under an order that its sampler draws."""
    from anyorder.train.assemble import open_text, sizes

    parts = recipe.sections["objective"]
    order, masks = parts["order"].build(), parts["masks"].build().scoring()
    if text is None:
        data = open_text(recipe)
        batch, vocab = data.train.batch(step).map(lambda part: part[:1]), data.vocab
        pieces = data.corpus.tokenizer.all_pieces
        names = pieces() if callable(pieces) else pieces
        tokens = [names[token].replace("▁", "_") for token in batch.ids[0].tolist()]
        memory = sizes(recipe).mem_len if memory is None else memory
    else:
        tokens = text.split()
        if not tokens:
            raise RecipeError("--text is empty")
        batch, vocab = _sentence(tokens)
        order = _fit(order, len(tokens))
    generator = Draws(recipe.seed, step, rows=1, purpose="order")
    plan = order.sample(batch, generator=generator).within_blocks(batch)
    streams = masks.build(
        batch,
        plan,
        vocab=vocab,
        num_targets=order.num_targets(batch.length),
        generator=Draws(recipe.seed, step, rows=1, purpose="masks"),
    )
    title = f"{recipe.name}: {parts['order'].type}, {parts['masks'].type}, seed {recipe.seed}, step {step}"
    return View.of(streams, batch=batch, plan=plan, tokens=tokens, vocab=vocab, memory=memory or 0, title=title)


def _fit(order: Any, length: int) -> Any:
    """The order for a sentence: without ``perm_size`` where that does not divide it."""
    try:
        if hasattr(order, "check"):
            order.check(length)
    except AnyorderError:
        if not hasattr(order, "perm_size"):
            raise
        warnings.warn(f"perm_size {order.perm_size} does not divide {length} tokens, so it is left out", stacklevel=2)
        return replace(order, perm_size=None)
    return order


def _sentence(tokens: list[str]) -> tuple[TokenBatch, Vocab]:
    words = {word: _SPECIAL + number for number, word in enumerate(dict.fromkeys(tokens))}
    ids = torch.tensor([[words[token] for token in tokens]])
    word = torch.arange(len(tokens))[None]
    return TokenBatch.of(ids, word=word), Vocab(size=_SPECIAL + len(words))


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) - 1 for part in text.split(",")]
    except ValueError:
        raise RecipeError(f"--order {text}: places divided by commas, such as 2,4,1,3") from None


def _place(target: str, tokens: list[str]) -> int:
    if target.isdigit() and target not in tokens:
        if not 1 <= int(target) <= len(tokens):
            raise RecipeError(f"--targets {target}: places are 1 to {len(tokens)}")
        return int(target) - 1
    if target not in tokens:
        raise RecipeError(f"--targets {target}: not a token of the sentence{did_you_mean(target, tokens)}")
    if tokens.count(target) > 1:
        raise RecipeError(f"--targets {target}: it stands there {tokens.count(target)} times; name its place instead")
    return tokens.index(target)
