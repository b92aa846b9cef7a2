"""Interval mode, leader election, events, metrics and the endpoint, dry run, retries of eviction requests."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.engine import klog
from fixtures.engine.reference.evictor import Answer, Attempt
from fixtures.engine.reference.inflight import Entry
from fixtures.engine.reference.process import events, run
from fixtures.engine.reference.process.metrics import Metrics
from fixtures.engine.reference.process.options import read
from fixtures.engine.reference.process.port import RETRIES, ApiEvictions
from fixtures.engine.reference.process.serving import Endpoint
from fixtures.kube.kubeconfig import access
from fixtures.kube.transport import Client
from tests.engine.adapters.conftest import POLICY, REFUSED, launcher
from tests.engine.fakeapi import FakeApi

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Process:
    """A running process that is stepped from sleep to sleep in virtual time."""

    def __init__(self, api: FakeApi, *args: str, policy: str = POLICY) -> None:
        self.api = api
        self.output = bytearray()
        self.code: int | None = None
        self._steps: Iterator[float] = run(
            ["--policy-config-file=/p", "--v=4", "--feature-gates=EvictionsInBackground=true", *args],
            env={},
            files={"/p": policy},
            kubeconfig=api.kubeconfig(),
            write=self.output.extend,
            now=lambda: api.clock,
        )

    def step(self) -> float:
        try:
            pause = next(self._steps)
        except StopIteration as end:
            self.code = end.value
            return 0.0
        self.api.clock += pause
        return pause

    def reports(self) -> list[Any]:
        return klog.reports(self.output.decode())

    def texts(self) -> list[str]:
        return [e.message for e in klog.parse(self.output.decode())]

    def stop(self) -> None:
        self._steps.close()  # type: ignore[attr-defined]


def world(api: FakeApi) -> FakeApi:
    for node in ("n1", "n2"):
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        api.put("/api/v1/nodes", {"metadata": {"name": node}, "spec": {}, "status": {"allocatable": allocatable}})
    for number in range(1, 9):
        api.create(launcher(number, "n1" if number < 8 else "n2"), 3600.0)
    return api


def taken_over(pod: dict[str, Any], eviction: dict[str, Any]) -> tuple[int, str]:
    return 429, f'{REFUSED}Eviction triggered evacuation of VMI "x"'


def test_without_an_interval_one_cycle_and_out(api: FakeApi) -> None:
    process = Process(world(api))
    assert (process.step(), process.code, len(process.reports())) == (0.0, 0, 1)


def test_cycles_begin_one_interval_apart(api: FakeApi) -> None:
    process = Process(world(api), "--descheduling-interval=300s")
    assert [process.step() for _ in range(4)] == [300.0] * 4
    assert [r.total_evicted for r in process.reports()] == [3, 3, 1, 0]


def test_memory_lasts_across_cycles_until_assumed_requests_time_out(api: FakeApi) -> None:
    api.webhook = taken_over
    process = Process(world(api), "--descheduling-interval=420s")
    pauses = [process.step() for _ in range(7)]
    assert [r.eviction_requests for r in process.reports()[:3]] == [3, 3, 3]
    assert pauses == [420.0, 180.0, 240.0, 360.0, 60.0, 420.0, 120.0]
    assert process.texts().count("Assumed eviction request in background timed out, deleting") == 3
    timed_out = [i for i, r in enumerate(process.reports()) if r.requested]
    assert timed_out == [0, 3]


def test_a_pod_that_is_gone_before_the_clean_up_is_not_said_to_time_out(api: FakeApi) -> None:
    api.webhook = taken_over
    process = Process(world(api), "--descheduling-interval=1h")
    process.step()
    api.delete("vms", "virt-launcher-vm1-a")
    for _ in range(3):
        process.step()
    texts = process.texts()
    assert texts.count("Pod with eviction in background deleted/evicted. Removing pod from the cache.") == 1
    assert texts.count("Assumed eviction request in background timed out, deleting") == 2


def test_a_dry_run_asks_for_nothing_and_records_nothing(api: FakeApi) -> None:
    process = Process(world(api), "--dry-run")
    process.step()
    (report,) = process.reports()
    assert report.total_evicted == 3
    assert report.pods_with("evictedDryRun") == [f"vms/virt-launcher-vm{n}-a" for n in (1, 2, 3)]
    assert api.evictions == []
    assert [m for m, _ in api.requests if m != "GET"] == []
    texts = process.texts()
    assert "Building a cached client from the cluster for the dry run" in texts
    assert "Restoring evicted pods from cache" in texts
    assert report.unparsed == []


def test_evictions_are_recorded_as_events(api: FakeApi) -> None:
    Process(world(api)).step()
    found = api.objects["/apis/events.k8s.io/v1/namespaces/vms/events"].values()
    assert [(e["type"], e["reason"], e["action"], e["note"]) for e in found] == [
        ("Normal", "LowNodeUtilization", "Descheduled", "pod eviction from n1 node by sigs.k8s.io/descheduler")
    ] * 3
    assert {e["reportingController"] for e in found} == {"sigs.k8s.io.descheduler"}
    assert [e["regarding"]["name"] for e in found] == [f"virt-launcher-vm{n}-a" for n in (1, 2, 3)]


def test_requests_that_were_taken_over_are_no_events_but_failures_are_if_wanted(api: FakeApi) -> None:
    api.webhook = lambda pod, eviction: taken_over(pod, eviction) if "vm1" in pod["metadata"]["name"] else (429, "no")
    process = Process(world(api), policy=POLICY + "evictionFailureEventNotification: true\n")
    process.step()
    found = api.objects["/apis/events.k8s.io/v1/namespaces/vms/events"].values()
    assert {(e["type"], e["reason"]) for e in found} == {("Warning", "EvictionFailed")}
    assert len(found) == 6
    first = next(iter(found))["note"]
    assert first.startswith("pod eviction from n1 node by sigs.k8s.io/descheduler failed: error when evicting pod (ignoring)")


def test_an_event_that_is_refused_is_only_logged(api: FakeApi) -> None:
    api.faults.append(("POST /apis/events.k8s.io", 403, {"message": "forbidden"}, {}))
    process = Process(world(api))
    process.step()
    assert process.code == 0
    assert "Server rejected event (will not retry!)" in process.texts()


def test_an_event_of_an_attempt_without_one_is_none() -> None:
    assert events.event(Attempt({}, "background", "s", "p"), 0.0) is None


# ---------------------------------------------------------------- leader election


def test_it_leads_renews_and_releases(api: FakeApi) -> None:
    process = Process(world(api), "--leader-elect", "--descheduling-interval=60s")
    assert [process.step() for _ in range(4)] == [26.0, 26.0, 8.0, 26.0]
    lease = api.objects[LEASE]["kube-system/descheduler"]
    assert lease["spec"]["leaseDurationSeconds"] == 137
    assert lease["spec"]["leaseTransitions"] == 0
    assert [r.total_evicted for r in process.reports()] == [3, 3]
    process.stop()
    assert api.objects[LEASE]["kube-system/descheduler"]["spec"]["holderIdentity"] == ""


def test_it_waits_until_another_leader_has_been_silent_for_its_lease(api: FakeApi) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 137, "renewTime": "2026-01-01T00:00:00.000000Z"}
    api.put(LEASE, {"metadata": {"name": "descheduler", "namespace": "kube-system"}, "spec": spec})
    process = Process(world(api), "--leader-elect", "--descheduling-interval=1h")
    begin = api.clock
    while "Started leading" not in process.texts():
        process.step()
    assert 137 <= api.clock - begin <= 137 + 2 * 26
    assert "New leader elected: other" in process.texts()
    assert api.objects[LEASE]["kube-system/descheduler"]["spec"]["leaseTransitions"] == 1
    process.stop()


def test_a_lead_that_cannot_be_renewed_is_lost_and_ends_the_process(api: FakeApi) -> None:
    process = Process(world(api), "--leader-elect", "--descheduling-interval=1h")
    process.step()
    api.faults += [(f"GET {LEASE}", 500, {"message": "down"}, {})] * 50
    assert [process.step() for _ in range(5)] == [26.0] * 4 + [0.0]
    assert process.code == 0
    assert "Leader lost" in process.texts()


def test_dry_run_skips_the_election(api: FakeApi) -> None:
    process = Process(world(api), "--leader-elect", "--dry-run", "--descheduling-interval=1h")
    process.step()
    assert "Warning: DryRun is set to True. You need to disable it to use Leader Election." in process.texts()
    assert LEASE not in api.objects


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--leader-elect-resource-lock=configmaps"], "Invalid lock-type configmaps"),
        (["--leader-elect-lease-duration=5s"], "leaseDuration must be greater than renewDeadline"),
        (["--leader-elect-retry-period=100s"], "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (["--leader-elect-resource-namespace="], "namespace may not be empty"),
    ],
)
def test_settings_of_an_election_that_cannot_work(flags: list[str], error: str, api: FakeApi) -> None:
    process = Process(world(api), "--leader-elect", "--descheduling-interval=1h", *flags)
    process.step()
    assert process.code == 1
    assert error in str(process.reports()[-1].fatal)


# ---------------------------------------------------------------- metrics


def attempt(result: str, name: str = "a") -> Attempt:
    pod = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": "n"}}
    return Attempt(pod, result, "LowNodeUtilization", 'p"1', metric=result)


def test_metrics_have_the_originals_names_and_labels() -> None:
    metrics = Metrics(version="v0.36.0", minor=36)
    metrics.attempt(attempt("success"))
    metrics.attempt(attempt("success"))
    metrics.attempt(attempt("background"))
    metrics.attempt(attempt(""))
    metrics.loop(0.2, [("LowNodeUtilization", "p")])
    labels = 'namespace="ns",node="n",profile="p\\"1"'
    assert metrics.evicted() == [
        f'descheduler_pods_evicted_total{{{labels},result="background",strategy="LowNodeUtilization"}} 1',
        f'descheduler_pods_evicted_total{{{labels},result="success",strategy="LowNodeUtilization"}} 2',
    ]
    text = metrics.render()
    assert f'descheduler_pods_evicted{{{labels},result="success",strategy="LowNodeUtilization"}} 2\n' in text
    assert '\ndescheduler_build_info{DeschedulerVersion="v0.36.0"' in text
    for name in ("loop_duration_seconds", "strategy_duration_seconds"):
        assert f"# TYPE descheduler_{name} histogram\n" in text
        assert f"# TYPE descheduler_descheduler_{name} histogram\n" in text
    assert 'descheduler_loop_duration_seconds_bucket{le="0.1"} 0\n' in text
    assert 'descheduler_loop_duration_seconds_bucket{le="0.25"} 1\n' in text
    assert "descheduler_loop_duration_seconds_sum 0.2\n" in text


def test_before_0_34_there_is_only_the_old_name() -> None:
    metrics = Metrics(version="v0.33.0", minor=33)
    metrics.attempt(attempt("success"))
    assert "pods_evicted_total" not in metrics.render()
    assert metrics.evicted()[0].startswith("descheduler_pods_evicted{")


@pytest.mark.parametrize(("outcome", "counted"), [("success", 1), ("error", 1), ("", 0)])
def test_the_end_of_an_eviction_in_background_counts_with_its_outcome(outcome: str, counted: int) -> None:
    metrics = Metrics(version="x", minor=36)
    metrics.completed([Entry("p", "ns", "n", True, 0.0, "s", "p", outcome)])
    assert len(metrics.evicted()) == counted
    assert all(f'result="{outcome}"' in line for line in metrics.evicted())


def fetched(port: int, path: str) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, body


def test_the_endpoint_serves_metrics_and_health_over_https() -> None:
    endpoint = Endpoint(read(["--secure-port=0", "--bind-address=127.0.0.1"]), Metrics(version="x", minor=36))
    try:
        assert fetched(endpoint.port, "/healthz") == (200, "ok")
        assert "descheduler_build_info" in fetched(endpoint.port, "/metrics")[1]
        assert fetched(endpoint.port, "/nope")[0] == 404
    finally:
        endpoint.close()


def test_metrics_can_be_disabled() -> None:
    options = read(["--secure-port=0", "--bind-address=127.0.0.1", "--disable-metrics"])
    endpoint = Endpoint(options, Metrics(version="x", minor=36))
    try:
        assert fetched(endpoint.port, "/metrics")[0] == 404
    finally:
        endpoint.close()


def test_a_port_that_is_taken_keeps_it_from_starting(api: FakeApi) -> None:
    port = api.url.rpartition(":")[2]
    process = Process(world(api), f"--secure-port={port}", "--bind-address=127.0.0.1")
    process.step()
    assert process.code == 1
    assert "failed to start secure server: failed to create listener" in str(process.reports()[-1].fatal)


# ---------------------------------------------------------------- eviction requests


@pytest.fixture
def port(api: FakeApi) -> Iterator[tuple[ApiEvictions, list[float]]]:
    slept: list[float] = []
    client = Client(access(api.kubeconfig()))
    yield ApiEvictions(client, slept.append), slept
    client.close()


def test_a_request_is_repeated_when_the_server_says_when(api: FakeApi, port: tuple[ApiEvictions, list[float]]) -> None:
    evictions, slept = port
    pod = api.create(launcher(1, "n1"), None)
    api.faults += [("POST /api/v1/namespaces/vms/pods/virt-launcher-vm1-a/eviction", 429, {}, {"Retry-After": "10"})] * 2
    assert evictions.evict(pod, {}) == Answer(201, "")
    assert slept == [10.0, 10.0]


def test_not_for_ever(api: FakeApi, port: tuple[ApiEvictions, list[float]]) -> None:
    evictions, slept = port
    api.faults += [("POST ", 429, {"message": "busy"}, {"Retry-After": "1"})] * 50
    assert evictions.evict(launcher(1, "n1"), {}) == Answer(429, "busy")
    assert len(slept) == RETRIES


def test_not_without_being_asked_to(api: FakeApi, port: tuple[ApiEvictions, list[float]]) -> None:
    evictions, slept = port
    api.faults.append(("POST ", 429, {"message": "no"}, {}))
    assert evictions.evict(launcher(1, "n1"), {}) == Answer(429, "no")
    assert slept == []


def test_no_answer_is_an_answer_too(api: FakeApi) -> None:
    config = api.kubeconfig()
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    answer = ApiEvictions(Client(access(config)), None).evict(launcher(1, "n1"), {})
    assert answer.code == 0
    assert answer.message.startswith('Post "http://127.0.0.1:9/api/v1/namespaces/vms/pods/virt-launcher-vm1-a/eviction": ')
