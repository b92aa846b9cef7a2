"""A pytest plugin: the run under test acts as the ServiceAccount of vm-manifests/rbac, and its requests are written down.

``AUDIT_ROLES``: the role files, separated by commas; ``AUDIT_FILE``: where the requests go, one list of
``[server, verb, key, namespace, name, status, user agent]`` each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from fixtures.cluster.embedded import EmbeddedUnderTest, reference_engine
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.kube.resources import ALL
from fixtures.options import Settings

MANIFESTS = Path(__file__).parents[2] / "vm-manifests" / "rbac"
USER = "system:serviceaccount:rebalance-conformance:rebalance-conformance"
KINDS = {r.kind: r for r in ALL.values()}
_CLUSTERS: list[EmbeddedUnderTest] = []


@pytest.hookimpl(tryfirst=True)
def pytest_rebalance_cluster(settings: Settings) -> EmbeddedUnderTest:
    spec = settings.embedded
    world = EmbeddedCluster(
        kubevirt=spec.kubevirt,
        descheduler=spec.descheduler,
        platform=spec.platform,
        kubedescheduler=spec.kubedescheduler == "served",
        run_container=reference_engine,
    )
    for file in os.environ["AUDIT_ROLES"].split(","):
        for obj in yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")):
            if obj["metadata"].get("namespace") == "descheduler":
                obj["metadata"]["namespace"] = world.world.plugin_namespace
            world.world.items.append((KINDS[obj["kind"]], obj))
    _CLUSTERS.append(EmbeddedUnderTest(world, user=USER))
    return _CLUSTERS[-1]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    found = set()
    for cluster in _CLUSTERS:
        servers = {"workload": cluster.world.server, "global": cluster.world.global_server}
        for name, server in servers.items():
            for e in server.audit.entries if server is not None else ():
                if e.resource and (e.user == USER or name == "global"):
                    found.add((name, e.verb, e.key, e.ns, e.name, e.status, e.user_agent))
    Path(os.environ["AUDIT_FILE"]).write_text(json.dumps(sorted(found)), encoding="utf-8")
