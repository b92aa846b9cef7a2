"""A signal during roll-back is put off, told, and not forgotten."""

from __future__ import annotations

import signal

import pytest

from fixtures.scenario.signals import PATIENCE, STOPPING, rolling_back_on_signals

pytestmark = pytest.mark.usefixtures("hang_ups")


def roll_back(*signals: signal.Signals, trouble: Exception | None = None) -> list[str]:
    steps: list[str] = []
    try:
        with rolling_back_on_signals() as handled:
            handled.undisturbed = True
            for number in signals:
                signal.raise_signal(number)
            steps.append("put back")
            if trouble is not None:
                raise trouble
    except KeyboardInterrupt as interrupted:
        steps.append(str(interrupted))
    return steps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("trouble", [None, ValueError("of the run")])
def test_the_run_ends_once_everything_is_back(
    number: signal.Signals, trouble: Exception | None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert roll_back(number, trouble=trouble) == ["put back", number.name]
    assert f"{number.name}: {PATIENCE}" in capfd.readouterr().err


def test_the_first_signal_says_what_it_starts(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), rolling_back_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert f"SIGTERM: {STOPPING}" in capfd.readouterr().err


def test_a_second_signal_abandons_the_roll_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert roll_back(signal.SIGTERM, signal.SIGTERM) == ["SIGTERM"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert roll_back(signal.SIGHUP) == ["put back"]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_a_signal_nothing_is_raised() -> None:
    assert roll_back() == ["put back"]
