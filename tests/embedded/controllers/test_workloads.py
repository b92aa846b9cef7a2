"""Jobs, CronJobs, Deployments, budgets, the kubelet's container processes, nodes."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.embedded.clock import stamp
from fixtures.embedded.ports import ContainerRun
from fixtures.kube.objects import annotations_of, condition, dig, is_true, labels, name, owner, uid
from fixtures.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    ENDPOINTS,
    ENDPOINTSLICES,
    JOBS,
    NODES,
    PDBS,
    PODS,
    REPLICASETS,
    SERVICES,
    Obj,
)
from tests.embedded.controllers.rig import EPOCH, NS, Rig, events

MARKS = {"app.kubernetes.io/name": "descheduler"}


def pod_template(policy: str = "descheduler", restart: str = "Never") -> Obj:
    container = {
        "name": "descheduler",
        "image": "registry.k8s.io/descheduler/descheduler:v0.36.0",
        "command": ["/bin/descheduler"],
        "args": ["--policy-config-file=/policy-dir/policy.yaml"],
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "policy-volume", "mountPath": "/policy-dir"}],
    }
    volumes = [{"name": "policy-volume", "configMap": {"name": policy}}]
    spec = {"serviceAccountName": "descheduler", "restartPolicy": restart, "containers": [container], "volumes": volumes}
    return {"metadata": {"labels": dict(MARKS)}, "spec": spec}


def policy(rig: Rig) -> None:
    rig.store.create(CONFIGMAPS, {"metadata": {"name": "descheduler", "namespace": NS}, "data": {"policy.yaml": "kind: X\n"}})


def job(rig: Rig, **spec: object) -> Obj:
    return rig.store.create(JOBS, {"metadata": {"name": "once", "namespace": NS}, "spec": {"template": pod_template(), **spec}})


def cronjob(rig: Rig, **spec: object) -> Obj:
    meta = {"name": "descheduler", "namespace": NS, "labels": dict(MARKS)}
    body = {"schedule": "*/2 * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": pod_template()}}}
    return rig.store.create(CRONJOBS, {"metadata": meta, "spec": {**body, **spec}})


class Runs:
    """Remembers what was run and answers with the planned exit codes, then 0."""

    def __init__(self, *codes: int, seconds: float = 1.0) -> None:
        self.codes, self.seconds, self.seen = list(codes), seconds, list[ContainerRun]()

    def __call__(self, run: ContainerRun) -> Generator[float, None, int]:
        self.seen.append(run)
        run.write(b"line one\n")
        yield self.seconds
        run.write(b"line two\n")
        return self.codes.pop(0) if self.codes else 0


def status(rig: Rig, job_name: str = "once") -> Obj:
    found: Obj = dig(rig.store.get(JOBS, NS, job_name), "status", default={})
    return found


def test_the_container_gets_arguments_files_and_access() -> None:
    runs = Runs()
    rig = Rig(run_container=runs)
    policy(rig)
    job(rig)
    rig.clock.advance(5)
    (run,) = runs.seen
    assert run.argv == ("/bin/descheduler", "--policy-config-file=/policy-dir/policy.yaml")
    assert (run.env, run.files) == ({"A": "1"}, {"/policy-dir/policy.yaml": "kind: X\n"})
    assert run.kubeconfig == {"user": f"system:serviceaccount:{NS}:descheduler"}
    pod = rig.store.list(PODS, NS)[0]
    assert rig.logs[uid(pod)] == b"line one\nline two\n"
    assert dig(pod, "status", "phase") == "Succeeded"
    assert dig(pod, "status", "containerStatuses", 0, "state", "terminated", "exitCode") == 0


def test_a_job_completes_with_its_labels_and_events() -> None:
    rig = Rig()
    policy(rig)
    made = job(rig)
    rig.clock.advance(5)
    found = rig.store.get(JOBS, NS, "once") or {}
    pod = rig.store.list(PODS, NS)[0]
    marks = {"batch.kubernetes.io/job-name": "once", "job-name": "once", "batch.kubernetes.io/controller-uid": uid(made)}
    assert labels(pod).items() >= {**marks, **MARKS}.items()
    assert labels(found) == MARKS
    assert dig(owner(pod), "name") == "once"
    assert [c["type"] for c in found["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert found["status"].items() >= {"succeeded": 1, "terminating": 0, "ready": 0, "uncountedTerminatedPods": {}}.items()
    assert "active" not in found["status"]
    assert events(rig, "once") == [("SuccessfulCreate", f"Created pod: {name(pod)}"), ("Completed", "Job completed")]


def test_a_failing_job_is_retried_with_back_off_until_its_limit() -> None:
    rig = Rig(run_container=Runs(1, 1, 1, 1, 1))
    policy(rig)
    job(rig, backoffLimit=2)
    rig.clock.advance(200)
    pods = sorted(rig.store.list(PODS, NS), key=rig.ctx.index.born)
    assert [dig(p, "status", "phase") for p in pods] == ["Failed"] * 3
    born = [c.object["metadata"]["creationTimestamp"] for c in rig.changes if c.resource.key == "pods" and c.type == "ADDED"]
    assert born == [stamp(EPOCH), stamp(EPOCH + 11), stamp(EPOCH + 32)]
    assert dig(condition(rig.store.get(JOBS, NS, "once") or {}, "Failed"), "reason") == "BackoffLimitExceeded"
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in events(rig, "once")


def test_a_job_that_recovers_completes() -> None:
    rig = Rig(run_container=Runs(1))
    policy(rig)
    job(rig)
    rig.clock.advance(30)
    assert status(rig).items() >= {"succeeded": 1, "failed": 1}.items()
    assert is_true(rig.store.get(JOBS, NS, "once") or {}, "Complete")


def test_a_suspended_job_has_no_pods() -> None:
    rig = Rig()
    policy(rig)
    job(rig, suspend=True)
    rig.clock.advance(5)
    assert rig.store.list(PODS, NS) == []


def test_a_finished_job_goes_after_its_time_to_live_and_a_slow_one_at_its_deadline() -> None:
    rig = Rig(run_container=Runs(seconds=100.0))
    policy(rig)
    job(rig, activeDeadlineSeconds=10, ttlSecondsAfterFinished=30)
    rig.wait(lambda: is_true(rig.store.get(JOBS, NS, "once") or {}, "Failed"), within=200)
    rig.clock.advance(40)
    assert rig.store.get(JOBS, NS, "once") is None


def test_without_its_config_map_the_pod_waits() -> None:
    runs = Runs()
    rig = Rig(run_container=runs)
    job(rig)
    rig.clock.advance(5)
    pod = rig.store.list(PODS, NS)[0]
    assert dig(pod, "status", "phase") == "Pending"
    text = 'MountVolume.SetUp failed for volume "policy-volume" : configmap "descheduler" not found'
    assert ("FailedMount", text) in events(rig, name(pod))
    policy(rig)
    rig.clock.advance(5)
    assert len(runs.seen) == 1


def test_a_cron_job_runs_on_its_schedule_and_names_jobs_by_the_minute() -> None:
    rig = Rig()
    policy(rig)
    cronjob(rig)
    rig.clock.advance(500)
    minutes = [int(name(j).rpartition("-")[2]) for j in rig.store.list(JOBS, NS)]
    assert [m % 2 for m in minutes] == [0, 0, 0]
    assert minutes == [minutes[-1] - 4, minutes[-1] - 2, minutes[-1]]
    cron = rig.store.get(CRONJOBS, NS, "descheduler") or {}
    assert cron["status"]["lastScheduleTime"] == stamp(minutes[-1] * 60)
    assert "active" not in cron["status"]
    made = rig.store.list(JOBS, NS)[0]
    assert annotations_of(made)["batch.kubernetes.io/cronjob-scheduled-timestamp"] == stamp(minutes[0] * 60)
    assert dig(owner(made), "kind") == "CronJob"
    told = [reason for reason, _ in events(rig, "descheduler")]
    assert told.count("SuccessfulCreate") == 5
    assert "SuccessfulDelete" in told
    assert "SawCompletedJob" in told


def test_suspension_holds_and_resumption_makes_up_for_the_last_missed_run_only() -> None:
    rig = Rig()
    policy(rig)
    cronjob(rig, suspend=True)
    rig.clock.advance(700)
    assert rig.store.list(JOBS, NS) == []
    rig.store.edit(CRONJOBS, NS, "descheduler", lambda c: c["spec"].update(suspend=False))
    rig.clock.advance(1)
    assert len(rig.store.list(JOBS, NS)) == 1


def test_forbid_skips_a_run_while_one_is_active() -> None:
    rig = Rig(run_container=Runs(seconds=300.0))
    policy(rig)
    cronjob(rig)
    rig.clock.advance(290)
    assert len(rig.store.list(JOBS, NS)) == 1
    cron = rig.store.get(CRONJOBS, NS, "descheduler") or {}
    assert [a["name"] for a in cron["status"]["active"]] == [name(rig.store.list(JOBS, NS)[0])]
    assert "JobAlreadyActive" in [reason for reason, _ in events(rig, "descheduler")]


def test_a_schedule_that_is_none_is_told() -> None:
    rig = Rig()
    cronjob(rig, schedule="now and then")
    rig.clock.advance(300)
    assert rig.store.list(JOBS, NS) == []
    assert events(rig, "descheduler") == [("UnparseableSchedule", "unparseable schedule: 'now and then'")]


def deployment(rig: Rig, **spec: object) -> Obj:
    body = {"replicas": 2, "selector": {"matchLabels": dict(MARKS)}, "template": pod_template(restart="Always"), **spec}
    return rig.store.create(DEPLOYMENTS, {"metadata": {"name": "d", "namespace": NS}, "spec": body})


def test_a_deployment_scales_and_reports() -> None:
    rig = Rig(run_container=Runs(seconds=10_000.0))
    policy(rig)
    deployment(rig)
    rig.clock.advance(2)
    assert dig(rig.store.get(DEPLOYMENTS, NS, "d"), "status", "readyReplicas") == 2
    rig.store.edit(DEPLOYMENTS, NS, "d", lambda d: d["spec"].update(replicas=0))
    rig.clock.advance(3)
    assert rig.store.list(PODS, NS) == []
    assert "readyReplicas" not in dig(rig.store.get(DEPLOYMENTS, NS, "d"), "status")


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_a_changed_template_replaces_the_pods(strategy: str) -> None:
    runs = Runs(seconds=10_000.0)
    rig = Rig(run_container=runs)
    policy(rig)
    deployment(rig, replicas=1, strategy={"type": strategy})
    rig.clock.advance(2)
    old = name(rig.store.list(PODS, NS)[0])
    restarted = {"kubectl.kubernetes.io/restartedAt": "now"}
    rig.store.edit(DEPLOYMENTS, NS, "d", lambda d: d["spec"]["template"]["metadata"].update(annotations=restarted))
    rig.clock.advance(3)
    (pod,) = rig.store.list(PODS, NS)
    assert name(pod) != old
    assert len(rig.store.list(REPLICASETS, NS)) == 2
    assert len(runs.seen) == 2


def test_a_crashing_container_of_a_deployment_is_restarted_with_back_off() -> None:
    runs = Runs(1, 1, 1, 1)
    rig = Rig(run_container=runs)
    policy(rig)
    deployment(rig, replicas=1)
    rig.clock.advance(60)
    (pod,) = rig.store.list(PODS, NS)
    assert dig(pod, "status", "containerStatuses", 0, "restartCount") == 2
    assert dig(pod, "status", "containerStatuses", 0, "state", "waiting", "reason") == "CrashLoopBackOff"
    assert len(runs.seen) == 3


def test_a_deleted_pod_s_process_ends_with_it() -> None:
    ended: list[str] = []

    def forever(run: ContainerRun) -> Generator[float, None, int]:
        try:
            while True:
                yield 60.0
        finally:
            ended.append(name(run.pod))

    rig = Rig(run_container=forever)
    policy(rig)
    job(rig)
    rig.clock.advance(2)
    (pod,) = rig.store.list(PODS, NS)
    rig.store.delete(PODS, NS, name(pod))
    rig.clock.advance(1)
    assert ended == [name(pod)]


def test_endpoints_follow_ready_pods() -> None:
    rig = Rig(run_container=Runs(seconds=10_000.0))
    policy(rig)
    spec = {"selector": dict(MARKS), "ports": [{"port": 443}]}
    rig.store.create(SERVICES, {"metadata": {"name": "svc", "namespace": NS}, "spec": spec})
    deployment(rig)
    rig.clock.advance(2)
    assert len(dig(rig.store.get(ENDPOINTS, NS, "svc"), "subsets", 0, "addresses")) == 2
    (part,) = rig.store.list(ENDPOINTSLICES, NS)
    assert [e["conditions"]["ready"] for e in part["endpoints"]] == [True, True]
    rig.store.edit(DEPLOYMENTS, NS, "d", lambda d: d["spec"].update(replicas=0))
    rig.clock.advance(3)
    assert "subsets" not in (rig.store.get(ENDPOINTS, NS, "svc") or {})


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 1}, 1, 1),
        ({"minAvailable": 2}, 0, 2),
        ({"maxUnavailable": 1}, 1, 1),
        ({"minAvailable": "50%"}, 1, 1),
        ({"maxUnavailable": "100%"}, 2, 0),
    ],
)
def test_budgets_are_counted(spec: Obj, allowed: int, desired: int) -> None:
    rig = Rig(run_container=Runs(seconds=10_000.0))
    policy(rig)
    deployment(rig)
    rig.store.create(PDBS, {"metadata": {"name": "b", "namespace": NS}, "spec": {**spec, "selector": {"matchLabels": MARKS}}})
    rig.clock.advance(2)
    found = dig(rig.store.get(PDBS, NS, "b"), "status")
    assert (found["disruptionsAllowed"], found["desiredHealthy"], found["expectedPods"]) == (allowed, desired, 2)
    assert found["observedGeneration"] == 1


def test_a_percentage_over_launchers_is_never_processed() -> None:
    rig = Rig()
    selector = {"matchLabels": {"app": "desched-test"}}
    rig.running()
    rig.store.create(PDBS, {"metadata": {"name": "b", "namespace": NS}, "spec": {"minAvailable": "50%", "selector": selector}})
    rig.clock.advance(2)
    assert "observedGeneration" not in dig(rig.store.get(PDBS, NS, "b"), "status")


def test_a_lost_node_s_pods_are_deleted_after_five_minutes() -> None:
    rig = Rig(run_container=Runs(seconds=10_000.0), workers=2)
    policy(rig)
    deployment(rig, replicas=1)
    rig.clock.advance(2)
    (pod,) = rig.store.list(PODS, NS)
    node = pod["spec"]["nodeName"]
    unknown = {"type": "Ready", "status": "Unknown", "lastTransitionTime": rig.clock.stamp()}
    rig.store.edit(NODES, None, node, lambda n: n["status"].update(conditions=[unknown]))
    rig.clock.advance(5)
    assert not is_true(rig.store.get(PODS, NS, name(pod)) or {}, "Ready")
    assert len(rig.store.list(PODS, NS)) == 1
    rig.clock.advance(310)
    replacement = [p for p in rig.store.list(PODS, NS) if name(p) != name(pod)]
    assert [p["spec"]["nodeName"] for p in replacement] != [node]
    assert is_true(replacement[0], "Ready")
    assert labels(rig.store.get(NODES, None, node) or {})["kubevirt.io/schedulable"] == "false"
