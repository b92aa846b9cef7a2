"""The installed descheduler: CronJob, next scheduled run, Deployment, and what can be wrong with them."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from fixtures.cluster.api import Edit, Verb
from fixtures.cluster.embedded import EmbeddedUnderTest, start_embedded
from fixtures.embedded.ports import ContainerRun
from fixtures.engine.api import EngineTrouble
from fixtures.engine.installed import InstalledEngine
from fixtures.kube.objects import dig
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, DEPLOYMENTS, JOBS, PODS, Obj
from fixtures.options import parse

NS = "descheduler"


class Journal:
    """Shared objects may be edited once somebody writes it down."""

    def __init__(self) -> None:
        self.written: list[Edit] = []

    def before(self, edit: Edit, current: Obj | None) -> None:
        self.written.append(edit)


def changed(cluster: EmbeddedUnderTest, workload: Obj, change: Obj) -> Obj:
    resource = DEPLOYMENTS if workload["kind"] == "Deployment" else CRONJOBS
    found = cluster.change(Edit(Verb.MERGE, resource, workload["metadata"]["name"], NS, change))
    return found | {"kind": workload["kind"]}


def in_template(**spec: Any) -> Obj:
    return {"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}


def suspended(cluster: EmbeddedUnderTest, cronjob: Obj) -> Obj:
    return changed(cluster, cronjob, {"spec": {"suspend": True}})


def container(cronjob: Obj) -> Obj:
    return copy.deepcopy(cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0])


def test_a_job_made_from_the_suspended_cronjob(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = suspended(cluster, cronjob)
    jobs = cluster.watch(JOBS, ns=NS)
    report = InstalledEngine(cluster, workload).cycle(None)
    assert (report.exit_code, report.fatal, report.total_evicted) == (0, None, 0)
    assert report.passes
    assert report.unparsed == []
    (made,) = [e.object for e in jobs.events if e.type == "ADDED"]
    assert made["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert made["metadata"]["ownerReferences"][0]["uid"] == workload["metadata"]["uid"]
    assert made["spec"]["template"]["spec"]["containers"][0]["args"] == container(cronjob)["args"]
    cluster.elapse(60)
    assert cluster.list(JOBS, ns=NS) == []


def test_cycles_follow_one_another(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    found = InstalledEngine(cluster, suspended(cluster, cronjob))
    first, second = found.cycle(None), found.cycle(None)
    assert first.log != second.log
    assert first.exit_code == second.exit_code == 0


def test_waiting_for_the_next_scheduled_run(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    before = {j["metadata"]["uid"] for j in cluster.list(JOBS, ns=NS)}
    report = InstalledEngine(cluster, cronjob, wait=True).cycle(None)
    assert report.exit_code == 0
    after = [j for j in cluster.list(JOBS, ns=NS) if j["metadata"]["uid"] not in before]
    assert len(after) == 1
    assert "cronjob.kubernetes.io/instantiate" not in after[0]["metadata"]["annotations"]


def test_what_somebody_else_suspended_is_not_resumed(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = suspended(cluster, cronjob)
    with pytest.raises(EngineTrouble, match="is suspended, so no run is scheduled"):
        InstalledEngine(cluster, workload, wait=True).cycle(None)


def test_what_was_suspended_for_our_sake_is_resumed_until_its_next_run_has_started(
    cluster: EmbeddedUnderTest, cronjob: Obj
) -> None:
    cluster.elapse(150)  # a scheduled run is over, the next one is due
    workload = suspended(cluster, cronjob)
    cluster.journal = Journal()
    watch = cluster.watch(JOBS, ns=NS)
    before = {j["metadata"]["uid"] for j in watch.objects}
    engine = InstalledEngine(cluster, workload, wait=True, resume=True)
    reports = [engine.cycle(None), engine.cycle(None)]
    assert [r.exit_code for r in reports] == [0, 0]
    assert [edit.body for edit in cluster.journal.written] == [{"spec": {"suspend": s}} for s in (False, True, False, True)]
    cluster.elapse(600)
    made = {e.object["metadata"]["uid"]: e.object for e in watch.events if e.object["metadata"]["uid"] not in before}
    assert len(made) == 2
    assert all("cronjob.kubernetes.io/instantiate" not in j["metadata"]["annotations"] for j in made.values())


def test_a_schedule_that_brings_no_run_is_said_before_anything_is_resumed(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = changed(cluster, cronjob, {"spec": {"suspend": True, "schedule": "0 0 31 2 *"}})
    cluster.journal = Journal()
    with pytest.raises(EngineTrouble, match=r"schedule '0 0 31 2 \*' starts no run"):
        InstalledEngine(cluster, workload, wait=True, resume=True).cycle(None)
    assert cluster.journal.written == []


def test_a_policy_that_does_not_start_is_a_report_with_the_fatal_text(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = suspended(cluster, cronjob)
    bad = {"data": {"policy.yaml": "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"}}
    cluster.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", NS, bad))
    report = InstalledEngine(cluster, workload).cycle(None)
    assert report.exit_code == 1
    assert report.fatal is not None
    assert 'no kind "DeschedulerPolicy" is registered' in report.fatal


def test_an_unknown_gate_is_a_report_with_the_fatal_text(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    one = container(cronjob) | {"args": ["--policy-config-file=/policy-dir/policy.yaml", "--feature-gates=Nope=true"]}
    workload = changed(cluster, cronjob, {"spec": {"suspend": True}} | in_template(containers=[one]))
    workload = suspended(cluster, workload)
    report = InstalledEngine(cluster, workload).cycle(None)
    assert (report.exit_code, report.fatal) == (1, "unrecognized feature gate: Nope")


def test_the_right_container_of_several(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = suspended(cluster, cronjob)
    beside = {"name": "proxy", "image": "registry.example/proxy:1", "command": ["/proxy"]}
    workload = copy.deepcopy(workload)
    workload["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"].insert(0, beside)
    assert InstalledEngine(cluster, workload).runs.engine == "descheduler"


def test_several_containers_that_could_all_be_it(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = copy.deepcopy(cronjob)
    spec = workload["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    spec["containers"] = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    with pytest.raises(EngineTrouble, match="cannot tell which container is the descheduler; containers: a, b"):
        InstalledEngine(cluster, workload)


def test_a_pod_that_finds_no_node_is_said(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = changed(cluster, cronjob, {"spec": {"suspend": True}} | in_template(nodeSelector={"no": "where"}))
    workload = suspended(cluster, workload)
    with pytest.raises(EngineTrouble, match="did not end within 120 s; Pods: not scheduled"):
        InstalledEngine(cluster, workload, within=120).cycle(None)


def test_a_policy_cannot_be_handed_over(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    with pytest.raises(EngineTrouble, match="runs the installed policy"):
        InstalledEngine(cluster, cronjob).cycle("kind: DeschedulerPolicy")


def test_an_api_server_that_refuses_is_said(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = copy.deepcopy(cronjob)
    workload["spec"]["jobTemplate"]["spec"]["backoffLimit"] = "many"
    with pytest.raises(EngineTrouble, match=r"^CronJob descheduler/descheduler: .*backoffLimit"):
        InstalledEngine(cluster, workload).cycle(None)


#: What a kubelet answers for a container between two starts: the log of the last one.
LAST = 'E0102 15:04:05.000000       1 run.go:72] "command failed" err="deschedulerPolicy is nil"\n'


def test_a_job_that_starts_its_container_again_has_ended_at_the_first_failure(
    cluster: EmbeddedUnderTest, cronjob: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = container(cronjob) | {"args": ["--nope"]}
    workload = changed(cluster, cronjob, in_template(restartPolicy="OnFailure", containers=[broken]))
    monkeypatch.setattr(cluster, "log", lambda *a, **k: LAST)
    begin = cluster.now()
    report = InstalledEngine(cluster, suspended(cluster, workload)).cycle(None)
    assert (report.exit_code, report.fatal) == (1, "deschedulerPolicy is nil")
    assert cluster.now() - begin < 30


@pytest.fixture
def deployment(cluster: EmbeddedUnderTest, cronjob: Obj) -> Obj:
    """The same engine as a Deployment with an interval, stopped; the CronJob is suspended."""
    suspended(cluster, cronjob)
    template = copy.deepcopy(cronjob["spec"]["jobTemplate"]["spec"]["template"])
    labels = {"app": "descheduler-deployment"}
    template["metadata"] = {"labels": labels}
    template["spec"]["restartPolicy"] = "Always"
    template["spec"]["containers"][0]["args"].append("--descheduling-interval=60s")
    body = {
        "metadata": {"name": "descheduler", "namespace": NS},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    made = cluster.change(Edit(Verb.CREATE, DEPLOYMENTS, "descheduler", NS, body))
    cluster.journal = Journal()
    return made | {"kind": "Deployment"}


def test_a_stopped_deployment_runs_for_one_cycle_and_is_stopped_again(cluster: EmbeddedUnderTest, deployment: Obj) -> None:
    report = InstalledEngine(cluster, deployment).cycle(None)
    assert (report.exit_code, report.total_evicted, report.eviction_requests) == (None, 0, 0)
    assert report.unparsed == []
    assert isinstance(cluster.journal, Journal)
    assert [edit.body["spec"]["replicas"] for edit in cluster.journal.written] == [1, 0]
    assert dig(cluster.get(DEPLOYMENTS, "descheduler", ns=NS), "spec", "replicas") == 0
    cluster.elapse(60)
    assert [p for p in cluster.list(PODS, ns=NS) if "app" in p["metadata"]["labels"]] == []


def test_a_running_deployment_is_followed_through_its_next_cycle(cluster: EmbeddedUnderTest, deployment: Obj) -> None:
    cluster.change(Edit(Verb.MERGE, DEPLOYMENTS, "descheduler", NS, {"spec": {"replicas": 1}}))
    cluster.elapse(90)
    begin = cluster.now()
    report = InstalledEngine(cluster, deployment).cycle(None)
    assert report.total_evicted == 0
    assert 0 < cluster.now() - begin < 70
    assert dig(cluster.get(DEPLOYMENTS, "descheduler", ns=NS), "spec", "replicas") == 1


def test_a_deployment_that_does_not_start_is_a_report_with_the_fatal_text(
    cluster: EmbeddedUnderTest, deployment: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", NS, {"data": {"policy.yaml": "kind: Nope\napiVersion: v1\n"}}))
    monkeypatch.setattr(cluster, "log", lambda *a, **k: LAST)
    report = InstalledEngine(cluster, deployment, within=120).cycle(None)
    assert report.fatal == "deschedulerPolicy is nil"
    assert dig(cluster.get(DEPLOYMENTS, "descheduler", ns=NS), "spec", "replicas") == 0


def test_a_deployment_that_completes_no_cycle_is_said(
    cluster: EmbeddedUnderTest, deployment: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "log", lambda *a, **k: "nothing of interest\n")
    with pytest.raises(EngineTrouble, match=r"no cycle was completed within 120 s in the log of Pod descheduler-\S+ \(Running\)"):
        InstalledEngine(cluster, deployment, within=120).cycle(None)


# ---- a policy that is to be refused

REFUSED = {"data": {"policy.yaml": "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"}}


def test_a_job_with_a_refused_policy_is_tried_again(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    workload = suspended(cluster, cronjob)
    cluster.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", NS, REFUSED))
    report, again = InstalledEngine(cluster, workload).refused()
    assert (report.exit_code, again) == (1, True)
    assert report.fatal is not None
    cluster.elapse(60)
    assert cluster.list(JOBS, ns=NS) == []


def test_a_job_that_takes_the_policy_is_not_tried_again(cluster: EmbeddedUnderTest, cronjob: Obj) -> None:
    report, again = InstalledEngine(cluster, suspended(cluster, cronjob)).refused(again_within=60)
    assert (report.exit_code, report.fatal, again) == (0, None, False)


# ---- processes that disappoint


def dying(run: ContainerRun) -> Generator[float, None, int]:
    run.write(b"starting\n")
    yield 1.0
    return 137


def leaving(run: ContainerRun) -> Generator[float, None, int]:
    yield 1.0
    return 0


@pytest.fixture
def disappointing(request: pytest.FixtureRequest) -> Iterator[EmbeddedUnderTest]:
    workload, process = request.param
    found = start_embedded(parse({"embedded": f"workload={workload}"}), run_container=process)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("disappointing", "says"),
    [
        (("cronjob", dying), r"Pod \S+ was killed by signal SIGKILL; it said last: starting"),
        (("deployment", dying), r"Pod \S+ was killed by signal SIGKILL; it said last: starting"),
        (("cronjob", leaving), r"Pod \S+ ended with status 0 and an empty log"),
        (("deployment", leaving), r"Pod \S+ was started again 3 times without a cycle \(.*ended with status 0\)"),
    ],
    indirect=["disappointing"],
)
def test_a_process_that_dies_or_leaves_is_said_soon(disappointing: EmbeddedUnderTest, says: str) -> None:
    cluster = disappointing
    deployments = cluster.list(DEPLOYMENTS, ns=NS)
    workload = stopped(cluster) if deployments else suspended(cluster, cluster.list(CRONJOBS)[0] | {"kind": "CronJob"})
    begin = cluster.now()
    with pytest.raises(EngineTrouble, match=says):
        InstalledEngine(cluster, workload).cycle(None)
    assert cluster.now() - begin < 150


@pytest.fixture
def deployed() -> Iterator[EmbeddedUnderTest]:
    found = start_embedded(parse({"embedded": "workload=deployment"}))
    yield found
    found.close()


def stopped(cluster: EmbeddedUnderTest) -> Obj:
    cluster.journal = Journal()
    (found,) = [d for d in cluster.list(DEPLOYMENTS, ns=NS) if d["metadata"]["name"] == "descheduler"]
    return changed(cluster, found | {"kind": "Deployment"}, {"spec": {"replicas": 0}})


def test_a_deployment_with_a_refused_policy_is_started_again(deployed: EmbeddedUnderTest) -> None:
    workload = stopped(deployed)
    deployed.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", NS, REFUSED))
    report, again = InstalledEngine(deployed, workload).refused()
    assert (report.exit_code, again) == (1, True)
    assert report.fatal is not None


def test_a_deployments_next_cycle_reads_the_policy_of_now(deployed: EmbeddedUnderTest) -> None:
    workload = stopped(deployed)
    engine = InstalledEngine(deployed, workload)
    first = engine.cycle(None)
    deployed.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", NS, REFUSED))
    second = engine.cycle(None)
    assert first.fatal is None
    assert second.fatal is not None
