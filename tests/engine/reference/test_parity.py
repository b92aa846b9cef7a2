"""The pure function does what the recorded descheduler did, on every facet of every trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.engine.klog import parse, reports
from fixtures.engine.reference.parity.compare import compare, differences, expected
from fixtures.engine.reference.parity.runner import Cycle, run
from fixtures.engine.reference.parity.table import TraceError, read, table

GOLDEN = Path(__file__).parents[2] / "golden"
TRACES = sorted(p.stem for p in GOLDEN.glob("*.yaml"))
VERSIONS = ("0.36.0", "0.35.1", "0.34.0", "master")
CACHE: dict[str, dict[str, Any]] = {}


def trace(name: str) -> dict[str, Any]:
    if name not in CACHE:
        CACHE[name] = read(GOLDEN / f"{name}.yaml")
    return CACHE[name]


def test_traces_are_there() -> None:
    assert len(TRACES) >= 104


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", TRACES)
def test_every_facet_agrees(name: str, version: str) -> None:
    found = compare(trace(name), version, run(trace(name), version))
    assert found is not None, f"{name} has no recording of {version}"
    assert {facet: d for facet, d in found.items() if d} == {}


@pytest.mark.parametrize("version", ["0.32.2", "0.33.0", *VERSIONS])
@pytest.mark.parametrize("name", TRACES)
def test_the_report_equals_the_one_read_from_the_log(name: str, version: str) -> None:
    for cycle in run(trace(name), version):
        read_back = reports(cycle.log)[-1].to_dict() if cycle.log else {}
        ours = cycle.report.to_dict()
        for facts in (read_back, ours):
            facts.pop("exitCode", None)
            facts["posts"] = []
        assert list(differences(ours, read_back)) == []


@pytest.mark.parametrize("name", TRACES)
def test_no_line_is_unknown_to_the_reader(name: str) -> None:
    for version in ("0.32.2", "0.33.0", "0.36.0"):
        for cycle in run(trace(name), version):
            assert [line for report in reports(cycle.log) for line in report.unparsed] == []


def test_a_difference_is_named_by_facet_and_place() -> None:
    name = "exit-none-overutilized"
    changed = {**trace(name), "policy": trace(name)["policy"].replace("targetThresholds: {cpu: 50", "targetThresholds: {cpu: 25")}
    found = compare(changed, "0.36.0", run(changed))
    assert found is not None
    assert any("criteriaTarget.cpu" in d for d in found["classification"])
    assert found["log"]


def test_the_table_counts_and_shows() -> None:
    found = table(GOLDEN)
    assert found.agrees
    assert found.score("requests") == (len(TRACES), len(TRACES))
    assert found.to_dict()["facets"]["log"] == {"agree": len(TRACES), "of": len(TRACES)}
    assert f"{len(TRACES)}/{len(TRACES)}" in found.text().splitlines()[-1]


def test_a_release_that_was_not_recorded_is_no_disagreement(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text((GOLDEN / "exit-single-node.yaml").read_text())
    found = table(tmp_path, version="0.33.0")
    assert found.rows[0].differences is None
    assert found.agrees


def test_trouble_is_told_and_counts(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "odd.yaml").write_text("nodes: [{name: n1}]\nexpected: {cycles: []}\ncycles: [{changes: [{explode: 1}]}]\n")
    found = table(tmp_path)
    assert not found.agrees
    assert [bool(row.trouble) for row in found.rows] == [True, True]
    assert "unknown change explode" in found.rows[1].trouble


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no .*yaml"):
        table(tmp_path)


def test_a_recording_of_another_release_as_base_is_found() -> None:
    assert expected({"expected": {"descheduler": "v0.33.0", "cycles": []}}, "0.33.0") is not None


PLAIN = """
nodes: [{name: n1, cpu: '4', memory: 8Gi, pods: 110}, {name: n2, cpu: '4', memory: 8Gi, pods: 110}]
gate: true
mode: deployment
intervalSeconds: 5
pods: [{name: launcher-a, node: n1, requests: {cpu: 500m}, vm: {name: a, marked: true}}]
cycles: [{}, {changes: [{patchPod: {pod: launcher-a, phase: Succeeded}}, {deletePods: [launcher-a]}]}, {changes: [{sleep: 20m}]}]
policy: |
  apiVersion: descheduler/v1alpha2
  kind: DeschedulerPolicy
  profiles:
  - name: p
    pluginConfig:
    - {name: DefaultEvictor, args: {minReplicas: 1, evictFailedBarePods: true}}
expected: {cycles: []}
"""


def synthetic(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load(PLAIN), **changes}


def messages(cycle: Cycle) -> list[str]:
    return [entry.message for entry in parse(cycle.log)]


def test_events_between_cycles_come_one_by_one() -> None:
    first, second, _ = run(synthetic())
    assert "Eviction in background detected. Adding pod to the cache." in messages(first)
    assert "Pod with eviction in background completed. Removing pod from the cache." in messages(second)
    assert not any("deleted/evicted" in m for m in messages(second))
    assert (first.report.eviction_requests, second.report.eviction_requests) == (1, 0)


def test_a_dry_run_builds_and_listens_twice_since_035() -> None:
    warning = "Warning: EvictFailedBarePods is set to True. This could cause eviction of pods without ownerReferences."
    detected = "Eviction in background detected. Adding pod to the cache."
    for version, times in (("0.36.0", 2), ("0.34.0", 1)):
        first, second, _ = run(synthetic(extraArgs=["--dry-run"]), version)
        assert messages(first).count(detected) == times
        assert messages(first).count(warning) == times
        assert ("Restoring evicted pods from cache" in messages(second)) is (times == 2)
        assert "Building a cached client from the cluster for the dry run" in messages(first)


def test_what_loading_logs_comes_first() -> None:
    first, *_ = run(synthetic())
    assert messages(first)[0].startswith("DefaultEvictor minReplicas must be greater than 1")


def test_a_process_that_ended_says_nothing_more() -> None:
    nodes = [{"name": "n1", "cpu": "4"}]
    first, second, third = run(synthetic(nodes=nodes), "0.33.0")
    assert messages(first)[-1] == "the cluster size is 0 or 1"
    assert second.log.count("\n") == 1
    assert third.report.exit_code == 0
