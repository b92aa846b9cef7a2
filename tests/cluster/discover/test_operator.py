"""OpenShift with the KubeDescheduler operator, on paper: what the operator brings, and what its operand makes of the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fixtures import versions
from fixtures.cluster.discover.enginepolicy import EnginePolicy, engine_policy, release_of
from fixtures.cluster.discover.installation import Installation, find_installation
from fixtures.cluster.discover.policyreach import PER_NODE, beyond
from fixtures.cluster.discover.versions import IMAGE, PACKAGE, VersionMatrix, find_versions
from fixtures.cluster.discover.workload import Flavour
from fixtures.embedded import world as worlds
from fixtures.embedded.installed import harvester
from fixtures.embedded.installed.kubedescheduler import NAMESPACE
from fixtures.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.cluster.paper import Paper

Edit = Callable[[worlds.World], None]


def world(descheduler: str = "0.34.0") -> worlds.World:
    found = worlds.Versions(
        versions.kubernetes("1.34"),
        versions.kubevirt("1.7.1"),
        versions.hco("1.17.1"),
        versions.descheduler(descheduler),
        "",
        "openshift",
    )
    return worlds.build(found, worlds.Extent("deployment", kubedescheduler=True))


def seen(made: worlds.World, record: dict[str, str] | None = None) -> tuple[Installation, VersionMatrix, EnginePolicy]:
    paper: Any = Paper(*({"apiVersion": r.api_version, "kind": r.kind, **o} for r, o in (*made.items, *made.late)))
    installation = find_installation(paper)
    found = find_versions(paper, record or {}, installation=installation)
    return installation, found, engine_policy(paper, installation, found)


def operator(made: worlds.World) -> Any:
    return made.find(DEPLOYMENTS, "descheduler-operator")


@pytest.mark.parametrize(("release", "brought"), [("0.33.0", "5.2.1"), ("0.34.0", "5.3.3"), ("0.35.1", "5.4.0")])
def test_the_operator_tells_what_its_operand_is(release: str, brought: str) -> None:
    installation, found, policy = seen(world(release))
    assert installation.flavour is Flavour.KDO
    assert installation.policy.where == f'ConfigMap {NAMESPACE}/cluster, data["policy.yaml"]'
    assert [w.name for w in installation.consumers.all] == ["descheduler"]  # neither the operator nor the soft tainter
    assert found[PACKAGE].value == brought
    assert (
        found[PACKAGE].read_from
        == f"label olm.owner=clusterkubedescheduleroperator.v{brought} of Deployment {NAMESPACE}/descheduler-operator"
    )
    assert found[IMAGE].value.startswith("sha256:")
    assert release_of(found)[0] == release
    assert (policy.refusal, policy.unknown, policy.foreign) == ("", "", ())
    assert policy.policy is not None


def test_without_the_label_its_environment_tells() -> None:
    made = world()
    operator(made)["metadata"]["labels"] = {}
    _, found, _ = seen(made)
    assert (found[PACKAGE].value, found[PACKAGE].read_from.partition(" of ")[0]) == ("5.3.3", "environment OPERAND_VERSION")


def test_where_nothing_tells_the_release_it_can_be_recorded_though_the_image_has_a_digest() -> None:
    made = world()
    made.drop(DEPLOYMENTS, "descheduler-operator")
    _, found, policy = seen(made)
    assert found[PACKAGE].value == "unknown"
    assert found[PACKAGE].read_from.endswith("give --record package=VERSION")
    assert release_of(found)[0] == ""
    assert policy.unknown.endswith("a digest tells no release; give --record image=VERSION")
    _, recorded, judged = seen(made, {"image": "0.34.0", "package": "5.3.0"})
    assert (release_of(recorded)[0], judged.unknown, judged.refusal) == ("0.34.0", "", "")


def test_an_operator_that_nobody_knows_tells_no_release() -> None:
    made = world()
    operator(made)["metadata"]["labels"]["olm.owner"] = "clusterkubedescheduleroperator.v9.0.0"
    _, found, policy = seen(made)
    assert (found[PACKAGE].value, found[PACKAGE].brings) == ("9.0.0", None)
    assert "--record image=VERSION" in policy.unknown


def test_a_plugin_of_newer_operators_leaves_the_policy_undecided() -> None:
    made = world()
    data = made.find(CONFIGMAPS, "cluster")["data"]
    data["policy.yaml"] = (
        data["policy.yaml"]
        .replace("      - DefaultEvictor\n", "      - DefaultEvictor\n      - KubevirtMigrationAware\n")
        .replace("  - args:\n      evictLocal", "  - args: {}\n    name: KubevirtMigrationAware\n  - args:\n      evictLocal")
    )
    assert data["policy.yaml"].count("KubevirtMigrationAware") == 2
    _, _, policy = seen(made)
    assert (policy.foreign, policy.refusal) == (("KubevirtMigrationAware",), "")


def test_what_the_vendor_ported_back_is_not_held_against_the_policy() -> None:
    made = world("0.35.1")
    _, _, mended = seen(made)
    assert mended.refusal == ""
    container = made.find(DEPLOYMENTS, "descheduler")["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "registry.k8s.io/descheduler/descheduler:v0.35.1"
    _, _, upstream = seen(made)
    assert upstream.refusal.endswith("prometheus client not initialized")


@pytest.mark.parametrize(
    ("operator_release", "brought"),
    [("5.4.2", "0.35.1"), ("5.3.0", "0.34.0"), ("5.1.3", "0.33.0"), ("5.1.2", None), ("5.9.0", None), ("4.16", None), ("x", None)],
)
def test_what_an_operator_brings(operator_release: str, brought: str | None) -> None:
    found = versions.operand_of(operator_release)
    assert (found.release if found is not None else None) == brought


def test_no_known_operator_brings_other_releases() -> None:
    assert versions.operator_of("0.35.0") == "5.4.0"
    with pytest.raises(versions.UnknownVersion, match=r"brings descheduler '0.36.0'; known: 0.33, 0.34, 0.35"):
        versions.operator_of("0.36.0")


def test_harvesters_limit_as_shipped_is_beyond_what_kubevirt_does() -> None:
    assert harvester.PER_NODE == PER_NODE
    (said,) = beyond({"maxNoOfPodsToEvictPerNode": harvester.SHIPPED_PER_NODE}, {})
    assert said == "maxNoOfPodsToEvictPerNode is 5, KubeVirt runs 2 at once per node (parallelOutboundMigrationsPerNode)"
