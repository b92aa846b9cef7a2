"""A recorded dump: clean for what it holds, undecided for what it does not, in whatever wrapping and layout."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.checks import Level, Status
from fixtures.cluster.api import Cap, Edit, Forbidden, Missing, NotRecorded, NotServed, Partial, Presence, Verb
from fixtures.cluster.files import FilesCluster, open_files
from fixtures.kube.resources import (
    CONFIGMAPS,
    CRDS,
    CRONJOBS,
    HYPERCONVERGEDS,
    KUBEDESCHEDULERS,
    KUBEVIRTS,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    RESOURCEPATCHES,
    SECRETS,
    VMIS,
)
from fixtures.options import Settings
from tests.certifying import certify
from tests.cluster.files.on_paper import DATA, Judged, judged

DUMP = DATA / "dump"


def cluster_at(path: Path) -> FilesCluster:
    return open_files(Settings(cluster="files", engine="none", manifests=(path,)))


@pytest.fixture(scope="module")
def cluster() -> FilesCluster:
    return cluster_at(DUMP)


@pytest.fixture(scope="module")
def whole() -> Judged:
    return judged(DUMP)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DUMP, tmp_path / "dump"))


# ---- outcomes


def test_no_required_check_fails_and_the_rest_says_what_is_missing(whole: Judged) -> None:
    failed = {i for i in whole.failed if whole.outcomes[i].level is Level.REQUIRED}
    assert failed == set(), {i: whole.reason(i) for i in failed}
    assert str(whole.verdict) == "partial (files)"
    assert {"POL-1", "POL-2", "POL-3", "POL-4", "POL-7", "REN-1", "REN-2", "REN-4", "INT-1", "VER-1"} <= whole.those(Status.PASSED)
    assert whole.those(Status.SKIPPED) == set()
    assert not whole.cluster.remarks


def test_a_list_of_all_api_services_makes_absent_what_it_does_not_name(whole: Judged) -> None:
    assert whole.outcomes["CRD-1"].status is Status.NOT_APPLICABLE
    assert "cluster/apiservices.yaml lists every APIService, none is of group operator.openshift.io" in whole.reason("CRD-1")


def test_launchers_of_some_namespaces_are_not_all_launchers(whole: Judged) -> None:
    assert whole.outcomes["INT-3"].status is Status.INCONCLUSIVE
    assert "6 recorded launchers" in whole.reason("INT-3")
    assert "not recorded: those in namespace default, kube-node-lease, kube-public" in whole.reason("INT-3")


def test_launchers_of_all_namespaces_decide(copied: Path) -> None:
    for ns in ("default", "kube-node-lease", "kube-public", "kube-system", "kubevirt-hyperconverged"):
        (copied / "namespaces" / ns).mkdir(exist_ok=True)
        (copied / "namespaces" / ns / "pods.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    assert judged(copied).outcomes["INT-3"].status is Status.PASSED


def test_contrary_evidence_decides_even_in_part(copied: Path) -> None:
    path = copied / "namespaces" / "rebalance-test" / "pods.yaml"
    path.write_text(path.read_text().replace("descheduler.alpha.kubernetes.io/request-evict-only", "other"))
    assert "INT-3" in judged(copied).failed


def test_without_any_launcher_recorded_nothing_is_said_of_them(copied: Path) -> None:
    (copied / "namespaces" / "rebalance-test" / "pods.yaml").unlink()
    assert judged(copied).outcomes["INT-3"].status is Status.INCONCLUSIVE


def test_without_the_webhook_recorded_it_is_unknown_not_absent(copied: Path) -> None:
    next((copied / "cluster").glob("validatingwebhook*")).unlink()
    found = judged(copied)
    assert found.outcomes["INT-1"].status is Status.INCONCLUSIVE
    complete = {"apiVersion": "v1", "kind": "List", "items": []}
    (copied / "cluster" / "validatingwebhookconfigurations.yaml").write_text(yaml.safe_dump(complete))
    assert "INT-1" in judged(copied).failed


def test_versions_the_dump_does_not_tell_are_not_recorded(whole: Judged) -> None:
    from fixtures.found import Found

    found = Found(whole.cluster, Settings(cluster="files", engine="none", manifests=(DUMP,)))
    rows = {r.product: r.value for r in found.versions.rows}
    assert rows["Kubernetes"] == "v1.36.2"
    assert rows["KubeVirt"] == "v1.9.0"
    assert rows["platform"] == "not installed"
    assert rows["descheduler image"] == "v0.36.0"
    assert rows["HyperConverged"] == rows["descheduler package"] == "not recorded"


@pytest.mark.slow
def test_a_run_over_an_archive_ends_as_one_over_the_directory(whole: Judged, tmp_path: Path) -> None:
    archive = archived(DUMP, tmp_path / "dump.tar.gz")
    by_archive = certify(tmp_path / "a", "--cluster=files", f"--manifests={archive}")
    assert by_archive.status == 6, by_archive.output
    assert {i: by_archive.outcomes[i] for i in whole.outcomes} == {i: o.status.value for i, o in whole.outcomes.items()}
    assert by_archive.certificate["cluster"]["identity"].startswith("sha256:")


# ---- wrappings and layouts


def archived(folder: Path, path: Path, prefix: str = "dump", mode: str = "") -> Path:
    kind = mode or path.suffix.removeprefix(".").replace("tar", "").replace("tgz", "gz")
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        archive.add(folder, arcname=prefix)
    return path


def fast(text: str) -> Any:
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (safe ones)


def relaid(target: Path, place: Callable[[Path], str], change: Callable[[dict[str, Any]], Any] = lambda o: o) -> Path:
    """The dump with each file at another place, changed; files whose place is empty are left out."""
    for path in sorted(DUMP.rglob("*.*")):
        if not path.is_file() or not (name := place(path.relative_to(DUMP))):
            continue
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".log":
            shutil.copy(path, to)
            continue
        value = change(fast(path.read_text()))
        to.write_text(
            json.dumps(value, default=lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"))
            if to.suffix == ".json"
            else yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
        )
    return target


@pytest.mark.parametrize("name", ["d.tar", "d.tar.gz", "d.tgz", "d.tar.bz2", "d.tar.xz", "no-ending"])
@pytest.mark.parametrize("prefix", ["", "./", "must-gather.local.123/image-sha256"])
def test_an_archive_says_what_its_directory_says(name: str, prefix: str, tmp_path: Path, cluster: FilesCluster) -> None:
    found = cluster_at(archived(DUMP, tmp_path / name, prefix or "dump", mode="gz" if name == "no-ending" else ""))
    assert found.records.count == cluster.records.count
    assert found.list(PODS, ns="rebalance-test") == cluster.list(PODS, ns="rebalance-test")
    assert found.probe(KUBEDESCHEDULERS.key).presence is Presence.ABSENT
    assert found.log("descheduler", "descheduler-29000002-mgnk8") == cluster.log("descheduler", "descheduler-29000002-mgnk8")
    assert not found.remarks


def test_a_must_gather_says_the_same(tmp_path: Path) -> None:
    groups = {"kubevirts": "kubevirt.io", "virtualmachineinstances": "kubevirt.io", "cronjobs": "batch", "deployments": "apps"}

    def place(path: Path) -> str:
        if path.suffix == ".log":
            pod = path.stem
            return f"namespaces/{path.parts[1]}/pods/{pod}/descheduler/descheduler/logs/current.log"
        folder = groups.get(path.stem, "core")
        if path.parts[0] == "cluster":
            return (
                f"cluster-scoped-resources/{folder}/{path.name}"
                if "summary" not in path.name and path.stem != "version"
                else path.name
            )
        return f"namespaces/{path.parts[1]}/{folder}/{path.name}"

    found = cluster_at(relaid(tmp_path / "must-gather.local.1" / "quay-io-image", place))
    assert found.probe(KUBEDESCHEDULERS.key).presence is Presence.ABSENT
    assert type(found.list(PODS, ns="rebalance-test")) is list
    assert len(found.list(VMIS, ns="rebalance-test")) == 6
    assert found.log("descheduler", "descheduler-29000002-mgnk8", container="descheduler", tail=1)
    with pytest.raises(NotRecorded):
        found.log("descheduler", "descheduler-29000002-mgnk8", container="other")


def test_a_cluster_info_dump_says_the_same(tmp_path: Path) -> None:
    def place(path: Path) -> str:
        if path.suffix == ".log":
            return f"{path.parts[1]}/{path.stem}/logs.txt"
        if path.parts[0] == "cluster":
            return f"{path.stem}.json" if path.stem in ("nodes", "namespaces") else ""
        return f"{path.parts[1]}/{path.stem}.json"

    def typed(value: dict[str, Any]) -> dict[str, Any]:
        kinds = {i["kind"] for i in value["items"]}
        kind = kinds.pop()
        items = [{k: v for k, v in i.items() if k not in ("kind", "apiVersion")} for i in value["items"]]
        return {
            "kind": f"{kind}List",
            "apiVersion": value["items"][0]["apiVersion"],
            "metadata": {"resourceVersion": "9"},
            "items": items,
        }

    found = cluster_at(relaid(tmp_path / "dump", place, typed))
    assert type(found.list(PODS, ns="rebalance-test")) is list
    assert isinstance(found.list(PODS), Partial)
    assert found.list(CRONJOBS, ns="descheduler")[0]["kind"] == "CronJob"
    assert found.log("descheduler", "descheduler-29000002-mgnk8").startswith("I1201")


def test_a_dump_on_one_stream_is_read_past_its_logs(tmp_path: Path) -> None:
    pods = yaml.safe_load((DUMP / "namespaces/filler/pods.yaml").read_text())
    logs = (
        '==== START logs for container c of pod filler/a ====\n{"not": "json\n==== END logs for container c of pod filler/a ====\n'
    )
    text = json.dumps(pods, indent=4, default=str) + "\n" + logs + json.dumps(pods["items"][0], default=str)
    (tmp_path / "dump.json").write_text(text)
    found = cluster_at(tmp_path / "dump.json")
    assert len(found.list(PODS)) == len(pods["items"])
    assert not found.remarks


# ---- the Cluster interface


def test_it_only_reads(cluster: FilesCluster) -> None:
    assert cluster.can == {Cap.READ}
    with pytest.raises(Forbidden, match="only reads"):
        cluster.change(Edit(Verb.DELETE, PODS, "x", "y"))
    with pytest.raises(Forbidden):
        cluster.watch(PODS)
    with pytest.raises(NotRecorded, match="files have no account"):
        cluster.can_i("list", PODS, ns="a")
    assert cluster.until(lambda: 1, watching=[], within=5, doing="x").value == 1
    assert not cluster.until(lambda: None, watching=[], within=5, doing="x")
    cluster.elapse(5)
    cluster.close()


@pytest.mark.parametrize(
    ("labels", "fields", "count"),
    [
        ("kubevirt.io=virt-launcher", None, 9),
        ("kubevirt.io in (virt-launcher, other),!nothing", None, 9),
        ("kubevirt.io!=virt-launcher", None, None),
        ("app.kubernetes.io/name", None, 4),
        (None, "spec.nodeName=worker-a", None),
        ("kubevirt.io=virt-launcher", "status.phase=Running", 6),
        (None, "metadata.namespace=filler", 16),
    ],
)
def test_selectors_are_kubectls(labels: str | None, fields: str | None, count: int | None, cluster: FilesCluster) -> None:
    found = cluster.list(PODS, labels=labels, fields=fields)
    assert found
    everything = cluster.list(PODS)
    assert len(found) < len(everything)
    if count is not None:
        assert len(found) == count


def test_a_broken_selector_is_an_error_not_an_answer(cluster: FilesCluster) -> None:
    from fixtures.cluster.api import ClusterError

    for wrong in ({"labels": "a in b"}, {"fields": "spec.nonsense=1"}):
        with pytest.raises(ClusterError):
            cluster.list(PODS, **wrong)


def test_absent_missing_and_not_recorded_are_three_things(cluster: FilesCluster) -> None:
    with pytest.raises(NotServed, match="lists every APIService"):
        cluster.list(RESOURCEPATCHES)
    with pytest.raises(NotServed, match="not served in v1alpha1"):
        cluster.list(HYPERCONVERGEDS.at("v1alpha1"))
    with pytest.raises(NotRecorded, match="recorded in v1 only"):
        cluster.list(HYPERCONVERGEDS.at("v1beta1"))
    with pytest.raises(NotRecorded):
        cluster.list(PDBS)
    with pytest.raises(Missing):
        cluster.get(NODES, "worker-z")
    with pytest.raises(Missing):
        cluster.get(CONFIGMAPS, "other", ns="descheduler")
    with pytest.raises(NotRecorded):
        cluster.get(CONFIGMAPS, "other", ns="kube-system")
    with pytest.raises(NotRecorded, match="summary of it, without schema"):
        cluster.get(CRDS, KUBEVIRTS.key)
    assert cluster.list(CONFIGMAPS, ns="no-such-namespace") == []


def test_what_is_recorded_completely_is_a_plain_list(cluster: FilesCluster) -> None:
    assert type(cluster.list(NODES)) is list
    assert type(cluster.list(NAMESPACES)) is list
    assert isinstance(cluster.list(KUBEVIRTS), Partial)
    assert cluster.serves(KUBEVIRTS)
    assert not cluster.serves(KUBEDESCHEDULERS)
    assert cluster.serves(PDBS)


def test_a_page_of_a_list_is_not_the_list(copied: Path) -> None:
    path = copied / "cluster" / "nodes.yaml"
    value = fast(path.read_text())
    path.write_text(yaml.safe_dump({**value, "metadata": {"continue": "token"}}))
    found = cluster_at(copied)
    assert isinstance(found.list(NODES), Partial)
    assert "one page of a list" in found.remarks[0]


def test_a_list_with_a_broken_item_is_not_complete(copied: Path) -> None:
    path = copied / "cluster" / "nodes.yaml"
    value = fast(path.read_text())
    value["items"].append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}})
    path.write_text(yaml.safe_dump(value))
    found = cluster_at(copied)
    assert isinstance(found.list(NODES), Partial)
    assert "item 4: Node: metadata.name is 7" in found.remarks[0]


def test_of_two_recordings_the_newer_counts(copied: Path) -> None:
    pods = yaml.safe_load((copied / "namespaces/filler/pods.yaml").read_text())["items"]
    older = {**pods[0], "metadata": {**pods[0]["metadata"], "resourceVersion": "1", "labels": {"age": "old"}}}
    (copied / "zz-older.yaml").write_text(yaml.safe_dump(older))
    found = cluster_at(copied)
    assert found.get(PODS, pods[0]["metadata"]["name"], ns="filler")["metadata"]["labels"] != {"age": "old"}


def test_secrets_do_not_even_enter(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"}, "data": {"x": "c2VjcmV0"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(secret))
    assert "c2VjcmV0" not in str(cluster_at(tmp_path).list(SECRETS))


def test_a_log_is_cut_at_sixteen_mebibytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.files.cluster.LARGEST_LOG", 10)
    assert len(cluster_at(DUMP).log("descheduler", "descheduler-29000002-mgnk8")) == 10


def test_a_gzip_inside_an_archive_is_left_alone(tmp_path: Path) -> None:
    inner = gzip.compress(b"kind: x")
    path = tmp_path / "d.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(DUMP / "cluster/nodes.yaml", arcname="cluster/nodes.yaml")
        info = tarfile.TarInfo("a.yaml.gz")
        info.size = len(inner)
        archive.addfile(info, io.BytesIO(inner))
    assert cluster_at(path).records.count == 3
