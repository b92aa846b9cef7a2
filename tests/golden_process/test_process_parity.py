"""The process against an API server does what the recorded descheduler did, on every facet of every trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.replay.engines import in_process, subprocesses
from fixtures.cluster.replay.world import World
from fixtures.engine.reference.parity.compare import compare
from fixtures.engine.reference.parity.runner import Cycle
from fixtures.engine.reference.parity.table import read
from fixtures.engine.reference.process import parity

GOLDEN = Path(__file__).parents[1] / "golden"
TRACES = sorted(p.stem for p in GOLDEN.glob("*.yaml"))
VERSIONS = ("0.36.0", "0.35.1", "0.34.0", "master")
CACHE: dict[str, dict[str, Any]] = {}


def trace(name: str) -> dict[str, Any]:
    if name not in CACHE:
        CACHE[name] = read(GOLDEN / f"{name}.yaml")
    return CACHE[name]


def wrong(name: str, version: str, cycles: list[Cycle]) -> dict[str, list[str]]:
    found = compare(trace(name), version, cycles)
    assert found is not None, f"{name} has no recording of {version}"
    return {facet: differences for facet, differences in found.items() if differences}


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", TRACES)
def test_every_facet_agrees(name: str, version: str) -> None:
    assert wrong(name, version, in_process(trace(name), version)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_facet_agrees_where_the_server_has_only_json(name: str) -> None:
    assert wrong(name, "0.36.0", in_process(trace(name), "0.36.0", protobuf=False)) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bg-deployment-cache",  # one process, its interval slept through, ended by SIGTERM
        "bg-next-cycle-cronjob",
        "bounded-vm-policy",
        "ev-extra-pvc",
        "pdb-blocks-some",
        "policy-no-thresholds",
        "policy-unknown-feature-gate",
    ],
)
def test_processes_of_the_operating_system_agree(name: str) -> None:
    assert wrong(name, "0.36.0", subprocesses(trace(name), "0.36.0")) == {}


def test_requests_come_from_the_server_with_bodies_and_answers() -> None:
    (cycle,) = in_process(trace("pdb-blocks-some"), "0.36.0")
    assert [post.code for post in cycle.report.posts][:2] == [201, 429]
    assert cycle.report.posts[1].reason == "TooManyRequests"
    assert all(post.eviction and post.eviction["kind"] == "Eviction" for post in cycle.report.posts)


def test_an_object_that_the_server_refuses_is_named() -> None:
    with pytest.raises(ValueError, match=r"refuses an object of the trace: POST /api/v1/nodes: Node .*Not_A_Name"):
        World({"nodes": [{"name": "Not_A_Name", "cpu": "4"}]})


def test_the_command_replays_a_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.yaml").write_text((GOLDEN / "bg-gate-on.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert parity.main([str(tmp_path), "--process", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["agrees"], found["facets"]["log"]) == (True, {"agree": 1, "of": 1})
