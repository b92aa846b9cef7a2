"""The decision: what the original's own tests demand, limits, order, plugins that are not executed, odd objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fixtures.engine.klog import render, reports
from fixtures.engine.reference.evictor import Answer
from fixtures.engine.reference.policy import PolicyError, construct, load
from tests.engine.reference.building import NOW, Bench, background, node, pod, policy, text, vm

Obj = dict[str, Any]


def small(name: str, cpu: str = "400m", **more: Any) -> Obj:
    """A Pod of the original's test tables: 400m cpu, no memory."""
    return pod(name, cpu=cpu, memory="0", **more)


LOW = "{thresholds: {cpu: 30, pods: 30}, targetThresholds: {cpu: 50, pods: 50}%s}"


def table_nodes() -> list[Obj]:
    return [node("n1", "4", "3000", "9"), node("n2", "4", "3000", "10"), node("n3", "4", "3000", "10", unschedulable=True)]


def keep(name: str, kind: str, on: str = "n1") -> Obj:
    """A Pod that DefaultEvictor protects."""
    parts: dict[str, Obj] = {
        "daemon": {"owners": [{"kind": "DaemonSet", "uid": "d"}]},
        "mirror": {"annotations": {"kubernetes.io/config.mirror": ""}},
        "critical": {"priority": 2_000_000_000},
    }
    return small(name, on=on, **parts[kind])


def standard_pods(**of: Obj) -> list[Obj]:
    own = [small(f"p{i}", **of.get(f"p{i}", {})) for i in range(1, 6)]
    kept = [keep("p6", "daemon"), keep("p7", "mirror"), keep("p8", "critical")]
    return [*own, *kept, small("p9", on="n2")]


@pytest.mark.parametrize(
    ("pods", "args", "evicted"),
    [
        (standard_pods(), "", 4),
        (standard_pods(), ", evictableNamespaces: {exclude: [default]}", 0),
        (standard_pods(), ", evictionLimits: {node: 2}", 2),
        (standard_pods(p1={"owners": []}, p2={"owners": []}, p3={"owners": []}), "", 2),
        ([keep(f"k{i}", "daemon") for i in range(4)] + [keep("k5", "critical"), small("p9", on="n2")], "", 0),
    ],
)
def test_low_node_utilization_tables(pods: list[Obj], args: str, evicted: int) -> None:
    bench = Bench(table_nodes(), pods, policy(evictor="{nodeFit: true}", args=LOW % args))
    assert bench.cycle().total_evicted == evicted


def test_priorities_and_quality_of_service_order() -> None:
    pods = standard_pods(p1={"priority": 10}, p2={"priority": 5}, p3={"priority": 5}, p4={"priority": 1}, p5={})
    pods[1]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "400m"}, "limits": {"cpu": "400m"}}
    pods[2]["spec"]["containers"][0]["resources"] = {}
    bench = Bench(table_nodes(), pods, policy(evictor="{nodeFit: true}", args=LOW % ""))
    bench.cycle()
    assert bench.port.asked[:4] == ["p5", "p4", "p3", "p2"]


def test_extended_resources_take_part() -> None:
    nodes = [node("n1"), node("n2")]
    for found in nodes:
        found["status"]["allocatable"] = {**found["status"]["allocatable"], "example.com/foo": "8"}
    pods = [small(f"p{i}", cpu="0", on="n1" if i < 9 else "n2") for i in range(1, 11)]
    for found in pods:
        found["spec"]["containers"][0]["resources"]["requests"]["example.com/foo"] = "1"
    args = "{thresholds: {example.com/foo: 30}, targetThresholds: {example.com/foo: 50}}"
    bench = Bench(nodes, pods, policy(evictor="{nodeFit: true}", args=args))
    report = bench.cycle()
    assert report.total_evicted == 2
    assert report.passes[0].capacity_to_be_moved is not None
    assert report.passes[0].capacity_to_be_moved["example.com/foo"] == 2


def test_a_source_is_drained_by_high_node_utilization_even_if_cordoned() -> None:
    nodes = [node("n1", "4", "3000", "10"), node("n2", "4", "3000", "10"), node("n3", "4", "3000", "10", unschedulable=True)]
    pods = [small("p1"), keep("p2", "critical"), *[small(f"p{i}", on="n2") for i in range(3, 7)], small("p7", on="n3")]
    args = "{thresholds: {cpu: 30, pods: 30}}"
    bench = Bench(nodes, pods, policy(plugin="HighNodeUtilization", evictor="{nodeFit: true}", args=args))
    bench.cycle()
    assert sorted(bench.port.asked) == ["p1", "p7"]


def test_only_thresholding_resources_spares_pods_without_requests() -> None:
    nodes = [node("n1"), node("n2")]
    pods = [small("p1"), *[small(f"q{i}", on="n2", cpu="2") for i in range(3)]]
    args = "{thresholds: {cpu: 39}, evictionModes: [OnlyThresholdingResources]}"
    bench = Bench(nodes, pods, policy(plugin="HighNodeUtilization", args=args))
    assert bench.cycle().total_evicted == 1
    bare = copy.deepcopy(pods)
    bare[0]["spec"]["containers"][0]["resources"] = {}
    assert Bench(nodes, bare, bench.policy).cycle().total_evicted == 0


@pytest.mark.parametrize(
    ("top", "asked", "result", "note"),
    [
        ("maxNoOfPodsToEvictTotal: 0", 0, "limitTotal", "total eviction limit exceeded (0)"),
        ("maxNoOfPodsToEvictPerNode: 1", 1, "limitNode", "node eviction limit exceeded (1)"),
        ("maxNoOfPodsToEvictPerNamespace: 1", 1, "limitNamespace", "namespace eviction limit exceeded (1)"),
    ],
)
def test_limits_and_their_events(top: str, asked: int, result: str, note: str) -> None:
    document = text(top=f"{top}\nevictionFailureEventNotification: true")
    bench = Bench([node("n1"), node("n2")], [pod(f"p{i}") for i in range(8)], load(document))
    bench.cycle()
    refused = [a for a in bench.attempts if a.result == result]
    assert len(bench.port.asked) == asked
    assert refused
    expected = f"pod eviction from n1 node by sigs.k8s.io/descheduler failed: {note}"
    assert refused[0].event == ("Warning", "EvictionFailed", expected)


def test_events_and_metrics_of_success_and_failure() -> None:
    bench = Bench([node("n1"), node("n2")], [pod(f"p{i}", priority=i) for i in range(8)], policy())
    bench.port.answer = lambda found: Answer(201) if found["metadata"]["name"] != "p0" else Answer(404, "gone", "NotFound")
    report = bench.cycle()
    assert (bench.attempts[0].metric, bench.attempts[0].event) == ("error", None)
    assert report.steps[0].error == 'pod not found when evicting "p0": gone'
    normal = ("Normal", "LowNodeUtilization", "pod eviction from n1 node by sigs.k8s.io/descheduler")
    assert (bench.attempts[1].metric, bench.attempts[1].event) == ("success", normal)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(429, "slow down"), 'error when evicting pod (ignoring) "vm": slow down'),
        (Answer(500, "Eviction triggered evacuation"), "Eviction triggered evacuation"),
        (Answer(0, "connection refused"), "connection refused"),
        (Answer(404, "no such thing", "Other"), "no such thing"),
    ],
)
def test_other_answers_are_errors(answer: Answer, error: str) -> None:
    pods = [vm("vm", cpu="3"), *[pod(f"p{i}", ns="kube-system", labels={}, owners=[]) for i in range(4)]]
    bench = Bench([node("n1"), node("n2")], pods, policy(), answer=lambda found: answer)
    assert [s.error for s in bench.cycle().steps] == [error]


def test_dry_run_asks_nobody_and_takes_pods_out_for_later_profiles() -> None:
    document = text()
    second = document[document.index("- name: p\n") :].replace("name: p\n", "name: q\n")
    bench = Bench([node("n1"), node("n2")], [pod(f"p{i}", priority=i) for i in range(8)], load(document + second))
    report = bench.cycle(dry_run=True)
    assert bench.port.asked == []
    assert report.pods_with("evictedDryRun") == ["default/p0", "default/p1", "default/p2"]
    assert report.passes[1].early_exit == "All nodes are under target utilization, nothing to do here"
    assert "Restoring evicted pods from cache" in bench.messages()


def test_a_pod_without_uid_is_left_alone() -> None:
    pods = [pod(f"p{i}", priority=i) for i in range(8)]
    del pods[0]["metadata"]["uid"]
    bench = Bench([node("n1"), node("n2")], pods, policy())
    bench.cycle()
    assert "p0" not in bench.port.asked
    assert bench.attempts[0].error == "pod default/p0 is missing UID"


def test_grace_period_and_annotations_of_the_request() -> None:
    bench = Bench([node("n1"), node("n2")], [pod(f"p{i}") for i in range(8)], policy(top="gracePeriodSeconds: 7"))
    bench.cycle()
    assert bench.port.bodies[0] == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {
            "name": "p0",
            "namespace": "default",
            "annotations": {"reason": "triggered by p/LowNodeUtilization: ", "requested-by": "sigs.k8s.io/descheduler"},
        },
        "deleteOptions": {"gracePeriodSeconds": 7},
    }
    old = Bench([node("n1"), node("n2")], [pod(f"p{i}") for i in range(8)], policy("0.33.0", evictor="{}"))
    old.cycle()
    assert old.port.bodies[0]["metadata"] == {"name": "p0", "namespace": "default"}


def test_plugins_that_are_not_executed_are_named() -> None:
    document = text(plugins="deschedule: {enabled: [PodLifeTime]}").replace(
        "pluginConfig:\n", "pluginConfig:\n  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 1}}\n"
    )
    bench = Bench([node("n1"), node("n2")], [pod("a")], load(document))
    report = bench.cycle()
    named = [line for line in bench.lines if line.message == "Plugin is configured but not executed by this engine"]
    assert [(line.get("plugin"), line.get("profile")) for line in named] == [("PodLifeTime", "p")]
    assert [p.summary["extensionPoint"] for p in report.passes if p.summary] == ["Deschedule", "Balance"]


def test_usage_from_metrics_is_refused_in_words() -> None:
    args = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, metricsUtilization: {source: KubernetesMetrics}}"
    bench = Bench([node("n1"), node("n2")], [pod("a")], policy(args=args))
    missing = 'plugin "LowNodeUtilization" finished with error: error initializing usage client: metrics client not initialized'
    assert bench.cycle().plugin_errors == [missing]
    provided = policy(args=args, top="metricsProviders: [{source: KubernetesMetrics}]")
    assert "not supported by this engine" in Bench([node("n1"), node("n2")], [pod("a")], provided).cycle().plugin_errors[0]


def test_a_release_that_could_read_prometheus_builds_the_plugin_and_this_engine_says_that_it_cannot() -> None:
    usage = "metricsUtilization: {source: Prometheus, prometheus: {query: q}}"
    args = f"{{thresholds: {{MetricResource: 20}}, targetThresholds: {{MetricResource: 50}}, {usage}}}"
    document = text(args=args, top="metricsProviders: [{source: Prometheus, prometheus: {url: 'https://x'}}]")
    for version in ("0.34.0", "0.36.0"):
        found = load(document, version=version)
        assert construct(found, found.profiles[0], lambda line: None) is None
        (error,) = Bench([node("n1"), node("n2")], [pod("a")], found).cycle().plugin_errors
        assert 'metrics source "Prometheus" is not supported by this engine' in error
    with pytest.raises(PolicyError, match="prometheus client not initialized"):
        load(document, version="0.35.1")
    assert load(document, version="0.35.1", backports={"usage_client_late": True}).profiles


def test_prefer_no_eviction_breaks_ties_only() -> None:
    mark = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "false"}
    pods = [pod("stay", annotations=mark), *[pod(f"p{i}") for i in range(6)], pod("low", annotations=mark, priority=-1)]
    for found in pods[:-1]:
        found["spec"]["priority"] = 0
    bench = Bench([node("n1"), node("n2", cpu="100", memory="100Gi", pods="1000")], pods, policy())
    bench.cycle()
    assert bench.port.asked[0] == "low"
    assert "stay" not in bench.port.asked
    old = Bench(bench.snapshot.nodes, pods, policy("0.33.0", evictor="{}"))
    old.cycle()
    assert old.port.asked[:2] == ["low", "stay"]


ODD: list[Any] = [None, {}, [], "x", 5, True, {"a": None}, [None, 1, "x"]]


@pytest.mark.parametrize("version", ["0.32.2", "0.33.0", "0.34.0", "0.36.0"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_objects_never_raise(odd: Any, version: str) -> None:
    paths = [
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("metadata", "ownerReferences"),
        ("metadata", "deletionTimestamp"),
        ("spec", "containers"),
        ("spec", "volumes"),
        ("spec", "tolerations"),
        ("spec", "affinity"),
        ("spec", "nodeSelector"),
        ("spec", "priority"),
        ("spec", "taints"),
        ("spec", "overhead"),
        ("spec", "resources"),
        ("status", "startTime"),
        ("status", "phase"),
        ("status", "allocatable"),
        ("status", "conditions"),
    ]
    nodes, pods = [node("n1"), node("n2"), node("n3")], [pod(f"p{i}") for i in range(8)]
    for n, (part, key) in enumerate(paths):
        broken = pod(f"odd{n}")
        broken[part] = {**broken[part], key: odd}
        pods.append(broken)
        broken_node = node(f"odd{n}")
        broken_node[part] = {**broken_node[part], key: odd}
        nodes.append(broken_node)
    pods += [{}, {"metadata": odd}, {"metadata": {"name": "x", "uid": "x"}, "spec": odd, "status": odd}]
    nodes += [{}, {"metadata": odd, "spec": odd, "status": odd}]
    evictor = "{nodeFit: true, minReplicas: 2, minPodAge: 1s, labelSelector: {matchLabels: {}}}"
    bench = Bench(nodes, pods, policy(version, evictor=evictor), namespaces=[{}, {"metadata": odd}], pdbs=[{}, {"spec": odd}])
    assert bench.cycle().total_evicted is not None


@pytest.mark.parametrize("quantity", ["1e3", "100m", "1Ei", "-5", "16Ei", "1e100", "", "x", None, 3, 1.5, True, [], {}])
def test_odd_quantities_never_raise(quantity: Any) -> None:
    for version in ("0.32.2", "0.36.0"):
        nodes = [node("n1"), node("n2", cpu=quantity, memory=quantity, pods=quantity), node("n3")]
        pods = [*[pod(f"p{i}") for i in range(8)], pod("odd", cpu=quantity, memory=quantity)]
        for extra in ("", ", useDeviationThresholds: true"):
            args = f"{{thresholds: {{cpu: 20, memory: 20}}, targetThresholds: {{cpu: 50, memory: 50}}{extra}}}"
            evictor = "{nodeFit: true}"
            assert Bench(nodes, pods, policy(version, evictor=evictor, args=args)).cycle().total_evicted is not None


def test_the_report_equals_the_parsed_log_also_for_custom_lines() -> None:
    bench = Bench([node("n1"), node("n2")], [vm(f"v{i}", priority=i) for i in range(8)], policy(), answer=background)
    report = bench.cycle()
    (parsed,) = reports("".join(render(line, now=NOW, pid=1) for line in bench.lines))
    ours = report.to_dict()
    assert {**parsed.to_dict(), "posts": []} == {**ours, "posts": []}
    assert parsed.unparsed == []
    assert [p.pod for p in report.posts] == report.requested
