"""For every test: what tests of pytest plugins need, and of signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

pytest_plugins = ("pytester",)


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """SIGHUP ends a process, also where the tests themselves were started so that it does not (nohup)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
