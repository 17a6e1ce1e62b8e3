"""The training loop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from anyorder.core import CheckpointError, Draws, map_tensors

from . import checkpoint
from .curves import draw_curves
from .distributed import Team
from .evaluate import RowSource, evaluate
from .failure import Interrupted, NonFiniteError
from .interrupt import StopRequest
from .metrics_log import MetricsLog
from .objective import Objective
from .progress import RunProgress
from .schedule import Schedule
from .share import Share, blind_predictions, join_memory, prepare_share, slice_memory
from .tracking import TrackedRun

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["CHECKPOINTS", "METRICS", "FitResult", "Loop"]

CHECKPOINTS, METRICS = "checkpoints", "metrics.jsonl"
_UNTRACKED = ("step", "time", "seconds")


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """What a run came to.

    Attributes:
        step: steps made in all, those before a resumption included.
        records: the metrics log.
        checkpoint: the last checkpoint.
        seconds: time spent in steps, evaluation and checkpoints left out.
        tokens: new tokens of the corpus that were read.
        peak_memory: in bytes: most memory allocated on the GPU or, without one, the largest resident size of the
            process right after a backward pass.
    """

    step: int
    records: list[dict[str, Any]]
    checkpoint: Path
    seconds: float
    tokens: int
    peak_memory: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


class Loop:
    """One run: weights, optimiser, memory and the step they have come to."""

    def __init__(
        self,
        settings: Trainer,
        objective: Objective,
        *,
        data: RowSource,
        valid: RowSource | None,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        seed: int,
        fingerprint: str,
        folder: Path,
        team: Team,
        rows: Sequence[range],
        tracker: TrackedRun,
        progress: RunProgress,
    ) -> None:
        self.settings, self.objective, self.data, self.valid = settings, objective, data, valid
        self.optimizer, self.schedule, self.seed, self.fingerprint = optimizer, schedule, seed, fingerprint
        self.folder, self.team, self.rows, self.tracker, self.progress = folder, team, rows, tracker, progress
        self.peak_rates = [group["lr"] for group in optimizer.param_groups]
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if settings.compile:
            objective.compile()
        self.model: nn.Module = objective
        if team.size > 1:  # a head may have nothing to predict on some process, so unused parameters are allowed
            self.model = DistributedDataParallel(objective, broadcast_buffers=False, find_unused_parameters=True)
        self.memories = [objective.empty_memory(len(part)) for part in rows]
        self.step = self.tokens = self.peak = 0
        self.seconds = 0.0
        self.window = [0, 0.0]  # tokens and seconds since the last step shown
        self.last_saved: Path | None = None

    def run(self, stop: StopRequest) -> FitResult:
        """Train from the present step to the last one."""
        settings, team = self.settings, self.team
        log = MetricsLog(self.folder / METRICS, after=self.step) if team.first else None
        self._replay(log)
        if team.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(team.device)
        self.progress.begin(steps=settings.steps, done=self.step)
        try:
            share = self.prepare(self.step) if self.step < settings.steps else None
            while share is not None:
                record, share, stopping = self.train_step(share, stop)
                if self._is_due(settings.eval_every) and self.valid is not None:
                    record |= {f"valid/{key}": value for key, value in self.evaluate().items()}
                self._tell(record, log)
                if self._is_due(settings.checkpoint_every) or stopping:
                    self.save(log)
                if stopping and share is not None:
                    name = signal.Signals(stop.signum or signal.SIGTERM).name
                    raise Interrupted(
                        f"stopped by {name} after step {self.step} of {settings.steps}; go on with --resume",
                        signum=stop.signum or signal.SIGTERM,
                    )
            return self._finish(log)
        finally:
            self.progress.end()
            if log is not None:
                log.close()

    def train_step(self, share: Share, stop: StopRequest) -> tuple[dict[str, Any], Share | None, bool]:
        """Make one step, and prepare the next on the CPU while a GPU computes.

        Returns:
            the step's record, the next share (None after the last step), and whether to stop.
        """
        started = time.perf_counter()
        objective, team, number = self.objective, self.team, self.step + 1
        shown = self.settings.shows(number)
        rates = [peak * self.schedule.factor(number, steps=self.settings.steps) for peak in self.peak_rates]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        seed_dropout(self.seed, self.step, rank=team.rank)
        weights = team.sum(share.weights)
        weight_of = dict(zip(objective.heads, weights, strict=True))
        sums: dict[str, Tensor] = {}
        blind = 0
        for index, part in enumerate(share.slices):
            memory = self.memories[index]
            if memory is not None:
                memory = memory.drop(part.fresh.to(team.device))
            streams = part.streams.to(team.device, non_blocking=True)
            if shown:
                blind += blind_predictions(streams, memory, heads=objective.heads)
            with self._gradients_stay_here(index + 1 < len(share.slices)):
                with self.autocast():
                    output = self.model(streams, memory)
                # DistributedDataParallel takes the mean over processes where the sum is wanted
                (objective.total(output.losses, weight_of) * team.size).backward()
            self.memories[index] = output.memory
            for name, loss in output.losses.items():
                for key, value in {f"loss/{name}": loss.loss_sum, **_prefixed(name, loss.metrics)}.items():
                    sums[key] = sums.get(key, 0.0) + value.detach().double()
        following = self.prepare(number) if number < self.settings.steps else None

        norm = nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or math.inf)
        counts = torch.tensor([share.tokens, share.targets, blind, stop.signum is not None], dtype=torch.float64)
        totals = team.sum(torch.cat([torch.stack(list(sums.values())), counts.to(team.device)])).tolist()
        tokens, targets, blind, stopping = (int(value) for value in totals[len(sums) :])
        heads = dict(zip(objective.heads, weights.tolist(), strict=True))
        means = {key: total / (heads[key.split("/")[1]] or 1.0) for key, total in zip(sums, totals, strict=False)}
        loss = sum(objective.head_weights[name] * means[f"loss/{name}"] for name in heads)
        self._require_finite(number, loss, means, norm.item())
        if team.device.type == "cpu":
            self.peak = max(self.peak, psutil.Process().memory_info().rss)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

        spent = time.perf_counter() - started
        self.step, self.tokens, self.seconds = number, self.tokens + tokens, self.seconds + spent
        self.window = [self.window[0] + tokens, self.window[1] + spent]
        record = {"step": number, "loss": loss, **means, "lr": rates[0], "grad_norm": norm.item()}
        record |= {"targets": targets, "tokens": tokens, "seconds": spent, "time": time.time()}
        record["tokens_per_second"] = self.window[0] / self.window[1]
        if shown:
            record["blind"], self.window = blind, [0, 0.0]
        return record, following, bool(stopping)

    def prepare(self, step: int) -> Share:
        """This process's share of step ``step``, from 0."""
        return prepare_share(self.objective, self.data, step=step, seed=self.seed, rows=self.rows)

    def evaluate(self) -> dict[str, float]:
        assert self.valid is not None
        with self.autocast():
            return evaluate(self.objective, self.valid, batches=self.settings.eval_batches, team=self.team)

    def autocast(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.team.device.type, dtype=torch.bfloat16)

    def save(self, log: MetricsLog | None) -> None:
        """Write a checkpoint of the present step."""
        memory = join_memory(self.memories)
        if memory is not None:
            memory = map_tensors(memory, self.team.join_rows)
        if log is not None:  # what a checkpoint stands for is on the disk before it
            log.sync()
            self.tracker.flush()
            self.last_saved = checkpoint.save(
                self.folder / CHECKPOINTS,
                step=self.step,
                model=self.objective,
                optimizer=self.optimizer,
                memory=memory,
                keep=self.settings.keep,
                state={
                    "seed": self.seed,
                    "fingerprint": self.fingerprint,
                    "steps": self.settings.steps,
                    "schedule": dict(vars(self.schedule)),
                    "seconds": self.seconds,
                    "tokens": self.tokens,
                    "torch": torch.__version__,
                },
            )
        self.team.wait()

    def restore(self) -> None:
        """Go back to the newest whole checkpoint; without any, stay at the start.

        Raises:
            CheckpointError: it is of another model, recipe, seed or number of rows, or none is whole.
        """
        root = self.folder / CHECKPOINTS
        found = checkpoint.latest(root)
        self.team.wait()  # nobody sets damaged ones aside while another still looks
        if self.team.first:
            checkpoint.tidy(root, after=0 if found is None else found.step)
        if found is None:
            self.progress.note(f"no checkpoint in {root}: starting from step 0")
            return
        for name, own in (("fingerprint", self.fingerprint), ("seed", self.seed)):
            if found.state[name] != own:
                what = "recipe" if name == "fingerprint" else "seed"
                raise CheckpointError(
                    f"{found.folder} was made with another {what} ({found.state[name]!r}, now {own!r}): resume with "
                    "the one it was made with, or choose another folder"
                )
        found.restore(self.objective, self.optimizer)
        memory, own_memory = found.memory(), self.memories[0]
        if (memory is None) != (own_memory is None):
            raise CheckpointError(f"{found.folder} was made {'without' if memory is None else 'with'} memory")
        if memory is not None and own_memory is not None:
            rows, wanted = memory.position.shape[0], self.settings.batch_size
            if rows != wanted or len(memory.layers) != len(own_memory.layers):
                raise CheckpointError(
                    f"{found.folder} remembers {rows} rows of {len(memory.layers)} layers; this run has {wanted} of "
                    f"{len(own_memory.layers)}"
                )
            self.memories = [slice_memory(memory, part).to(self.team.device) for part in self.rows]
        self.step, self.last_saved = found.step, found.folder
        self.seconds, self.tokens = found.state["seconds"], found.state["tokens"]
        self.progress.note(f"continuing from step {self.step} ({found.folder})")

    def _is_due(self, every: int | None) -> bool:
        return self.step == self.settings.steps or (every is not None and self.step % every == 0)

    def _gradients_stay_here(self, stay: bool) -> AbstractContextManager[None]:
        """Whether the next backward pass leaves gradients unshared, as all but a step's last do."""
        if stay and isinstance(self.model, DistributedDataParallel):
            return self.model.no_sync()
        return nullcontext()

    def _require_finite(self, step: int, loss: float, means: dict[str, float], norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        if math.isfinite(loss):
            names = [
                name
                for name, parameter in self.objective.named_parameters()
                if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
            ]
            what = f"the gradient is not finite ({', '.join(names[:3]) or 'its norm overflows'})"
        else:
            bad = [key for key, value in means.items() if not math.isfinite(value)]
            what = f"{', '.join(bad) or 'the loss'} is {loss}"
        saved = f"the last checkpoint is {self.last_saved}" if self.last_saved else "there is no checkpoint yet"
        remedy = "a smaller optimizer.lr, a longer schedule.warmup or a smaller train.clip"
        remedy += ", or train.precision fp32" if self.settings.precision != "fp32" else ""
        raise NonFiniteError(f"step {step}: {what}; {saved}. Try {remedy}")

    def _tell(self, record: dict[str, Any], log: MetricsLog | None) -> None:
        if log is not None:
            log.write(record)
        self.progress.step(record)
        if self.settings.shows(record["step"]):
            self.progress.report(record)
        self._track(record)

    def _track(self, record: dict[str, Any]) -> None:
        if self.settings.shows(record["step"]) or any(key.startswith("valid/") for key in record):
            values = {key: value for key, value in record.items() if key not in _UNTRACKED}
            self.tracker.metrics(values, step=record["step"])

    def _replay(self, log: MetricsLog | None) -> None:
        """Send what a killed process had no time to send; a tracker passes over what it has."""
        for record in log.records if log is not None else ():
            self._track(record)

    def _finish(self, log: MetricsLog | None) -> FitResult:
        assert self.last_saved is not None or log is None
        if log is not None and self.last_saved is not None:
            for file in draw_curves(log.records, self.folder, title=self.folder.name):
                self.tracker.artifact(file, folder="plots")
            self.tracker.artifact(log.path)
            for name in ("model.safetensors", "state.json"):
                self.tracker.artifact(self.last_saved / name, folder=f"checkpoints/{self.last_saved.name}")
            self.tracker.flush()
        cuda = self.team.device.type == "cuda"
        return FitResult(
            step=self.step,
            records=[] if log is None else log.records,
            checkpoint=self.last_saved or self.folder / CHECKPOINTS / f"step-{self.step:08d}",
            seconds=self.seconds,
            tokens=self.tokens,
            peak_memory=torch.cuda.max_memory_allocated(self.team.device) if cuda else self.peak,
        )


def seed_dropout(seed: int, step: int, *, rank: int) -> None:
    """Seed torch's generators from (seed, step, process): dropout is the same however a step is reached."""
    key = int(Draws(seed, step, rows=[rank], purpose="dropout").bits())
    torch.manual_seed(key & ((1 << 63) - 1))


def _prefixed(name: str, metrics: Any) -> dict[str, Tensor]:
    return {f"metric/{name}/{key}": value for key, value in metrics.items()}
