"""Finding policy and consumer: by label, by volume, whatever the flavour; nothing taken for the descheduler that is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.cluster.api import Presence
from fixtures.cluster.discover import Flavour, NotInstalled, find_consumer, find_consumers, find_installation, find_policy
from fixtures.cluster.discover.workload import DeschedulerWorkload, is_descheduler, workloads
from fixtures.kube.resources import CRONJOBS, DEPLOYMENTS, Obj
from tests.cluster.paper import Paper, load

GATE = "EvictionsInBackground"


def find(paper: Paper, ns: str = "descheduler") -> Any:
    return find_installation(paper, ns)  # type: ignore[arg-type]


def chart(name: str = "chart-cronjob.yaml", **changes: Any) -> dict[str, Obj]:
    """The chart's objects by kind."""
    return {o["kind"]: o for o in copy.deepcopy(load(name))}


def containers(obj: Obj) -> list[Obj]:
    spec = obj["spec"]
    found: list[Obj] = (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]["spec"]["containers"]
    return found


def with_args(*args: str, command: list[str] | None = None, **container: Any) -> DeschedulerWorkload:
    cronjob = chart()["CronJob"]
    found = containers(cronjob)[0]
    found["args"] = list(args)
    found.update(container)
    if command is not None:
        found["command"] = command
    return next(workloads(CRONJOBS, [cronjob], acp=False))


def unlabelled(objects: dict[str, Obj], **rename: str) -> dict[str, Obj]:
    for obj in objects.values():
        obj["metadata"]["labels"] = {"app": "descheduler"}
        obj["metadata"]["name"] = rename.get(obj["kind"], obj["metadata"]["name"])
    return objects


def test_the_charts_cronjob_and_policy() -> None:
    found = find(Paper(*load("chart-cronjob.yaml")))
    assert found.policy.where == 'ConfigMap descheduler/descheduler, data["policy.yaml"]'
    assert found.policy.labelled
    assert found.policy.text.startswith('apiVersion: "descheduler/v1alpha2"')
    assert found.policy.notes == ()
    consumer = found.consumer
    assert consumer.where == "CronJob descheduler/descheduler, container descheduler"
    assert found.consumers.explanation == f"1 on the policy: {consumer.where}"
    assert (consumer.flavour, consumer.verbosity, consumer.suspended) == (Flavour.HELM, 3, False)
    assert (consumer.policy_path, consumer.policy_key) == ("/policy-dir/policy.yaml", "policy.yaml")
    assert consumer.policy_volume["name"] == "policy-volume"
    assert consumer.feature_gate(GATE)
    assert consumer.image == "registry.k8s.io/descheduler/descheduler:v0.36.0"
    assert consumer.service_account == "descheduler"
    assert found.installed is Presence.PRESENT


def test_the_charts_deployment() -> None:
    consumer = find(Paper(*load("chart-deployment.yaml"))).consumer
    assert not consumer.is_cronjob
    assert consumer.interval == 300
    assert consumer.resource == DEPLOYMENTS
    assert not consumer.suspended
    consumer.object["spec"]["replicas"] = 0
    assert consumer.suspended


def test_a_missing_gate_is_explained_with_the_flavours_remedy() -> None:
    objects = load("chart-cronjob-without-gate.yaml")
    helm = find(Paper(*objects)).consumer
    assert not helm.feature_gate(GATE)
    assert helm.explain_gate() == (
        "CronJob descheduler/descheduler, container descheduler: args ['--policy-config-file=/policy-dir/policy.yaml', '--v=3']"
        " have no --feature-gates, wanted --feature-gates=EvictionsInBackground=true;"
        " set `cmdOptions.feature-gates: EvictionsInBackground=true` in the chart's values"
    )
    acp = find(Paper(*objects, served=["resourcepatches.operator.alauda.io"])).consumer
    assert acp.flavour is Flavour.ACP
    assert "newer than v0.36.0-4" in acp.explain_gate()


def test_one_request_per_kind_in_the_policys_namespace_is_enough() -> None:
    paper = Paper(*load("chart-cronjob.yaml"))
    find(paper)
    label = "app.kubernetes.io/name=descheduler"
    assert paper.asked == [
        ("configmaps", None, label),
        ("cronjobs.batch", "descheduler", None),
        ("deployments.apps", "descheduler", None),
    ]


def test_an_installation_elsewhere_is_found_by_label() -> None:
    objects = load("chart-cronjob.yaml")
    for obj in objects:
        if "namespace" in obj["metadata"]:
            obj["metadata"]["namespace"] = "kube-system"
    found = find(Paper(*objects))
    assert found.policy.namespace == "kube-system"
    assert found.consumer.namespace == "kube-system"


def test_without_label_the_consumers_volume_leads_to_the_policy() -> None:
    objects = unlabelled(chart(), ConfigMap="descheduler-policy-configmap", CronJob="descheduler-cronjob")
    containers(objects["CronJob"])
    pod = objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"][0]["configMap"]["name"] = "descheduler-policy-configmap"
    found = find(Paper(*objects.values()))
    assert not found.policy.labelled
    assert found.policy.name == "descheduler-policy-configmap"
    assert "lacks the label app.kubernetes.io/name=descheduler; it was found through the volume of CronJob" in found.policy.notes[0]
    assert found.consumer.flavour is Flavour.KUSTOMIZE
    assert "add --feature-gates=" in with_args("--v=3").explain_gate() or found.consumer.feature_gate(GATE)


def test_a_policy_that_is_mounted_but_missing_is_absent_with_the_mount_named() -> None:
    objects = chart()
    del objects["ConfigMap"]
    found = find(Paper(*objects.values()))
    assert found.policy.probe.presence is Presence.ABSENT
    assert "CronJob descheduler/descheduler, container descheduler mounts it" in found.policy.probe.evidence
    assert found.installed is Presence.PRESENT
    assert found.policy.text is None
    assert not found.consumers.on
    assert "not on this policy: CronJob" in found.consumers.explanation


def test_nothing_installed_is_absent_with_evidence() -> None:
    found = find(Paper())
    assert found.installed is Presence.ABSENT
    assert "lists no configmaps labelled app.kubernetes.io/name=descheduler in all namespaces" in found.policy.probe.evidence
    with pytest.raises(NotInstalled, match="no descheduler container in what could be read"):
        _ = found.consumer
    assert find_policy(Paper()).where.startswith("the API server lists no")  # type: ignore[arg-type]
    assert not find_consumers(Paper())  # type: ignore[arg-type]


def test_what_may_not_be_read_is_unknown_not_absent() -> None:
    found = find(Paper(denied=["configmaps", "cronjobs.batch", "deployments.apps"]))
    assert found.installed is Presence.UNKNOWN
    assert "cannot list configmaps" in found.policy.probe.evidence
    partly = find(Paper(*load("chart-cronjob.yaml"), denied=[("configmaps", "*"), ("cronjobs.batch", "*")]))
    assert partly.consumer.where.startswith("CronJob")
    elsewhere = find(Paper(*load("chart-cronjob.yaml"), denied=[("configmaps", "*")]), ns="other")
    assert elsewhere.policy.labelled or elsewhere.consumers.all


def test_only_the_plugin_namespace_may_be_read_and_nothing_is_there() -> None:
    everything = [(key, "*") for key in ("configmaps", "cronjobs.batch", "deployments.apps")]
    found = find(Paper(*load("chart-cronjob.yaml"), denied=everything), ns="other")
    assert found.installed is Presence.UNKNOWN
    assert "other namespaces could not be read" in found.policy.probe.evidence


def test_several_consumers_are_all_reported() -> None:
    objects = chart()
    second = copy.deepcopy(objects["CronJob"])
    second["metadata"]["name"] = "descheduler-2"
    third = copy.deepcopy(second)
    third["metadata"]["name"] = "descheduler-3"
    third["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = "another"
    found = find(Paper(*objects.values(), second, third))
    assert [w.name for w in found.consumers.on] == ["descheduler", "descheduler-2"]
    assert [w.name for w in found.consumers.elsewhere] == ["descheduler-3"]
    assert found.consumers.explanation.startswith("2 on the policy: ")


def test_of_several_labelled_config_maps_the_consumed_one_is_taken() -> None:
    objects = chart()
    other = copy.deepcopy(objects["ConfigMap"])
    other["metadata"]["name"] = "a-scripts"
    other["data"] = {"run.sh": "exit"}
    found = find(Paper(other, *objects.values()))
    assert found.policy.name == "descheduler"
    assert found.policy.notes == (
        "several ConfigMaps are labelled app.kubernetes.io/name=descheduler; taken: descheduler/descheduler,"
        " left: descheduler/a-scripts",
    )


def test_a_labelled_config_map_without_the_key_says_so() -> None:
    objects = chart()
    objects["ConfigMap"]["data"] = {"policy.yml": "x", "b": "y"}
    found = find(Paper(*objects.values()))
    assert found.policy.text is None
    assert found.policy.notes == ('ConfigMap descheduler/descheduler has no key "policy.yaml"; its keys: b, policy.yml',)


def kdo(name: str, container: Obj) -> Obj:
    spec = {
        "containers": [{"volumeMounts": [{"name": "p", "mountPath": "/policy-dir"}], **container}],
        "volumes": [{"name": "p", "configMap": {"name": "cluster"}}],
    }
    ns = "openshift-kube-descheduler-operator"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"template": {"spec": spec}},
    }


def test_the_operators_softtainter_is_no_consumer() -> None:
    args = ["--policy-config-file=/policy-dir/policy.yaml", "--descheduling-interval=60s", f"--feature-gates={GATE}=true"]
    image = "quay.io/openshift/ose-cluster-kube-descheduler-rhel9-operator:v5"
    ns = "openshift-kube-descheduler-operator"
    configmap = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cluster", "namespace": ns},
        "data": {"policy.yaml": ""},
    }
    found = find(
        Paper(
            kdo(
                "softtainter", {"name": "openshift-softtainter", "image": image, "command": ["/usr/bin/soft-tainter"], "args": args}
            ),
            kdo(
                "descheduler-operator",
                {"name": "descheduler-operator", "image": image, "command": ["cluster-kube-descheduler-operator"]},
            ),
            kdo(
                "descheduler",
                {"name": "openshift-descheduler", "image": "quay.io/d@sha256:1", "command": ["/bin/descheduler"], "args": args},
            ),
            configmap,
        )
    )
    assert [w.name for w in found.consumers.all] == ["descheduler"]
    assert found.consumer.flavour is Flavour.KDO
    assert found.consumer.managers == ("KubeDescheduler operator",)
    assert found.policy.name == "cluster"
    assert not found.policy.labelled


def test_gitops_tools_that_would_undo_an_edit_are_named() -> None:
    cronjob = chart()["CronJob"]
    cronjob["metadata"]["labels"]["argocd.argoproj.io/instance"] = "x"
    cronjob["metadata"]["annotations"] = {"kustomize.toolkit.fluxcd.io/name": "x"}
    assert next(workloads(CRONJOBS, [cronjob], acp=False)).managers == ("Argo CD", "Flux")


@pytest.mark.parametrize(
    ("container", "is_one"),
    [
        ({"image": "registry.k8s.io/descheduler/descheduler:v0.36.0", "args": ["--v=3"]}, True),
        ({"image": "mirror:5000/ours", "command": ["/bin/descheduler"]}, True),
        ({"image": "mirror:5000/ours", "args": ["--policy-config-file", "/p"]}, True),
        ({"image": "busybox", "command": ["sh", "-c", "exec /bin/descheduler --v=3"]}, True),
        ({"image": "busybox", "command": ["sh", "-c", "sleep 1"]}, False),
        ({"image": "x/descheduler:v1", "command": ["/usr/bin/soft-tainter"]}, False),
        ({"image": "x/descheduler-operator:v1"}, False),
        ({"image": "x/metrics", "args": ["--v=3"]}, False),
        ({}, False),
        ({"image": None, "command": "descheduler"}, False),
    ],
)
def test_which_container_runs_the_descheduler(container: Obj, is_one: bool) -> None:
    assert is_descheduler(container) is is_one


@pytest.mark.parametrize(
    ("args", "on"),
    [
        (["--feature-gates=EvictionsInBackground=true"], True),
        (["--feature-gates", "EvictionsInBackground=True"], True),
        (["--feature-gates=EvictionsInBackground=1"], True),
        (["--feature-gates=AllAlpha=true"], True),
        (["--feature-gates=AllAlpha=true,EvictionsInBackground=false"], False),
        (["--feature-gates=EvictionsInBackground=true", "--feature-gates=EvictionsInBackground=false"], False),
        (["--feature-gates=$(GATES)"], True),
        (["--feature-gates=EvictionsInBackground=yes"], False),
        (["--feature-gates=EvictionsInBackground"], False),
        (["--feature-gates=NoSuchGate=true,EvictionsInBackground=true"], False),
        (["--flag-of-the-future=1", "--feature-gates=EvictionsInBackground=true"], True),
        (["--v=many", "--feature-gates=EvictionsInBackground=true"], False),
        ([], False),
    ],
)
def test_the_gate_in_every_spelling(args: list[str], on: bool) -> None:
    workload = with_args(*args, env=[{"name": "GATES", "value": f"{GATE}=true"}])
    assert workload.feature_gate(GATE) is on
    assert workload.explain_gate().startswith("CronJob descheduler/descheduler, container descheduler: ")
    assert ("turns" in workload.explain_gate()) is on


def test_a_refused_command_line_is_told() -> None:
    workload = with_args("--v=many")
    assert "invalid argument" in workload.trouble
    assert "refuses its command line" in workload.explain_gate()
    assert (workload.verbosity, workload.policy_path, workload.flag("v")) == (0, "", None)
    future = with_args("--flag-of-the-future=1", "--v", "4")
    assert (future.trouble, future.verbosity) == ("", 4)
    assert "may know it" in future.notes[0]
    script = with_args(command=["sh", "-c", "descheduler --v=$LEVEL"])
    assert "a shell script decides" in script.trouble


def mounted(path: str, mounts: list[Obj], volumes: list[Obj]) -> DeschedulerWorkload:
    workload = with_args(f"--policy-config-file={path}", volumeMounts=mounts)
    workload.object["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"] = volumes
    return workload


def test_items_and_sub_paths_lead_to_the_key() -> None:
    items = {"name": "p", "configMap": {"name": "maps", "items": [{"key": "rebalance", "path": "policy.yaml"}]}}
    assert mounted("/policy-dir/policy.yaml", [{"name": "p", "mountPath": "/policy-dir/"}], [items]).policy_key == "rebalance"
    plain = {"name": "p", "configMap": {"name": "maps"}}
    sub = [{"name": "p", "mountPath": "/etc/policy.yaml", "subPath": "vm.yaml"}]
    assert mounted("/etc/policy.yaml", sub, [plain]).policy_key == "vm.yaml"
    projected = {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "maps"}}]}}
    found = mounted("/d/x.yaml", [{"name": "p", "mountPath": "/d"}], [projected])
    assert (found.policy_key, found.config_maps) == ("x.yaml", ("maps",))
    assert found.uses("descheduler", "maps")
    assert not found.uses("other", "maps")


def test_a_policy_path_outside_of_the_mount_is_seen() -> None:
    volume = {"name": "p", "configMap": {"name": "maps"}}
    found = mounted("/elsewhere/policy.yaml", [{"name": "p", "mountPath": "/policy-dir"}], [volume])
    assert found.policy_mount is None
    assert found.policy_volume == volume
    deeper = mounted("/a/b/p.yaml", [{"name": "x", "mountPath": "/a"}, {"name": "p", "mountPath": "/a/b"}], [volume])
    assert deeper.policy_mount == {"name": "p", "mountPath": "/a/b"}
    assert mounted("/policy-directory/p", [{"name": "p", "mountPath": "/policy-dir"}], [volume]).policy_mount is None


wire = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "descheduler", "/bin/descheduler", "--v=3", "sh", "-c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "configMap", "items", "value"]), inner),
    max_leaves=8,
)
KEYS = ["name", "image", "command", "args", "env", "volumeMounts"]


@given(st.dictionaries(st.sampled_from(KEYS), wire), st.dictionaries(st.sampled_from(["volumes", "containers"]), wire))
def test_no_shape_of_a_container_breaks_reading_it(container: Obj, spec: Obj) -> None:
    pod = {**spec, "containers": [container, *(spec.get("containers") if isinstance(spec.get("containers"), list) else [])]}  # type: ignore[misc]
    obj = {"kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": {"template": {"spec": pod}}}
    is_descheduler(container)
    for workload in [*workloads(DEPLOYMENTS, [obj], acp=False), DeschedulerWorkload(DEPLOYMENTS, obj, container)]:
        assert workload.explain_gate()
        assert isinstance(workload.config_maps, tuple)
        assert isinstance(workload.policy_key, str)
        assert workload.verbosity >= 0


def test_on_the_embedded_clusters_platforms() -> None:
    from fixtures.cluster.embedded import start_embedded
    from fixtures.embedded_spec import spec_of
    from fixtures.options import Settings

    for platform, flavour, ns in (("acp", Flavour.ACP, "descheduler"), ("upstream", Flavour.HELM, "kube-system")):
        cluster = start_embedded(Settings(embedded=spec_of(platform=platform)))
        consumer = find_consumer(cluster)
        assert (consumer.flavour, consumer.namespace, consumer.feature_gate(GATE)) == (flavour, ns, True)
        cluster.close()
