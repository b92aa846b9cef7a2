"""The main job on a bare machine, as its users see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.report import catalogue
from tests.certifying import Certified, certify

pytestmark = pytest.mark.slow

#: Not applicable on the healthy cluster: nothing the shipped policy may move, no KubeDescheduler, no EvictionRequest.
ABSENT = ("POL-6", "POL-8", "CRD-1", "CRD-2", "CRD-3", "CRD-4", "EVR-1")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certify(tmp_path_factory.mktemp("healthy"))


def test_the_verdict_is_conformant_and_says_simulated(healthy: Certified) -> None:
    assert healthy.status == 0, healthy.output
    assert healthy.certificate["verdict"]["text"] == "conformant (simulated)"
    assert healthy.certificate["simulated"] is True
    assert "conformant (simulated)" in healthy.output


#: What the default world does not have: movable VMs under the shipped policy, KubeDescheduler, EvictionRequests.
NOT_HERE = {"POL-6", "POL-8", "CRD-1", "CRD-2", "CRD-3", "CRD-4", "EVR-1"}


def test_every_check_passes_but_those_about_what_is_not_installed(healthy: Certified) -> None:
    assert {e.spec.id for e in catalogue.load()} == set(healthy.outcomes)
    assert {c: o for c, o in healthy.outcomes.items() if o != "passed"} == dict.fromkeys(NOT_HERE, "not-applicable")


def test_the_certificate_names_who_moved_and_all_versions(healthy: Certified) -> None:
    scenario = healthy.certificate["scenario"]
    assert (scenario["source"], scenario["target"], scenario["plannedMoves"]) == ("worker-a", "worker-b", 2)
    moves = scenario["moves"]
    assert [m["phase"] for m in moves] == ["Succeeded", "Succeeded"]
    assert len({m["vm"] for m in moves}) == 2
    for move in moves:
        assert move["vmiUID"] == move["vmiUIDAfter"]
        assert move["vmim"].startswith("kubevirt-evacuation-")
        assert (move["source"], move["target"]) == ("worker-a", "worker-b")
    assert [len(c.get("requested", [])) for c in scenario["cycles"]] == [1, 1, 0]
    assert scenario["rollback"]["done"] is True
    versions = {v["product"]: v["version"] for v in healthy.certificate["versions"]}
    assert versions["KubeVirt"] == "v1.8.4"
    assert versions["HyperConverged"] == "1.18.1"
    assert versions["descheduler package"] == "v0.36.0-5"
    assert versions["platform"] == "ACP 4.4"
    assert versions["Kubernetes"].startswith("v1.35.0")


def test_two_runs_with_one_seed_tell_the_same_story(healthy: Certified, tmp_path: Path) -> None:
    again = certify(tmp_path)
    keys = ("source", "target", "namespace", "vms", "moves", "cycles")
    stories = [{k: c.certificate["scenario"][k] for k in keys} for c in (healthy, again)]
    for story in stories:
        for move in story["moves"]:
            for moment in ("requestedAt", "migrationSeenAt", "finishedAt"):
                del move[moment]
        for cycle in story["cycles"]:
            cycle.pop("log", None)
    assert stories[0] == stories[1]


def test_another_seed_has_other_uids_and_the_same_verdict(healthy: Certified, tmp_path: Path) -> None:
    other = certify(tmp_path, "--seed=7")
    assert other.certificate["verdict"] == healthy.certificate["verdict"], other.output
    assert other.certificate["scenario"]["vms"][0]["vmiUID"] != healthy.certificate["scenario"]["vms"][0]["vmiUID"]


@pytest.mark.parametrize("versions", ["platform=upstream", "kubevirt=1.9.0", "kubevirt=1.6.1,descheduler=0.34.0"])
def test_other_combinations_are_conformant_too(versions: str, tmp_path: Path) -> None:
    found = certify(tmp_path, f"--embedded={versions}")
    assert found.certificate["verdict"]["text"] == "conformant (simulated)", found.output
