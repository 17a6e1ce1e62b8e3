"""A whole fine-tuning run, from a pretrained run and a recipe to a folder of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anyorder.core import CheckpointError, DataError
from anyorder.data import Tokenizer
from anyorder.data.features import encode_pair
from anyorder.models import Pretrained

from ..atomic import sole_owner, write_json, write_text
from ..distributed import Team
from ..metrics_log import MetricsLog
from .classifier import Classifier
from .examples import Example, read_examples
from .recipe import FineTuning, Task
from .start import Start
from .tuner import Labelled

__all__ = ["FineTuned", "finetune"]


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """Accuracy on the dev examples after the last epoch, and how many examples and steps there were."""

    accuracy: float
    train: int
    dev: int
    steps: int


def finetune(
    recipe: FineTuning, *, pretrained: Path, folder: Path, note: Callable[[str], None] = lambda _: None
) -> FineTuned:
    """Fine-tune, and leave ``recipe.yaml``, ``metrics.jsonl``, ``labels.json`` and ``model/`` in ``folder``.

    Args:
        recipe: the task and how to train on it.
        pretrained: folder of the run, or of the imported model, to start from.
        folder: new, or empty.
        note: told a line now and then.

    Raises:
        CheckpointError: ``pretrained`` is neither, or ``folder`` holds something already.
        DataError: the examples cannot be read.
    """
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f"{folder} is not empty: choose another folder with --out, or remove it yourself")
    task, tuner = recipe.task, recipe.tuner
    fields = {"text": task.text, "pair": task.pair, "label": task.label}
    train, dev = (read_examples(path, **fields) for path in (task.train, task.dev))  # type: ignore[arg-type]
    names = sorted({example.label for example in train})
    if len(names) < 2:
        raise DataError(f"{task.train}: all examples have the label {names[0]!r}; there is nothing to tell apart")

    device = Team.join(tuner.device).device
    start = Start.load(pretrained)
    torch.manual_seed(recipe.seed)
    model = Classifier(
        start.backbone(dropout=tuner.dropout, device=device),
        cls_id=start.tokenizer.vocab.cls,
        classes=len(names),
        n_head=start.architecture.n_head,
        pooling=recipe.head.pooling,
        project=recipe.head.project,
        dropout=recipe.head.dropout,
    ).to(device)
    data = encode(train, names, start.tokenizer, task, path=task.train)
    held_out = encode(dev, names, start.tokenizer, task, path=task.dev)

    with sole_owner(folder):
        write_text(folder / "recipe.yaml", recipe.dump())
        log = MetricsLog(folder / "metrics.jsonl", after=0)

        def record(values: dict[str, float]) -> None:
            log.write(values)
            note("  ".join(f"{key} {value:.4g}" for key, value in values.items()))

        try:
            accuracy = tuner.fit(
                model,
                data,
                held_out,
                optimizer=recipe.optimizer,
                schedule=recipe.schedule,
                seed=recipe.seed,
                note=record,
            )
            log.sync()
        finally:
            log.close()
        save_model(folder / "model", model, names=names, start=start, task=task)
    return FineTuned(accuracy=accuracy, train=len(data), dev=len(held_out), steps=tuner.steps(len(data)))


def encode(
    examples: Sequence[Example], names: Sequence[str], tokenizer: Tokenizer, task: Task, *, path: Path
) -> Labelled:
    """Examples as rows and numbers of classes. Raises ``DataError`` for a label that ``train`` does not have."""
    numbers = {name: number for number, name in enumerate(names)}
    unknown = sorted({example.label for example in examples} - numbers.keys())
    if unknown:
        raise DataError(f"{path}: the label {unknown[0]!r} is not one of the training file's ({', '.join(names)})")
    rows = [encode_pair(tokenizer, example.text, example.pair, length=task.length) for example in examples]
    return Labelled(rows=rows, labels=[numbers[example.label] for example in examples])


def save_model(folder: Path, model: Classifier, *, names: Sequence[str], start: Start, task: Task) -> None:
    """Write the weights as a model folder, and the names of the classes beside it."""
    Pretrained(
        architecture=start.architecture,
        state=model.state_dict(),
        tokenizer=start.tokenizer.model,
        tokenizer_settings=start.tokenizer.settings,
        source=f"{start.source}, fine-tuned on {task.train.name}",
    ).save(folder)
    write_json(folder.parent / "labels.json", list(names))
