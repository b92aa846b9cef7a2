"""Every cycle recorded from the real descheduler: the facts read from its log are the recorded facts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.engine import klog

GOLDEN = Path(__file__).parents[2] / "golden"
NOT_IN_THE_LOG = {"log", "metrics", "evictionObject"}

KlogText = Callable[[Iterable[str]], str]


def traces() -> list[Path]:
    return sorted(GOLDEN.glob("*.yaml"))


@pytest.fixture(params=traces(), ids=lambda path: path.stem)
def trace(request: pytest.FixtureRequest) -> dict[str, Any]:
    return yaml.CSafeLoader(request.param.read_text(encoding="utf-8")).get_single_data()


def test_traces_are_there() -> None:
    assert len(traces()) >= 100


def recorded(cycle: dict[str, Any]) -> dict[str, Any]:
    facts = {k: v for k, v in cycle.items() if k not in NOT_IN_THE_LOG} | {"posts": []}
    for one in facts.get("passes", []):
        one.pop("fitsNowhere", None)  # the lines it comes from are not in the recorded log
    return facts


def test_facts_of_the_log_are_the_recorded_facts(trace: dict[str, Any], klog_text: KlogText) -> None:
    for cycle in trace["expected"]["cycles"]:
        found = klog.report(klog_text(cycle["log"]), exit_code=cycle.get("exitCode"))
        assert found.to_dict() == recorded(cycle)
        assert found.unparsed == []


def test_a_log_of_several_cycles_gives_one_report_each(trace: dict[str, Any], klog_text: KlogText) -> None:
    cycles = trace["expected"]["cycles"]
    if any("totalEvicted" not in cycle for cycle in cycles):
        cycles = cycles[-1:]
    found = klog.reports(klog_text(line for cycle in cycles for line in cycle["log"]), exit_code=cycles[-1].get("exitCode"))
    if trace.get("mode") != "deployment":
        cycles = [{k: v for k, v in c.items() if k != "exitCode" or c is cycles[-1]} for c in cycles]
    assert [r.to_dict() for r in found] == [recorded(cycle) for cycle in cycles]


def test_lines_that_only_other_releases_wrote_are_understood(trace: dict[str, Any], klog_text: KlogText) -> None:
    for other in trace["expected_other_versions"].values():
        lines = [line[1:] for cycle in other.get("logDiff", []) for line in cycle if line.startswith("+")]
        found = klog.parse(klog_text(lines))
        assert [e.text for e in found if not e.whole] == []
        unknown = [text for r in klog.reports(klog_text(lines)) for text in r.unparsed]
        assert [text for text in unknown if "Updated node usage" not in text and "Pods on node" not in text] == []
