"""After the tests, the page of their differences, where PARITY_TABLE names a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .ledger import write_page


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    wanted = os.environ.get("PARITY_TABLE")
    if wanted and exitstatus == 0:
        write_page(Path(wanted))
