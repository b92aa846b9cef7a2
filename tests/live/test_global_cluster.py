"""``--global-kubeconfig``: what only the platform's global cluster tells, read there and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.live.conftest import Live

pytestmark = pytest.mark.slow


def version(certificate: dict, product: str) -> dict:  # type: ignore[type-arg]
    return next(v for v in certificate["versions"] if v["product"] == product)


def test_module_info_and_release_are_read_from_the_global_cluster(live: Live, tmp_path: Path) -> None:
    found = live.certify(tmp_path, f"--global-kubeconfig={live.cluster.global_kubeconfig}")
    assert found.status == 0, found.output
    assert found.outcomes["ACP-1"] == found.outcomes["VER-1"] == "passed"
    assert version(found.certificate, "descheduler package")["version"] == "v0.36.0-5"
    assert version(found.certificate, "platform")["readFrom"].endswith("on the global cluster")
    assert "(global cluster, only read: admin@https://" in found.output.replace("\n", " ")
    assert {e.verb for e in live.asked + live.asked_global} <= {"get", "list"}
    agents = {e.user_agent.split(" ")[0] for e in live.asked + live.asked_global}
    assert len(agents) == 1
    assert agents.pop().startswith("vm-rebalance-conformance/")
    assert found.certificate["cost"]["requests"] == len(live.asked) + len(live.asked_global)


def test_nothing_is_read_twice(live: Live, tmp_path: Path) -> None:
    assert live.certify(tmp_path, f"--global-kubeconfig={live.cluster.global_kubeconfig}").status == 0
    asked = Counter((e.verb, e.key or e.path, e.ns, e.name) for e in live.asked + live.asked_global)
    twice = {what: n for what, n in asked.items() if n > 1}
    # both clusters have a version and a discovery; HyperConverged is read in each version that is served
    served_twice = {("get", "/version"), ("get", "/apis"), ("list", "hyperconvergeds.hco.kubevirt.io")}
    assert {(verb, key) for verb, key, _, _ in twice} == served_twice
    assert set(twice.values()) == {2}
    assert len(live.asked) + len(live.asked_global) <= 36


def test_without_it_the_release_is_unknown_and_the_module_not_applicable(live: Live, tmp_path: Path) -> None:
    found = live.certify(tmp_path, "--check=ACP,VER")
    assert found.outcomes["ACP-1"] == "not-applicable"
    assert "no global cluster was given (--global-kubeconfig)" in found.reason("ACP-1")
    assert "give it with --record" in found.reason("VER-1")


def test_a_plan_tells_what_is_asked_of_it(live: Live, tmp_path: Path) -> None:
    found = live.certify(tmp_path, f"--global-kubeconfig={live.cluster.global_kubeconfig}", "--plan")
    assert found.status == 0, found.output
    assert "permissions: 25 of 25 granted" in found.output
    asked = {e.name or e.key for e in live.asked_global if e.verb == "create"}
    assert asked == {"selfsubjectaccessreviews.authorization.k8s.io"}
