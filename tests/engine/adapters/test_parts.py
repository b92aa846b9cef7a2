"""Following a log and finding the container."""

from __future__ import annotations

import pytest

from fixtures.engine.container import engine_container, exit_code, hopeless, restarts, running, standing
from fixtures.engine.following import Following


def lines(first: int, last: int) -> str:
    return "".join(f"I0102 15:04:{n // 60:02d}.{n:06d}       1 a.go:1] line {n}\n" for n in range(first, last))


@pytest.mark.parametrize(
    "reads",
    [
        [lines(0, 10), lines(0, 20), lines(0, 30)],
        [lines(0, 10), lines(0, 10), lines(0, 30)],
        [lines(0, 20), lines(15, 30)],
        [lines(0, 20), lines(20, 30)],
        [lines(0, 100), lines(50, 120)],
        ["", lines(0, 3), "", lines(3, 30)],
        [lines(0, 20)[:-7], lines(0, 30)],
    ],
)
def test_every_line_is_seen_once_across_rotation_and_restart(reads: list[str]) -> None:
    log = Following()
    for read in reads:
        log.add(read)
    assert log.text == lines(0, int(reads[-1].split()[-1]) + 1)


def test_cycles_count_once_they_are_complete() -> None:
    log = Following()
    end = 'I0102 15:04:05.000000       1 descheduler.go:1] "Number of evictions/requests" totalEvicted=0 evictionRequests=0\n'
    log.add(end[:-1])
    assert log.complete() == []
    log.add(end)
    assert len(log.complete()) == 1


CONTAINERS = [
    ([{"name": "x", "image": "y"}], "x"),
    ([{"name": "a", "image": "proxy"}, {"name": "b", "image": "r/descheduler:v1"}], "b"),
    ([{"name": "a", "image": "proxy"}, {"name": "descheduler", "image": "r/engine:v1"}], "descheduler"),
    (
        [
            {"name": "descheduler-proxy", "image": "r/descheduler-proxy"},
            {"name": "b", "image": "r/x", "command": ["/bin/descheduler"]},
        ],
        "b",
    ),
]


@pytest.mark.parametrize(("containers", "name"), CONTAINERS)
def test_the_container_is_found(containers: list[dict[str, object]], name: str) -> None:
    assert engine_container({"containers": containers})["name"] == name


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": [{"name": "a"}, {"name": "b"}]}])
def test_a_container_is_not_guessed(spec: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot tell which container"):
        engine_container(spec)


def test_how_a_container_fares() -> None:
    ended = {"status": {"containerStatuses": [{"name": "c", "restartCount": 2, "state": {"terminated": {"exitCode": 1}}}]}}
    assert (exit_code(ended, "c"), restarts(ended, "c"), running(ended, "c")) == (1, 2, False)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    stuck = {"status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}}
    assert hopeless(stuck, "c") == "ImagePullBackOff: no such image"
    assert standing(stuck, "c") == "Pending, waiting: ImagePullBackOff"
    assert exit_code({}, "c") is None
    assert standing({}, "c") == "Unknown"
