"""``--plan``: permissions that are missing, what would change, how long; asked without touching the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.checks import Impact, Level, Spec
from fixtures.cluster.api import Presence, Probe, Unreachable
from fixtures.kube.resources import Resource
from fixtures.planning import Outlook, outlook, permissions
from tests.rbac.test_roles import certify_as


class Account:
    """May do what is in ``may`` (``verb key``); serves everything but ``absent``."""

    def __init__(self, may: set[str], absent: tuple[str, ...] = (), *, reachable: bool = True) -> None:
        self.may, self.absent, self.reachable = may, absent, reachable
        self.asked: list[str] = []

    def probe(self, feature: str) -> Probe:
        return Probe(feature, Presence.ABSENT if feature in self.absent else Presence.PRESENT, "")

    def can_i(self, verb: str, resource: Resource, *, ns: str | None = None, subresource: str = "") -> bool:
        if not self.reachable:
            raise Unreachable("no answer")
        what = f"{verb} {resource.key}" + (f"/{subresource}" if subresource else "") + (f" in {ns}" if ns else "")
        self.asked.append(what)
        return what in self.may


def spec(impact: Impact, area: str = "POL") -> Spec:
    return Spec(f"{area}-1", Level.REQUIRED, impact=impact, source="s")


def plan(account: object, *impacts: Impact, consumer: str = "CronJob", area: str = "POL", **more: str) -> Outlook:
    found = [spec(i, area) for i in impacts]
    asked = {"plugin_ns": "kube-system", "engine": "reference", "consumer": consumer, **more}
    return outlook(found, account, simulated=False, **asked)


ALL = {str(p) for file in ("read-only.yaml", "namespaced.yaml", "disruptive.yaml") for p in permissions(file, "kube-system")}


def test_rights_are_those_of_the_impact_and_below() -> None:
    few, many = plan(Account(ALL), Impact.READ_ONLY), plan(Account(ALL), Impact.READ_ONLY, Impact.DISRUPTIVE)
    assert few.missing == many.missing == ()
    assert len(few.needed) < len(many.needed)
    assert {p.verb for p in few.needed} <= {"get", "list"}
    assert few.seconds < many.seconds


def test_what_is_missing_is_named_with_its_namespace() -> None:
    found = plan(Account(ALL - {"patch cronjobs.batch in kube-system", "list nodes"}), Impact.DISRUPTIVE)
    assert sorted(map(str, found.missing)) == ["list nodes", "patch cronjobs.batch in kube-system"]


def test_what_is_not_served_needs_no_rights() -> None:
    account = Account(ALL, absent=("hyperconvergeds.hco.kubevirt.io",))
    assert "list hyperconvergeds.hco.kubevirt.io" not in map(str, plan(account, Impact.READ_ONLY).needed)
    assert "list hyperconvergeds.hco.kubevirt.io" not in account.asked


def test_rights_on_single_objects_are_listed_and_not_asked_about() -> None:
    found = plan(Account(ALL), Impact.READ_ONLY)
    assert "get namespaces kube-system" in map(str, found.needed)
    assert found.missing == ()


@pytest.mark.parametrize("account", [object(), Account(set(), reachable=False)])
def test_where_nobody_can_be_asked_that_is_said(account: object) -> None:
    found = plan(account, Impact.READ_ONLY)
    assert found.untold
    assert found.missing == ()
    assert found.needed


@pytest.mark.parametrize(
    ("impacts", "consumer", "words"),
    [
        ((Impact.READ_ONLY,), "CronJob", "nothing is created or changed"),
        ((Impact.DRY_RUN,), "CronJob", "dryRun=All"),
        ((Impact.NAMESPACED,), "CronJob", "a Namespace rebalance-"),
        ((Impact.DISRUPTIVE,), "CronJob", "in namespace kube-system: suspends the CronJob"),
        ((Impact.DISRUPTIVE,), "Deployment", "scales the Deployment to 0"),
    ],
)
def test_what_would_change_is_told(impacts: tuple[Impact, ...], consumer: str, words: str) -> None:
    told = "\n".join(plan(Account(ALL), *impacts, consumer=consumer).changes)
    assert words in told
    assert ("nothing is created" in told) is (impacts == (Impact.READ_ONLY,))


def test_scheduled_runs_are_told_and_take_their_time() -> None:
    at_once = plan(Account(ALL), Impact.DISRUPTIVE, area="MIG")
    waiting = plan(Account(ALL), Impact.DISRUPTIVE, area="MIG", schedule="*/30 * * * *")
    told = "\n".join(waiting.changes)
    assert "schedule */30 * * * *: resumed for each, suspended again" in told
    assert "Jobs of the descheduler" in "\n".join(at_once.changes)
    assert "Jobs of the descheduler" not in told
    assert waiting.seconds - at_once.seconds == 4 * 1800


@pytest.mark.slow
def test_a_plan_says_what_this_account_lacks_and_touches_nothing(tmp_path: Path) -> None:
    output, asked = certify_as("read-only", "platform=acp", tmp_path, "--plan", "--allow=disruptive")
    assert "missing: create virtualmachines.kubevirt.io" in output
    assert "missing: patch cronjobs.batch in descheduler" in output
    assert "missing: list nodes" not in output
    assert "may not create namespaces, delete namespaces" in " ".join(output.split())
    assert "would take about" in output
    assert {verb for _, verb, key, *_ in asked if "selfsubjectaccessreviews" not in key} <= {"get", "list"}
    assert not (tmp_path / "results" / "report.yaml").exists()


def test_what_nobody_may_stop_is_not_announced_to_be_stopped() -> None:
    managed = plan(Account(ALL), Impact.DISRUPTIVE, managers="Flux").changes
    nothing = plan(Account(ALL), Impact.DISRUPTIVE, consumer="").changes
    assert any("Flux would undo that" in c for c in managed)
    assert any("none is installed" in c for c in nothing)
    assert not any("suspends" in c or "Lease" in c for c in (*managed, *nothing))
