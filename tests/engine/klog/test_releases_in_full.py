"""One log per release and format with everything that release says: each message is known, and every cycle reads as it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.engine import klog

RELEASES = Path(__file__).parent / "releases"
LISTED: dict[str, list[Any]] = yaml.safe_load((RELEASES / "listed.yaml").read_text(encoding="utf-8"))
MINORS = (32, 33, 34, 35, 36)
FORMATS = ("log", "jsonl")
#: Lost in JSON since 0.33: their keys are no plain strings in the original.
TYPED = ("criteriaUnder", "criteriaTarget", "assessed")


def log(minor: int, form: str) -> str:
    return (RELEASES / f"0.{minor}.{form}").read_text(encoding="utf-8")


def expected(minor: int, form: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((RELEASES / f"0.{minor}.yaml").read_text(encoding="utf-8"))
    for one in found:
        one["posts"] = []
        for done in one["passes"] if form == "jsonl" and minor >= 33 else ():
            for key in TYPED:
                done.pop(key, None)
    return found


def said_by(minor: int, kind: str) -> Iterator[str]:
    """What is listed for that release."""
    for row in LISTED[kind]:
        if row.get("since", 0) <= minor <= row.get("until", 99):
            yield row["say"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("minor", MINORS)
def test_every_cycle_reads_as_it_should(minor: int, form: str) -> None:
    found = klog.reports(log(minor, form), exit_code=0)
    assert [line for report in found for line in report.unparsed] == []
    assert [report.to_dict() for report in found] == expected(minor, form)
    assert "".join(report.log for report in found) == log(minor, form)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("minor", MINORS)
def test_every_message_that_is_listed_for_a_release_occurs_in_its_log_and_no_other(minor: int, form: str) -> None:
    entries = klog.parse(log(minor, form))
    messages = {entry.message for entry in entries}
    assert sorted(set(said_by(minor, "messages")) - messages) == []
    others = {row["say"] for row in LISTED["messages"]} - set(said_by(minor, "messages"))
    assert sorted(others & messages) == []
    values = [value for entry in entries for value in entry.fields.values() if isinstance(value, str)]
    missing = [say for say in said_by(minor, "values") if not any(as_pattern(say).fullmatch(value) for value in values)]
    assert missing == []


def as_pattern(say: str) -> re.Pattern[str]:
    return re.compile(re.escape(say).replace(re.escape("..."), ".+"))


@pytest.mark.parametrize("minor", MINORS)
def test_what_a_log_says_beyond_the_list_is_known_too(minor: int) -> None:
    """The list is what the releases have in common with the recordings; nothing stands in a log for no reason."""
    beyond = {entry.message for entry in klog.parse(log(minor, "log"))} - set(said_by(minor, "messages"))
    assert {message.partition(" ")[0] for message in beyond} <= {"descheduler"}, "the warning about the cluster's version"


@pytest.mark.parametrize("fatal", LISTED["refusals"])
def test_a_process_that_does_not_start_says_why_in_both_formats(fatal: str) -> None:
    quoted = json.dumps(fatal)
    text = "".join(
        f'E1201 08:10:01.000000       1 {file}:1] "{message}" err={quoted}\n'
        for file, message in (("server.go", "failed to run descheduler server"), ("run.go", "command failed"))
    )
    record = {"ts": 1796112601000.5, "caller": "cli/run.go:72", "msg": "command failed", "err": fatal}
    for written in (text, json.dumps(record) + "\n"):
        (found,) = klog.reports(written, exit_code=1)
        assert (found.fatal, found.exit_code, found.unparsed, found.passes) == (fatal, 1, [], [])


@pytest.mark.parametrize("fatal", LISTED["bad_flags"])
def test_bad_flags_are_told_before_there_is_a_log(fatal: str) -> None:
    (found,) = klog.reports(f"Error: {fatal}\n", exit_code=1)
    assert (found.fatal, found.unparsed) == (fatal, [])


# ---- what stands around it in a real log

FOREIGN = (
    "WARNING: something of the container runtime\n",
    '{"level":"info","ts":"2026-12-01T08:10:00Z","msg":"a proxy beside it"}\n',
    'I1201 08:10:00.000000       1 reflector.go:1] "Caches populated" type="*v1.Pod"\n',
    "goroutine 7 [select]:\n\tmain.main()\n",
    "\x00\x1b[31m binary \ufffd\n",
)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("minor", MINORS)
def test_megabytes_of_foreign_lines_and_a_last_line_in_part_change_nothing(minor: int, form: str) -> None:
    lines = log(minor, form).splitlines(keepends=True)
    noise = "".join(FOREIGN) * 150
    partial = (
        '{"ts":1,"msg":"Number of evi' if form == "jsonl" else 'I1201 08:59:59.000000       1 descheduler.go:9] "Number of evi'
    )
    text = "".join(line + (noise if number % 3 == 0 else FOREIGN[number % 5]) for number, line in enumerate(lines)) + partial
    assert len(text) > 1_000_000
    found = klog.reports(text, exit_code=0)
    assert [report.to_dict() for report in found[: len(expected(minor, form))]] == expected(minor, form)
    unparsed = [line for report in found for line in report.unparsed]
    assert unparsed[-1] == partial
    assert not any(line in lines for line in (f"{u}\n" for u in unparsed))


@pytest.mark.parametrize("minor", MINORS)
def test_what_the_informers_say_may_stand_anywhere(minor: int) -> None:
    """Pod events are told by another goroutine, in the middle of a node's turn as well."""
    told = 'I1201 08:10:00.000000       1 evictions.go:9] "Eviction in background detected. Updating the cache." pod="vms/z"\n'
    text = "".join(told + line for line in log(minor, "log").splitlines(keepends=True))
    found = klog.reports(text, exit_code=0)
    assert [report.to_dict() for report in found] == expected(minor, "log")
