"""CronJob schedules: those that never start a run, and when the next one is due."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest

from fixtures.kube import schedules

NOW = datetime(2026, 3, 28, 23, 59, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "fine"),
    [("*/2 * * * *", True), ("@hourly", True), ("@every 90s", True), ("0 0 31 2 *", False), ("* * * *", False), ("", False),
     ("* * * * * *", False), ("61 * * * *", False), ("@every 0s", False), ("@every soon", False), ("@reboot", False)],
)  # fmt: skip
def test_schedules_that_never_start_a_run_are_told(schedule: str, fine: bool) -> None:
    assert (schedules.problem(schedule) == "") is fine


@pytest.mark.parametrize(
    ("schedule", "zone", "seconds"),
    [
        ("*/2 * * * *", "", 30),
        ("@hourly", "", 30),
        (" @every 90s ", "", 90),
        ("0 2 * * *", "", 2 * 3600 + 30),
        ("0 3 * * *", "Europe/Berlin", 3600 + 30),  # that night two o'clock is followed by three: the clock goes forward
        ("30 0 * * *", "Asia/Shanghai", 16 * 3600 + 1830),
    ],
)
def test_the_next_run(schedule: str, zone: str, seconds: int) -> None:
    if zone and zone not in zoneinfo.available_timezones():
        pytest.skip("this machine knows no time zones")
    assert schedules.next_run(schedule, NOW, zone) - NOW == seconds


@pytest.mark.parametrize(("schedule", "zone", "says"), [("@reboot", "", "starts no run"), ("@daily", "Mars/Base", "'Mars/Base'")])
def test_no_next_run(schedule: str, zone: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        schedules.next_run(schedule, NOW, zone)
