"""Settings that are right each for itself and wrong together, and settings that change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from anyorder.core import ONE_SHOT, AnyorderError, IncompatiblePartsError, RecipeError, require_compatible
from anyorder.data import PAIR_LABELS

from ..replaced import REPLACED
from .call import Call

__all__ = ["check_combinations", "stride_of"]


def check_combinations(sections: Mapping[str, Any]) -> list[str]:
    """Refuse what cannot work together.

    Returns:
        warnings: one line for each setting without effect.

    Raises:
        RecipeError: the first combination that cannot work, at the setting to change.
    """
    notes: list[str] = []
    data, memory, model = sections["data"], sections["memory"], sections["model"]
    _check_data(data, notes)
    order = _check_order(sections["objective"], data, notes)
    _check_labels(sections["objective"], data)
    _check_generator(sections["objective"], memory, model, notes)
    _check_memory(memory, data, order, sections["objective"]["order"], notes)
    for key in ("optimizer", "train"):
        _build(sections[key], notes)
    _check_rows(data, sections["train"], notes)
    _check_model(model, data)
    _check_blocks(data, memory)
    _check_schedule(sections["schedule"], sections["train"].get("steps"), notes)
    return notes


def stride_of(data: Call, memory: Call) -> int:
    """How far apart segments start: ``data.stride``, else what memory keeps of each, else whole segments."""
    length: int = data.get("length")
    whole = length // 2 if data.get("layout") == "pairs" else length  # a pair follows text that is read once
    return data.get("stride") or memory.get("reuse_len") or whole


def _check_data(data: Call, notes: list[str]) -> None:
    if data.get("layout") == "plain" and data.get("negatives") == "swapped":  # the default is in every dump
        notes.append(f"{data.where('negatives')}: data.negatives has no effect: data.layout is 'plain'")
    for name in ("length", "vocab_size"):
        size = data.get(name)
        if size is not None and size < 1:
            raise RecipeError(f"{name} is {size}; it must be 1 or more", path=f"data.{name}", source=data.where(name))


def _check_order(objective: Mapping[str, Any], data: Call, notes: list[str]) -> Any:
    order_call, masks_call = objective["order"], objective["masks"]
    order, masks = _build(order_call, notes), _build(masks_call, notes)
    _require_members(order, order_call, "traits", "num_targets", "sample")
    _require_members(masks, masks_call, "needs", "build", "scoring")
    try:
        require_compatible(order, masks, order_name=order_call.type, masks_name=masks_call.type)
    except RecipeError as error:
        source = masks_call.where("type")
        raise type(error)(error.problem, path=f"{masks_call.path}.type", source=source) from None
    length = data.get("length")
    if hasattr(order, "check"):
        try:
            order.check(length)
        except AnyorderError as error:
            raise order_call.refusal(error) from error
    goal = order.num_targets(length)
    if not 1 <= goal <= length:
        problem = f"{goal} targets a row do not fit rows of {length} tokens (data.length); allowed: 1 to {length}"
        raise RecipeError(problem, path=order_call.path, source=order_call.where())
    return order


def _check_labels(objective: Mapping[str, Any], data: Call) -> None:
    """A head that predicts a label of the row (``NextSentence.label``) needs data that have it."""
    pairs = data.get("layout") != "plain"
    negatives = data.get("negatives") or "random"  # XLNet's records have no such setting, and these
    for call in (objective["loss"], *(head for head, _ in objective["auxiliary"].values())):
        label = getattr(call.target, "label", None)
        if label is None or (pairs and label == PAIR_LABELS[negatives]):
            continue
        wanted = next((kind for kind, made in PAIR_LABELS.items() if made == label), None)
        remedy = [] if pairs else ["data.layout to 'pairs'"]
        remedy += [] if wanted == negatives else [f"data.negatives to {wanted!r}"]
        problem = f"{call.type!r} needs pairs of segments labelled {label!r}: set {' and '.join(remedy)}"
        if wanted is None:
            problem = f"{call.type!r} needs rows labelled {label!r}; data label {', '.join(PAIR_LABELS.values())} only"
        raise RecipeError(problem, path=f"{call.path}.type", source=call.where("type"))


def _check_generator(objective: Mapping[str, Any], memory: Call, model: Call, notes: list[str]) -> None:
    generator: Call | None = objective["generator"]
    masks = objective["masks"]
    for name, (call, _) in objective["auxiliary"].items():
        if call.type == "replaced_tokens" or (generator is not None and name == REPLACED):
            problem = "it comes with objective.generator, which needs no auxiliary head: remove this one"
            raise RecipeError(problem, path=call.path, source=call.where())
    if objective["loss"].type == "replaced_tokens":
        problem = "it detects what a generator wrote: use loss.type 'cross_entropy' and objective.generator"
        raise RecipeError(problem, path=objective["loss"].path, source=objective["loss"].where())
    if generator is None:
        return
    sizes, _ = _build(generator, notes)
    if ONE_SHOT not in _build(masks, notes).needs:
        problem = (
            f"masks.type {masks.type!r} as it is here gives objective.generator no input that hides targets and is "
            "seen whole: use masks.type 'in_place' with visibility 'everything', or remove objective.generator"
        )
        raise IncompatiblePartsError(problem, path=f"{masks.path}.type", source=masks.where("type"))
    if not hasattr(objective["loss"].target, "logits"):
        problem = f"{objective['loss'].type!r} gives no logits to sample from: use loss.type 'cross_entropy'"
        raise IncompatiblePartsError(problem, path=f"{objective['loss'].path}.type", source=objective["loss"].where())
    if memory.get("mem_len"):
        problem = (
            "a generator has no memory to write the past with: set memory.type 'none', or remove objective.generator"
        )
        raise IncompatiblePartsError(problem, path="memory.type", source=memory.where("type"))
    heads = sizes.get("n_head")
    if heads and model.get("d_head") is None and model.get("d_model") % heads:
        problem = f"{heads} heads do not divide model.d_model, which is {model.get('d_model')}"
        raise RecipeError(problem, path=f"{generator.path}.n_head", source=generator.where("n_head"))


def _check_memory(memory: Call, data: Call, order: Any, order_call: Call, notes: list[str]) -> None:
    _build(memory, notes)
    length, mem_len, reuse_len = data.get("length"), memory.get("mem_len"), memory.get("reuse_len")
    stride = stride_of(data, memory)
    if reuse_len is not None and reuse_len > length:
        problem = f"{reuse_len} tokens cannot be kept of segments of {length} (data.length); allowed: 1 to {length}"
        raise RecipeError(problem, path="memory.reuse_len", source=memory.where("reuse_len"))
    if not 1 <= stride <= length:
        problem = f"{stride} is not between 1 and data.length, which is {length}"
        raise RecipeError(problem, path="data.stride", source=data.where("stride"))
    kept = length if reuse_len is None else reuse_len
    if mem_len and kept != stride:
        problem = (
            f"{stride} is how far apart segments start, and memory.reuse_len keeps {kept} tokens of each: "
            "the two must be equal, or leave data.stride out"
        )
        raise RecipeError(problem, path="data.stride", source=data.where("stride"))
    size = getattr(order, "perm_size", None)
    if isinstance(size, int) and (stride % size or (length - stride) % size):
        problem = f"perm_size {size} does not divide both parts of a segment, {stride} and {length - stride} tokens"
        raise RecipeError(problem, path=f"{order_call.path}.perm_size", source=order_call.where("perm_size"))
    if mem_len == 0 and "reuse_len" in memory.arguments:
        notes.append(f"{memory.where('reuse_len')}: memory.reuse_len only spaces the segments where mem_len is 0")
    if mem_len and 0 < mem_len < kept:
        notes.append(
            f"{memory.where('mem_len')}: memory.mem_len {mem_len} is less than the {kept} tokens that each segment "
            "offers, so some are never seen"
        )


def _check_rows(data: Call, train: Call, notes: list[str]) -> None:
    rows, parts = train.get("batch_size"), train.get("accumulate")
    if data.get("bidirectional") and rows % 2:
        problem = f"{rows} rows cannot be half forwards and half backwards (data.bidirectional); use an even number"
        raise RecipeError(problem, path="train.batch_size", source=train.where("batch_size"))
    if parts > 0 and rows % parts:
        problem = f"{parts} does not divide train.batch_size, which is {rows}"
        raise RecipeError(problem, path="train.accumulate", source=train.where("accumulate"))
    if data.get("corpus") is not None and "vocab_size" in data.arguments:
        notes.append(f"{data.where('vocab_size')}: data.vocab_size has no effect: data.corpus brings its tokenizer")


def _check_blocks(data: Call, memory: Call) -> None:
    if data.get("isolate_reuse") is False and memory.get("mem_len"):
        problem = "memory would keep what it has seen of the text that the next segment predicts; set it to true"
        raise RecipeError(problem, path="data.isolate_reuse", source=data.where("isolate_reuse"))


def _check_model(model: Call, data: Call) -> None:
    width, heads, d_head = model.get("d_model"), model.get("n_head"), model.get("d_head")
    for name in ("n_layer", "d_model", "n_head", "d_inner", "d_head"):
        size = model.get(name)
        if size is not None and size < 1:
            raise RecipeError(f"{name} is {size}; it must be 1 or more", path=f"model.{name}", source=model.where(name))
    if d_head is None and width % heads:
        problem = f"{heads} heads do not divide d_model, which is {width}; change one, or give d_head"
        raise RecipeError(problem, path="model.n_head", source=model.where("n_head"))
    if width % 2:
        problem = f"{width} is odd, and the position encoding has a sine and a cosine for each frequency"
        raise RecipeError(problem, path="model.d_model", source=model.where("d_model"))
    places, length = model.get("absolute_positions"), data.get("length")
    if places is not None and places < length:
        problem = f"{places} positions are fewer than the {length} tokens of a segment (data.length)"
        raise RecipeError(problem, path="model.absolute_positions", source=model.where("absolute_positions"))
    for name in ("dropout", "attention_dropout"):
        rate = model.get(name)
        if not 0 <= rate < 1:
            problem = f"{name} is {rate}; it must be from 0 to under 1"
            raise RecipeError(problem, path=f"model.{name}", source=model.where(name))


def _check_schedule(call: Call, steps: int, notes: list[str]) -> None:
    schedule = _build(call, notes)
    _require_members(schedule, call, "check", "factor")
    try:
        schedule.check(steps)
    except RecipeError as error:
        raise call.refusal(error) from error


def _require_members(part: Any, call: Call, *names: str) -> None:
    """Raise ``RecipeError`` where a part, perhaps a stranger's, lacks what its place asks for."""
    lacking = [name for name in names if not hasattr(part, name)]
    if lacking:
        problem = f"{call.type!r} has no {' and no '.join(lacking)}, which this seam asks for"
        raise RecipeError(problem, path=f"{call.path}.type", source=call.where("type"))


def _build(call: Call, notes: list[str]) -> Any:
    """Build a part that needs nothing else, so that its own checks speak; its warnings get their place."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        part = call.build()
    notes.extend(f"{call.where()}: {call.path}: {item.message}" for item in caught)
    return part
