"""Virtual time: it moves only when driven, in a repeatable order."""

from __future__ import annotations

import threading
import time

import pytest

from fixtures.embedded.clock import BEHIND_WALL, Clock, parse, stamp


def test_default_epoch_lies_two_days_behind_the_wall_clock() -> None:
    clock = Clock()
    assert clock.now() == int(clock.now())
    assert abs(time.time() - BEHIND_WALL - clock.now()) < 2


def test_stamps() -> None:
    clock = Clock(epoch=1_796_040_000.25)
    assert clock.stamp() == "2026-11-30T12:00:00Z"
    assert clock.micro() == "2026-11-30T12:00:00.250000Z"
    assert parse(stamp(1_796_040_000)) == 1_796_040_000


def test_timers_run_by_time_and_then_in_the_order_of_their_making() -> None:
    clock, ran = Clock(epoch=0), list[str]()
    for delay, name in ((2, "c"), (1, "a"), (1, "b")):
        clock.later(delay, lambda name=name: ran.append(f"{name}@{clock.now():g}"))
    clock.advance(5)
    assert ran == ["a@1", "b@1", "c@2"]
    assert clock.now() == 5


def test_step_moves_to_the_next_instant_only() -> None:
    clock, ran = Clock(epoch=0), list[float]()
    clock.later(1, lambda: ran.append(clock.now()))
    clock.later(3, lambda: ran.append(clock.now()))
    assert clock.step()
    assert (ran, clock.now(), clock.next_at()) == ([1], 1, 3)
    assert not clock.step(limit=2)
    assert clock.step(limit=3)
    assert not clock.step()
    assert ran == [1, 3]


def test_timers_made_for_the_same_instant_wait_for_the_next_step() -> None:
    clock, ran = Clock(epoch=0), list[str]()

    def again() -> None:
        ran.append("x")
        clock.later(0, again)

    clock.later(0, again)
    assert clock.step()
    assert ran == ["x"]
    assert clock.next_at() == 0


def test_cancelled_timers_do_not_run_even_within_their_instant() -> None:
    clock, ran = Clock(epoch=0), list[str]()
    later = [clock.later(1, lambda: ran.append("second"), label="second")]
    clock.later(0.5, lambda: ran.append("first"))
    same = clock.later(1, lambda: ran.append("third"))
    clock.later(1, lambda: ran.append("fourth"))
    later[0].cancel()
    same.cancel()
    assert [timer.at for timer in clock.pending()] == [0.5, 1]
    clock.advance(2)
    assert ran == ["first", "fourth"]


def test_what_an_action_raises_reaches_the_driver() -> None:
    clock = Clock(epoch=0)
    clock.later(1, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clock.advance(2)


def test_only_one_thread_drives_at_a_time() -> None:
    clock, inside, most = Clock(epoch=0), [0], [0]

    def action() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        inside[0] -= 1

    for n in range(20):
        clock.later(n, action)
    threads = [threading.Thread(target=clock.advance, args=(10,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert clock.now() >= 10


def test_scaled_time_passes_by_itself_and_stands_still_again() -> None:
    clock, ran = Clock(epoch=0), threading.Event()
    clock.later(10, ran.set)
    clock.run_scaled(1000)
    assert ran.wait(5)
    clock.later(10, ran.clear)
    clock.advance(20)
    clock.stop_scaled()
    assert not ran.is_set()
    now = clock.now()
    assert now >= 30
    assert clock.now() == now


def test_backwards_is_refused() -> None:
    with pytest.raises(ValueError, match="forwards"):
        Clock().run_scaled(0)
