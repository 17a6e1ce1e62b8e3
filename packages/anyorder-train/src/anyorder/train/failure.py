"""Why a run stopped. A run that fails is not a mistake in its recipe: the command line exits with 1, not 2."""

from __future__ import annotations

import errno
import signal

__all__ = ["DiskFullError", "Interrupted", "NonFiniteError", "TrainingError", "disk_full"]


class TrainingError(RuntimeError):
    """A run failed while it ran. What was saved before is intact; the message says where and what to try."""


class NonFiniteError(TrainingError):
    """The loss or the gradient was not a finite number. The weights were not touched by that step."""


class DiskFullError(TrainingError):
    """The disk filled up while something was written. The half-written file has been removed."""


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop by a signal, and stopped between two steps after saving a checkpoint."""

    def __init__(self, message: str, *, signum: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signum = signum


def disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no space left (or no quota), be it Python's or safetensors'."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return type(error).__name__ == "SafetensorError" and any(
        f"os error {number}" in str(error) for number in (errno.ENOSPC, errno.EDQUOT)
    )
