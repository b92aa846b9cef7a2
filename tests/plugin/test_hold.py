"""Ending a hold: Ctrl-C, SIGTERM, and Ctrl-C where it was ignored."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from fixtures.holding import Holdable, hold


class Held:
    kubeconfig = Path("kubeconfig")

    def __init__(self, number: signal.Signals) -> None:
        self.number, self.ended = number, False

    def hold(self) -> None:
        try:
            signal.raise_signal(self.number)
            threading.Event().wait(5)
        finally:
            self.ended = True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_hold_and_handlers_are_put_back(number):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cluster = Held(number)
        assert isinstance(cluster, Holdable)
        hold(cluster)
        assert cluster.ended
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cluster_that_cannot_be_held_is_recognised():
    assert not isinstance(object(), Holdable)
