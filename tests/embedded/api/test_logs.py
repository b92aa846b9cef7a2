"""Container logs: bounded, and cheap also where a process prints without end."""

from __future__ import annotations

from fixtures.embedded.api import logs
from fixtures.embedded.api.logs import LogStore
from fixtures.embedded.clock import Clock


def test_the_oldest_lines_go_first_and_those_who_follow_miss_nothing_that_is_left(monkeypatch):
    monkeypatch.setattr(logs, "_LIMIT", 1000)
    monkeypatch.setattr(logs, "_SLACK", 100)
    store = LogStore(Clock())
    for number in range(150):
        store.append("uid", "c", b"line %04d\n" % number)
    seen = store.count("uid", "c")
    assert seen == 150
    assert 1000 <= len(store.read("uid", "c")) <= 1100
    assert store.read("uid", "c").endswith(b"line 0149\n")
    store.append("uid", "c", b"one more\n")
    assert store.read("uid", "c", start=seen) == b"one more\n"
    assert store.read("uid", "c", start=3) == store.read("uid", "c")
