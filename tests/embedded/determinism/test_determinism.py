"""One seed, one course: two runs of the same story are the same request by request and commit by commit."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.ports import Change, ContainerRun
from fixtures.engine.reference import process
from fixtures.kube.objects import annotations_of, name
from fixtures.kube.resources import CONFIGMAPS, PODS, VMIMS, VMS
from tests.embedded.controllers.web import Web

Rows = list[tuple[Any, ...]]
_KLOG_TIME = re.compile(r"\d{4} \d\d:\d\d:\d\d\.\d{6}")


def engine(run: ContainerRun) -> Generator[float, None, int]:
    return process.run(run.argv[1:], env=run.env, files=run.files, kubeconfig=run.kubeconfig, write=run.write, now=run.now)


def course(seed: int, **options: Any) -> tuple[Rows, Rows, list[str]]:
    """Edit the policy, let the CronJob run, evict, delete a VM: requests, commits and logs, moments as distances from the start."""
    commits: list[Change] = []
    with EmbeddedCluster(run_container=engine, seed=seed, **options) as cluster:
        start = cluster.clock.now()
        cluster.store.subscribe(commits.append)
        web = Web(cluster.server)
        policy = web.get(CONFIGMAPS, "descheduler", "descheduler")
        policy["data"]["policy.yaml"] = policy["data"]["policy.yaml"].replace("PodsWithPVC", "PodsWithResourceClaims")
        assert web.request("PUT", CONFIGMAPS.path("descheduler", "descheduler"), policy).warnings
        cluster.clock.advance(250)
        for pod in web.list(PODS, "tenant-a"):
            if annotations_of(pod).get("kubevirt.io/domain"):
                web.evict("tenant-a", name(pod))
        cluster.clock.advance(90)
        assert web.list(VMIMS)
        web.request("DELETE", VMS.path("tenant-a", "erp-db"))
        cluster.clock.advance(60)
        runs = [name(p) for p in web.list(PODS, "descheduler")]
        logs = [_KLOG_TIME.sub("", web.request("GET", f"{PODS.path('descheduler', pod)}/log").body) for pod in runs]
        requests: Rows = [
            (e.verb, e.path, e.key, e.ns, e.name, e.user, e.user_agent, e.status, e.bytes, round(e.at - start, 6))
            for e in cluster.server.audit.entries
        ]
        assert cluster.troubles() == []
    told = [(c.type, c.resource.key, c.rv, c.object["metadata"].get("namespace"), name(c.object)) for c in commits]
    return requests, told, logs


def test_two_runs_with_one_seed_have_the_same_audit_log_commits_and_logs() -> None:
    one, other = course(7), course(7)
    assert one[0] == other[0]
    assert one[1] == other[1]
    assert one[2] == other[2]
    assert "Number of evictions/requests" in one[2][0]
    assert {row[7] for row in one[0]} >= {200, 429}


def test_a_fault_strikes_the_same_requests_again() -> None:
    one, other = course(7, faults=["migration-fails:1", "watch-drop:7"]), course(7, faults=["migration-fails:1", "watch-drop:7"])
    assert one == other


def test_another_seed_gives_other_names() -> None:
    names = [{row[4] for row in course(seed)[1] if row[1] == VMIMS.key} for seed in (1, 2)]
    assert names[0]
    assert not names[0] & names[1]
