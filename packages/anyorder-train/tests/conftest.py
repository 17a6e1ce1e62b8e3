"""Makes ``small_training`` and ``scored_by_hand`` importable from the tests beside them, and runs quick."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a run the second that its curves take."""
    from anyorder.train import loop

    monkeypatch.setattr(loop, "draw_curves", lambda *args, **kwargs: [])
