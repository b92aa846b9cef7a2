"""The reference engine in this process, against an API server on loopback."""

from __future__ import annotations

import pytest

from fixtures.engine.api import EngineTrouble, RebalancerEngine
from fixtures.engine.reference_engine import ReferenceEngine
from tests.engine.fakeapi import FakeApi

THREE = [f"vms/virt-launcher-vm{n}-a" for n in (1, 2, 3)]


def engine(api: FakeApi, **more: object) -> ReferenceEngine:
    return ReferenceEngine(api.kubeconfig(), now=lambda: api.clock, sleep=api.sleep, **more)  # type: ignore[arg-type]


def test_it_is_an_engine(api: FakeApi) -> None:
    found: RebalancerEngine = engine(api)
    assert found.name == "reference"
    found.close()


def test_a_cycle_gives_the_parsed_report_and_the_requests(api: FakeApi, policy: str) -> None:
    report = engine(api).cycle(policy)
    assert (report.exit_code, report.fatal, report.unparsed) == (0, None, [])
    assert (report.total_evicted, report.eviction_requests) == (0, 3)
    assert report.requested == THREE
    assert [(p.pod, p.code) for p in report.posts] == [(pod, 429) for pod in THREE]
    assert report.posts[0].eviction is not None
    assert report.posts[0].eviction["metadata"]["annotations"]["requested-by"] == "sigs.k8s.io/descheduler"
    assert [e[0] for e in api.evictions] == THREE


def test_each_cycle_starts_with_an_empty_memory(api: FakeApi, policy: str) -> None:
    found = engine(api)
    assert found.cycle(policy).requested == found.cycle(policy).requested == THREE


def test_with_the_gate_off_every_removable_pod_is_asked_for(api: FakeApi, policy: str) -> None:
    report = engine(api).cycle(policy, gate=False)
    assert (report.total_evicted, report.eviction_requests) == (0, 0)
    assert len(report.posts) == 7
    assert report.requested == []


def test_verbosity_decides_what_the_report_knows(api: FakeApi, policy: str) -> None:
    report = engine(api).cycle(policy, v=1)
    assert report.eviction_requests == 3
    assert report.steps == []
    assert len(report.posts) == 3


def test_an_older_release_is_emulated(api: FakeApi, policy: str) -> None:
    report = engine(api, version="0.34.0").cycle(policy)
    assert "Setting up the pod evictor" in report.log
    assert report.requested == THREE


def test_a_start_that_is_refused_is_a_report(api: FakeApi) -> None:
    report = engine(api).cycle("apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n")
    assert report.exit_code == 1
    assert report.fatal is not None
    assert 'no kind "DeschedulerPolicy" is registered for version "descheduler/v1alpha1"' in report.fatal


def test_the_installed_policy_is_used_where_none_is_given(api: FakeApi, policy: str) -> None:
    assert engine(api, installed=lambda: policy).cycle(None).eviction_requests == 3
    with pytest.raises(EngineTrouble, match="no policy"):
        engine(api).cycle(None)


def test_a_server_that_is_busy_is_asked_again_in_the_clusters_time(api: FakeApi, policy: str) -> None:
    begin = api.clock
    api.faults.append(("GET /api/v1/pods", 503, {"message": "busy"}, {}))
    api.faults.append(("GET /api/v1/nodes", 429, {"message": "slow down"}, {"Retry-After": "7"}))
    report = engine(api).cycle(policy)
    assert report.eviction_requests == 3
    assert api.clock == begin + 0.5 + 7
    assert len(report.unparsed) == 2


def test_a_server_that_is_gone_ends_the_process_with_the_cause(api: FakeApi, policy: str) -> None:
    found = engine(api)
    api.close()
    report = found.cycle(policy)
    assert report.exit_code == 1
    assert report.fatal is not None
    assert "Connection refused" in report.fatal
    api.__init__()  # type: ignore[misc]
