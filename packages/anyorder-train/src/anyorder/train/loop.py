"""The training loop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from anyorder.core import Draws

from .curves import draw_curves
from .distributed import Team
from .evaluate import RowSource, evaluate
from .failure import Interrupted
from .finite import require_finite
from .fit_result import CHECKPOINTS, METRICS, FitResult
from .interrupt import StopRequest
from .metrics_log import MetricsLog
from .objective import Objective
from .progress import RunProgress
from .resumption import save_loop
from .schedule import Schedule
from .share import Share, blind_predictions, prepare_share
from .tracking import TrackedRun

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Loop", "seed_dropout"]

_UNTRACKED = ("step", "time", "seconds")


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
                    save_loop(self, log)
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
        require_finite(
            objective,
            step=number,
            loss=loss,
            means=means,
            norm=norm.item(),
            last_saved=self.last_saved,
            precision=self.settings.precision,
        )
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

    def _is_due(self, every: int | None) -> bool:
        return self.step == self.settings.steps or (every is not None and self.step % every == 0)

    def _gradients_stay_here(self, stay: bool) -> AbstractContextManager[None]:
        """Whether the next backward pass leaves gradients unshared, as all but a step's last do."""
        if stay and isinstance(self.model, DistributedDataParallel):
            return self.model.no_sync()
        return nullcontext()

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
