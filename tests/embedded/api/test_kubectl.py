"""Stock kubectl works unmodified, with validation on. Each test is one habit of people at a terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from fixtures.embedded.server import ApiServer
from fixtures.kube.resources import EVENTS, PODS, Obj

Make = Callable[..., Obj]
CONFIG = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ka, namespace: bat}\ndata: {a: "1", b: "2"}\n'
WITHOUT_B = CONFIG.replace(', b: "2"', "")
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: kd, namespace: bat}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: i, env: [{name: A, value: "1"}, {name: B, value: "2"}]}]
"""
WIDGET = "apiVersion: bat.example.com/v1\nkind: Widget\nmetadata: {name: kw, namespace: bat}\nspec: {size: 1}\n"


@pytest.fixture
def pods(core: client.CoreV1Api, pod: Make, server: ApiServer) -> client.CoreV1Api:
    """p1 (running) and p2 on bn1, p3 nowhere."""
    core.create_namespaced_pod("bat", pod("p1", {"app": "x"}, "bn1"))
    core.create_namespaced_pod("bat", pod("p2", {"app": "y"}, "bn1"))
    core.create_namespaced_pod("bat", pod("p3", {"z": "1"}))
    server.store.edit(PODS, "bat", "p1", lambda o: o["status"].update(phase="Running"))
    return core


def test_version(kubectl: Any) -> None:
    assert "Server Version: v1.35.0+emulated" in kubectl("version")


def test_api_resources(kubectl: Any, widgets: Any) -> None:
    lines = {line.split()[0] for line in kubectl("api-resources").splitlines()}
    assert {"pods", "widgets", "cronjobs", "poddisruptionbudgets", "selfsubjectaccessreviews"} <= lines


def test_get_prints_the_servers_table(kubectl: Any, pods: Any) -> None:
    head, *rows = [line.split() for line in kubectl("get", "pods", "-n", "bat").splitlines()]
    assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows] == [
        ["p1", "0/1", "Running", "0"],
        ["p2", "0/1", "Pending", "0"],
        ["p3", "0/1", "Pending", "0"],
    ]


def test_get_wide_has_the_node(kubectl: Any, pods: Any) -> None:
    head, row, *_ = kubectl("get", "pods", "-n", "bat", "-o", "wide").splitlines()
    assert "NODE" in head.split()
    assert "bn1" in row.split()


def test_get_nodes(kubectl: Any, core: Any) -> None:
    head, row = kubectl("get", "nodes").splitlines()
    assert head.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row.split()[:3] == ["bn1", "Unknown", "<none>"]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("-l", "app=y", "-o", "name"), "pod/p2"),
        (("-l", "app=y", "-o", "jsonpath={.items[*].spec.nodeName}"), "bn1"),
        (("-l", "app=y", "-o", "custom-columns=N:.metadata.name,NODE:.spec.nodeName"), "N NODE p2 bn1"),
        (("--field-selector", "spec.nodeName=bn1", "-o", "name"), "pod/p1 pod/p2"),
        (("--sort-by=.metadata.name", "-o", "name"), "pod/p1 pod/p2 pod/p3"),
    ],
    ids=["label", "jsonpath", "custom-columns", "field", "sort-by"],
)
def test_get_selects_and_formats(kubectl: Any, pods: Any, words: tuple[str, ...], output: str) -> None:
    assert " ".join(kubectl("get", "pods", "-n", "bat", *words).split()) == output


def test_get_across_namespaces(kubectl: Any, pods: Any) -> None:
    assert kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName=bn1", "-o", "name").split() == ["pod/p1", "pod/p2"]


def test_get_shows_printer_columns_of_custom_resources(kubectl: Any, widgets: Any) -> None:
    head, row = (line.split() for line in kubectl("get", "wd", "-n", "bat").splitlines())
    assert head == ["NAME", "SIZE"]
    assert row == ["w", "3"]


def test_get_all_follows_categories(kubectl: Any, pods: Any, widgets: Any) -> None:
    output = kubectl("get", "all", "-n", "bat")
    assert "pod/p1" in output
    assert "widget.bat.example.com/w" in output


def test_missing_resource_type_and_object(kubectl: Any, core: Any) -> None:
    assert 'the server doesn\'t have a resource type "moduleinfo"' in kubectl.fails("get", "moduleinfo")
    assert 'Error from server (NotFound): pods "nope" not found' in kubectl.fails("get", "pod", "nope", "-n", "bat")


def test_create_with_validation(kubectl: Any, core: Any) -> None:
    assert kubectl("create", "-f", "-", stdin=CONFIG) == "configmap/ka created\n"
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", stdin=CONFIG)


def test_create_with_an_unknown_field_is_a_strict_decoding_error(kubectl: Any, core: Any) -> None:
    body = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: k, namespace: bat}\nspec: {contaners: [], containers: [{name: c, image: i}]}\n"
    )
    complaint = kubectl.fails("create", "-f", "-", stdin=body)
    assert 'strict decoding error: unknown field "spec.contaners"' in complaint
    assert 'Pod in version "v1" cannot be handled as a Pod' in complaint


def test_three_way_apply_removes_what_the_manifest_no_longer_has(kubectl: Any, core: Any) -> None:
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/ka created\n"
    assert kubectl("apply", "-f", "-", stdin=WITHOUT_B) == "configmap/ka configured\n"
    assert kubectl.json("get", "cm", "ka", "-n", "bat")["data"] == {"a": "1"}
    assert kubectl("apply", "-f", "-", stdin=WITHOUT_B) == "configmap/ka unchanged\n"


def test_apply_merges_lists_by_their_keys(kubectl: Any, core: Any) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace(', {name: B, value: "2"}', ""))
    container = kubectl.json("get", "deploy", "kd", "-n", "bat")["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "A", "value": "1"}]


def test_apply_of_a_custom_resource(kubectl: Any, widgets: Any) -> None:
    kubectl("apply", "-f", "-", stdin=WIDGET)
    kubectl("apply", "-f", "-", stdin=WIDGET.replace("1}", "2}"))
    assert kubectl("get", "wd", "kw", "-n", "bat", "-o", "jsonpath={.spec.size}") == "2"


def test_server_side_apply(kubectl: Any, core: Any) -> None:
    assert kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG) == "configmap/ka serverside-applied\n"
    kubectl("apply", "--server-side", "-f", "-", stdin=WITHOUT_B)
    assert kubectl.json("get", "cm", "ka", "-n", "bat")["data"] == {"a": "1"}
    other = CONFIG.replace('"1"', '"9"')
    assert 'conflict with "kubectl": .data.a' in kubectl.fails(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other
    )


def test_apply_dry_run_on_the_server(kubectl: Any, core: Any) -> None:
    assert kubectl("apply", "--dry-run=server", "-f", "-", stdin=CONFIG) == "configmap/ka created (server dry run)\n"
    kubectl.fails("get", "cm", "ka", "-n", "bat")


def test_diff(kubectl: Any, core: Any) -> None:
    kubectl("apply", "-f", "-", stdin=CONFIG)
    done = kubectl.run("diff", "-f", "-", stdin=CONFIG.replace('"1"', '"9"'))
    assert done.returncode == 1
    assert '+  a: "9"' in done.stdout


def test_patches_of_all_three_kinds(kubectl: Any, pods: Any) -> None:
    kubectl("create", "-f", "-", stdin=CONFIG)
    kubectl("patch", "cm", "ka", "-n", "bat", "--type=merge", "-p", '{"data":{"a":null,"z":"1"}}')
    kubectl("patch", "cm", "ka", "-n", "bat", "--type=json", "-p", '[{"op":"add","path":"/data/y","value":"2"}]')
    assert kubectl.json("get", "cm", "ka", "-n", "bat")["data"] == {"b": "2", "z": "1", "y": "2"}
    kubectl("patch", "pod", "p2", "-n", "bat", "-p", '{"metadata":{"labels":{"kk":"1"}}}')
    assert kubectl.json("get", "pod", "p2", "-n", "bat")["metadata"]["labels"] == {"app": "y", "kk": "1"}


def test_patch_of_the_status(kubectl: Any, pods: Any) -> None:
    kubectl("patch", "pod", "p2", "-n", "bat", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    assert kubectl("get", "pod", "p2", "-n", "bat", "-o", "jsonpath={.status.phase}") == "Running"


def test_label_annotate_cordon_and_taint(kubectl: Any, pods: Any) -> None:
    kubectl("label", "pod", "p2", "-n", "bat", "l=1")
    kubectl("annotate", "pod", "p2", "-n", "bat", "an=1")
    kubectl("cordon", "bn1")
    kubectl("taint", "node", "bn1", "k=v:NoSchedule")
    node = kubectl.json("get", "node", "bn1")
    assert node["spec"] == {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    kubectl("uncordon", "bn1")
    assert "unschedulable" not in kubectl.json("get", "node", "bn1")["spec"]


def test_edit(kubectl: Any, core: Any) -> None:
    kubectl("create", "-f", "-", stdin=CONFIG)
    kubectl("edit", "cm", "ka", "-n", "bat", KUBE_EDITOR="sed -i s/b:/bb:/")
    assert kubectl.json("get", "cm", "ka", "-n", "bat")["data"] == {"a": "1", "bb": "2"}


def test_warning_of_an_admission_hook_is_printed(kubectl: Any, core: Any, server: ApiServer) -> None:
    server.admission.append(lambda review: review.warnings.append(f"{review.operation} is watched"))
    assert "Warning: CREATE is watched" in kubectl.run("create", "-f", "-", stdin=CONFIG).stderr


def test_logs(kubectl: Any, pods: Any, server: ApiServer) -> None:
    uid = kubectl("get", "pod", "p1", "-n", "bat", "-o", "jsonpath={.metadata.uid}")
    server.logs.append(uid, "c", b"first\nsecond\n")
    assert kubectl("logs", "p1", "-n", "bat") == "first\nsecond\n"
    assert kubectl("logs", "p1", "-n", "bat", "--tail=1") == "second\n"


def test_followed_logs_end_with_the_container(kubectl: Any, pods: Any, server: ApiServer) -> None:
    uid = kubectl("get", "pod", "p1", "-n", "bat", "-o", "jsonpath={.metadata.uid}")
    server.logs.append(uid, "c", b"first\n")
    command = [kubectl.binary, "logs", "-f", "p1", "-n", "bat"]
    with subprocess.Popen(command, env=kubectl.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        server.logs.append(uid, "c", b"second\n")
        assert process.stdout.readline() == "second\n"
        server.logs.end(uid, "c")
        assert process.wait(10) == 0


@pytest.fixture
def event(pods: client.CoreV1Api) -> Iterator[None]:
    uid = pods.read_namespaced_pod("p1", "bat").metadata.uid
    involved = {"kind": "Pod", "name": "p1", "namespace": "bat", "uid": uid}
    at = "2026-11-29T12:00:00Z"
    body = {"metadata": {"name": "ev1"}, "involvedObject": involved, "reason": "Test", "message": "hello", "type": "Normal"}
    pods.create_namespaced_event("bat", {**body, "lastTimestamp": at, "firstTimestamp": at, "count": 1})
    return


def test_events(kubectl: Any, event: None) -> None:
    assert "hello" in kubectl("get", "events", "-n", "bat", "--sort-by=.lastTimestamp")
    assert "hello" in kubectl("events", "-n", "bat")


def test_events_without_times_can_be_sorted(kubectl: Any, core: Any, server: ApiServer) -> None:
    involved = {"kind": "Pod", "name": "p1", "namespace": "bat"}
    server.store.create(EVENTS, {"metadata": {"name": "e", "namespace": "bat"}, "involvedObject": involved, "message": "plain"})
    assert "plain" in kubectl("get", "events", "-n", "bat", "--sort-by=.lastTimestamp")


def test_describe(kubectl: Any, event: None) -> None:
    output = kubectl("describe", "pod", "p1", "-n", "bat")
    assert "Name:             p1" in output
    assert "hello" in output


def test_describe_and_explain_custom_and_builtin(kubectl: Any, widgets: Any) -> None:
    assert "Size:  3" in kubectl("describe", "wd", "w", "-n", "bat")
    assert "FIELD: size <integer>" in kubectl("explain", "widget.spec.size")
    assert "FIELD: nodeName <string>" in kubectl("explain", "pod.spec.nodeName")


def test_wait(kubectl: Any, pods: Any, widgets: Any) -> None:
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "p2", "-n", "bat", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    kubectl("wait", "pod/p2", "-n", "bat", "--for=condition=Ready", "--timeout=5s")
    kubectl("wait", "pod/p2", "-n", "bat", "--for=jsonpath={.status.phase}=Running", "--timeout=5s")
    kubectl("wait", "crd/widgets.bat.example.com", "--for=condition=Established", "--timeout=5s")


@pytest.mark.parametrize("words", [("-o", "name"), ()], ids=["names", "table"])
def test_get_watch_streams_changes(kubectl: Any, pods: client.CoreV1Api, pod: Make, words: tuple[str, ...]) -> None:
    command = [kubectl.binary, "get", "pods", "-n", "bat", "-w", *words]
    with subprocess.Popen(command, env=kubectl.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3 if words else 4)]
        pods.create_namespaced_pod("bat", pod("new"))
        new = process.stdout.readline()
        process.terminate()
    assert "p3" in lines[-1]
    assert new.startswith("pod/new" if words else "new")


def test_scale_rollout_and_replace(kubectl: Any, core: Any) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("scale", "deploy/kd", "-n", "bat", "--replicas=3")
    kubectl("rollout", "restart", "deploy/kd", "-n", "bat")
    found = kubectl.json("get", "deploy", "kd", "-n", "bat")
    assert found["spec"]["replicas"] == 3
    assert "kubectl.kubernetes.io/restartedAt" in found["spec"]["template"]["metadata"]["annotations"]
    found["spec"]["replicas"] = 2
    kubectl("replace", "-f", "-", stdin=json.dumps(found))
    assert kubectl("get", "deploy", "kd", "-n", "bat", "-o", "jsonpath={.spec.replicas}") == "2"


def test_create_job_from_cronjob(kubectl: Any, core: Any) -> None:
    kubectl("create", "cronjob", "cj", "-n", "bat", "--image=i", "--schedule=*/5 * * * *")
    kubectl("create", "job", "j1", "-n", "bat", "--from=cronjob/cj")
    job = kubectl.json("get", "job", "j1", "-n", "bat")
    assert job["metadata"]["ownerReferences"][0]["name"] == "cj"
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "i"


def test_auth(kubectl: Any, core: Any) -> None:
    assert kubectl("auth", "can-i", "create", "pods", "--subresource=eviction") == "yes\n"
    assert "admin" in kubectl("auth", "whoami")
    done = kubectl.run("auth", "can-i", "delete", "nodes", "--as=system:serviceaccount:bat:nobody")
    assert (done.returncode, done.stdout) == (1, "no\n")


def test_drain_dry_run(kubectl: Any, pods: Any) -> None:
    output = kubectl("drain", "bn1", "--dry-run=server", "--force", "--ignore-daemonsets")
    assert "node/bn1 drained (server dry run)" in output
    assert kubectl("get", "pods", "-n", "bat", "-o", "name").split() == ["pod/p1", "pod/p2", "pod/p3"]


def test_delete_waits_for_removal(kubectl: Any, pods: Any) -> None:
    assert kubectl("delete", "pod", "p1", "-n", "bat").startswith('pod "p1" deleted')
    kubectl.fails("get", "pod", "p1", "-n", "bat")


def test_delete_by_label_and_by_file(kubectl: Any, pods: Any) -> None:
    kubectl("create", "-f", "-", stdin=CONFIG)
    kubectl("delete", "pods", "-n", "bat", "-l", "app=y", "--grace-period=0", "--force")
    kubectl("delete", "-f", "-", stdin=CONFIG)
    assert kubectl("get", "pods,cm", "-n", "bat", "-o", "name").split() == ["pod/p1", "pod/p3"]


def test_deleted_namespace_takes_everything_along(kubectl: Any, pods: client.CoreV1Api) -> None:
    kubectl("delete", "ns", "bat", "--timeout=20s")
    assert pods.list_namespaced_pod("bat").items == []


@pytest.mark.provokes(404)
def test_deleted_crd_is_served_no_longer(kubectl: Any, widgets: Any) -> None:
    kubectl("delete", "crd", "widgets.bat.example.com")
    kubectl.fails("get", "wd", "-A")


def test_create_token(kubectl: Any, core: Any, server: ApiServer) -> None:
    kubectl("create", "serviceaccount", "robot", "-n", "bat")
    assert kubectl("create", "token", "robot", "-n", "bat").strip() == server.token("system:serviceaccount:bat:robot")
