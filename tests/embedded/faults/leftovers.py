"""A pytest plugin for runs under test: writes what a run left in the embedded cluster, or changed there, beside its certificate."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS
from fixtures.run import RUN_CLUSTER

#: What a cluster makes by itself as time passes.
NOISE = {
    "events",
    "jobs.batch",
    "pods",
    "leases.coordination.k8s.io",
    "replicasets.apps",
    "endpoints",
    "endpointslices.discovery.k8s.io",
}
BEFORE = pytest.StashKey[dict[str, Any]]()


def state(cluster: EmbeddedCluster) -> dict[str, Any]:
    """Names of everything but noise, the policy, and the CronJob as it is configured."""
    store, ns = cluster.store, cluster.world.plugin_namespace
    names = {f"{key} {ns_}/{name}" for key in sorted({*store.keys()} - NOISE) for ns_, name in store._tables[key].rows}
    policy, cronjob = store.get(CONFIGMAPS, ns, "descheduler"), store.get(CRONJOBS, ns, "descheduler")
    return {"names": names, "policy": policy and policy["data"], "cronjob": cronjob and cronjob["spec"]}


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[BEFORE] = state(session.config.stash[RUN_CLUSTER].world)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    result = yield
    before, after = session.config.stash[BEFORE], state(session.config.stash[RUN_CLUSTER].world)  # type: ignore[attr-defined]
    found = {
        "left": sorted(after["names"] - before["names"]),
        "gone": sorted(before["names"] - after["names"]),
        "changed": [k for k in ("policy", "cronjob") if before[k] != after[k]],
        "troubles": session.config.stash[RUN_CLUSTER].world.troubles(),  # type: ignore[attr-defined]
    }
    directory = Path(session.config.option.rebalance_report_dir)
    (directory / "leftovers.yaml").write_text(yaml.safe_dump(found))
    return result
