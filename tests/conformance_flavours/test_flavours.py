"""A healthy cluster of every flavour comes out clean: what is not applicable there is exactly that, for the true reason."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.conformance_flavours.conftest import Jobs, Ran, RunAll

pytestmark = pytest.mark.slow

#: What is asked of every flavour.
FLAVOURS = {
    "acp": "platform=acp",
    "upstream": "platform=upstream",
    "openshift": "platform=openshift",
    "openshift 4.22": "platform=openshift,kubernetes=1.35,kubevirt=1.8.4,hco=1.18.1,descheduler=0.35.1",
    "harvester": "platform=harvester",
    "single node": "nodes=1",
    "single node of OpenShift": "platform=openshift,nodes=1",
    "without HCO": "hco=none",
    "upstream with HCO": "platform=upstream,hco=1.18.1",
    "without descheduler": "workload=none",
    "OpenShift without descheduler": "platform=openshift,workload=none",
}
NO_DESCHEDULER = ("without descheduler", "OpenShift without descheduler")
#: Played whole; the read-only scope of the others is theirs.
WHOLE = ("openshift", "harvester", "single node")

Reasons = Mapping[str, str]
_NOTHING_MOVES = "it can move none of 2 running launchers"
_NO_KDO = "discovery lists no API group operator.openshift.io"
_NO_HCO = "HyperConverged is not installed: discovery lists no API group hco.kubevirt.io"
_NO_GLOBAL = "no global cluster was given"
_ALONE = "a VM needs a second node to migrate to; nodes for VMs: node-1"
_MANAGED = "is managed by KubeDescheduler operator, which would undo a suspension"
NO_EVICTIONREQUEST = {"EVR-1": "EvictionRequest is not served: discovery lists no API group lifecycle.k8s.io"}
SHIPPED: Reasons = {"POL-6": _NOTHING_MOVES, "POL-8": _NOTHING_MOVES}
NO_KDO: Reasons = dict.fromkeys(("CRD-1", "CRD-2", "CRD-3", "CRD-4"), _NO_KDO)
NOT_ACP: Reasons = {"ACP-1": _NO_GLOBAL}
ALONE: Reasons = {"HCO-5": "a VM needs a second node to migrate to; nodes that take VMs: node-1"}
#: OpenShift's profile goes by load that Prometheus measures.
MEASURED: Reasons = {"POL-8": "no LowNodeUtilization classifies nodes by what Pods request"}
NOT_APPLICABLE: Mapping[str, Reasons] = {
    "acp": SHIPPED | NO_KDO,
    "upstream": SHIPPED | NO_KDO | NOT_ACP | {"HCO-1": _NO_HCO},
    "openshift": MEASURED | NOT_ACP,
    "openshift 4.22": MEASURED | NOT_ACP,
    "harvester": NO_KDO | NOT_ACP | {"HCO-1": _NO_HCO},
    "single node": SHIPPED | NO_KDO | ALONE,
    "single node of OpenShift": MEASURED | NOT_ACP | ALONE,
    "without HCO": SHIPPED | NO_KDO | {"HCO-1": _NO_HCO},
    "upstream with HCO": SHIPPED | NO_KDO | NOT_ACP,
}
_ACTING = [*(f"BGE-{n}" for n in range(1, 14)), *(f"MIG-{n}" for n in range(1, 14))]
WHOLE_NOT_APPLICABLE: Mapping[str, Reasons] = {
    "openshift": {"ACP-2": "this platform has no ResourcePatches"},
    "harvester": {"ACP-2": "this platform has no ResourcePatches", "HCO-7": _NO_HCO},
    "single node": dict.fromkeys(["INT-6", *(c for c in _ACTING if c != "BGE-6")], _ALONE),
}
#: What the operator's ownership keeps from being done, and nothing else does anywhere.
KEPT_FROM: Mapping[str, Reasons] = {"openshift": dict.fromkeys(["BGE-6", *(c for c in _ACTING if c[0] == "M")], _MANAGED)}


@pytest.fixture(scope="module")
def ran(run_all: RunAll) -> dict[str, Ran]:
    jobs: Jobs = {f"read-only {name}": [f"--embedded={spec}", "--allow=read-only"] for name, spec in FLAVOURS.items()}
    jobs |= {f"whole {name}": [f"--embedded={FLAVOURS[name]}"] for name in WHOLE}
    jobs |= {f"plan {name}": [f"--embedded={spec}", "--plan"] for name, spec in FLAVOURS.items()}
    jobs |= {f"explain {name}": ["explain", "--embedded", spec] for name, spec in FLAVOURS.items()}
    return run_all(jobs)


def same(found: Mapping[str, str], wanted: Reasons) -> None:
    assert set(found) == set(wanted)
    for check, reason in wanted.items():
        assert re.search(re.escape(reason), found[check]), f"{check}: {found[check]}"


@pytest.mark.parametrize("flavour", NOT_APPLICABLE)
def test_the_read_only_scope_is_clean(ran: Mapping[str, Ran], flavour: str) -> None:
    found = ran[f"read-only {flavour}"]
    assert found.undecided == {}, found.output
    assert (found.status, found.verdict) == (0, "conformant (simulated)")
    same(found.those("not-applicable"), NOT_APPLICABLE[flavour] | NO_EVICTIONREQUEST)
    assert found.certificate["cost"]["requests"] <= 60


@pytest.mark.parametrize("flavour", WHOLE)
def test_as_much_of_the_rest_as_can_be_done_is_done(ran: Mapping[str, Ran], flavour: str) -> None:
    found, kept = ran[f"whole {flavour}"], KEPT_FROM.get(flavour, {})
    same(found.undecided, kept)
    assert found.those("failed") == {}
    assert (found.status, found.verdict) == ((6, "partial (simulated)") if kept else (0, "conformant (simulated)"))
    same(found.those("not-applicable"), NOT_APPLICABLE[flavour] | NO_EVICTIONREQUEST | WHOLE_NOT_APPLICABLE[flavour])


@pytest.mark.parametrize("flavour", NO_DESCHEDULER)
def test_without_a_descheduler_there_is_nothing_to_certify(ran: Mapping[str, Ran], flavour: str) -> None:
    found = ran[f"read-only {flavour}"]
    assert (found.status, found.verdict) == (5, "unknown (simulated)")
    assert found.undecided == {}
    reasons = found.those("not-applicable")
    assert {"POL-1", "REN-1", "REN-2", "SEC-4"} <= set(reasons)
    assert reasons["POL-1"].startswith("no descheduler is installed: ")
    assert ("CRD-3" in reasons, "CRD-1" in reasons) == ((True, False) if "OpenShift" in flavour else (True, True))


def test_a_single_node_is_told_which_rows_of_the_decision_table_do_not_apply(ran: Mapping[str, Ran]) -> None:
    folder = ran["whole single node"].folder / "evidence"
    table = next(p.read_text(encoding="utf-8") for p in folder.iterdir() if p.name.startswith("INT-5"))
    assert table.count(f"not applicable: {_ALONE}") == 2  # LiveMigrate and LiveMigrateIfPossible, both migratable
    assert table.count('"code": 201') == 2
    assert table.count('"code": 429') == 2


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_plan_and_report_are_made(ran: Mapping[str, Ran], flavour: str) -> None:
    plan, page = ran[f"plan {flavour}"], ran[f"read-only {flavour}"].folder / "report.html"
    assert plan.status == 0, plan.output
    assert "would take about" in plan.output
    assert "Traceback" not in plan.output + ran[f"read-only {flavour}"].output
    assert ran[f"read-only {flavour}"].verdict in page.read_text(encoding="utf-8")


def test_the_plan_says_what_will_not_be_touched(ran: Mapping[str, Ran]) -> None:
    said = {f: " ".join(ran[f"plan {f}"].output.split()) for f in ("harvester", "openshift", "without descheduler")}
    assert "changes in namespace kube-system: scales the Deployment to 0" in said["harvester"]
    assert "stops no descheduler and edits no policy: KubeDescheduler operator would undo that" in said["openshift"]
    assert "stops no descheduler and edits no policy: none is installed" in said["without descheduler"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_vm_is_explained(ran: Mapping[str, Ran], flavour: str) -> None:
    found = ran[f"explain {flavour}"]
    if flavour in NO_DESCHEDULER:
        assert (found.status, "no policy to explain" in found.output) == (4, True)
        return
    assert found.status == 0, found.output
    assert "tenant-a/erp-db" in found.output
    assert "Traceback" not in found.output
    assert ("is told by Prometheus" in " ".join(found.output.split())) is flavour.startswith(("openshift", "single node of"))
