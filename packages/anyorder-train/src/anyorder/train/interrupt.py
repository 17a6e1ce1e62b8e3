"""Stopping a run between two steps when a signal asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["StopRequest", "stop_on_signals"]


class StopRequest:
    """Which signal has asked the run to stop; None if none has."""

    def __init__(self) -> None:
        self.signum: int | None = None


@contextmanager
def stop_on_signals(told: Callable[[str], None]) -> Iterator[StopRequest]:
    """Note the first SIGINT or SIGTERM instead of dying of it; a second one interrupts at once.

    Outside the main thread, where Python allows no handlers, nothing is changed.

    Args:
        told: gets one line to show when a signal arrives.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(signum: int, frame: FrameType | None) -> None:
        if request.signum is not None:
            raise KeyboardInterrupt
        request.signum = signum
        told(f"{signal.Signals(signum).name}: stopping after this step with a checkpoint; once more to stop at once")

    before = {signum: signal.signal(signum, note) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
