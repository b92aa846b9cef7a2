"""INT: what the eviction interceptor answers, tried on disposable VMs of every strategy."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive, not_applicable
from fixtures.run import Attach
from fixtures.scenario.decisions import Answer, Decisions, DryRun, Tried
from fixtures.versions import KubeVirtFacts

TRIGGERED = 'Eviction triggered evacuation of VMI "{who}"'
NOT_MIGRATABLE = "VMI {vm} is configured with an eviction strategy but is not live-migratable"
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget"


@check(
    "INT-4",
    impact=Impact.DRY_RUN,
    needs=["dry-run"],
    source="KubeVirt intercepts that request and live-migrates the VMI instead of stopping the VM",
)
def test_a_dry_run_is_answered_and_changes_nothing(dry_run: DryRun, evidence: Attach) -> None:
    """A dry-run eviction of a migratable launcher answers 429 with the contract's text and marks nothing."""
    if dry_run.answer is None:
        inconclusive(f"no dry run was sent: {dry_run.trouble}")
    evidence("answer", f"dry-run eviction of Pod {dry_run.pod}", {"code": dry_run.answer.code, "message": dry_run.answer.message})
    _refused(dry_run.answer, TRIGGERED.format(who=dry_run.vmi), f"dry-run eviction of Pod {dry_run.pod}")
    assert not dry_run.changes, f"after the dry-run eviction of Pod {dry_run.pod}: {'; '.join(dry_run.changes)}; wanted no change"


@check(
    "INT-5",
    impact=Impact.NAMESPACED,
    needs=["write"],
    source="decides what happens based on the VMI's effective eviction strategy",
)
def test_each_strategy_is_answered_as_documented(decisions: Decisions, kubevirt_facts: KubeVirtFacts, evidence: Attach) -> None:
    """LiveMigrate and LiveMigrateIfPossible migrate, a VM that cannot is refused or shut down, None is shut down, External is
    marked and left to others.
    """
    rows = decisions.rows
    evidence("table", decisions.namespace, {vm: _shown(t) for vm, t in rows.items()})
    for tried in rows.values():
        answer = tried.answer
        if answer is None:
            continue
        who, row = f"{tried.ns}/{tried.row.vm}", tried.row
        what = f"eviction of VM {who} (strategy {row.strategy}, LiveMigratable={row.migratable})"
        if row.strategy == "None" or (row.strategy == "LiveMigrateIfPossible" and not row.migratable):
            assert answer.code == 201, f"{what}: answered {answer.code} {answer.message!r}, wanted 201: the VM is to be shut down"
            assert not tried.markers, f"{what}: allowed, yet the VMI was marked {tried.markers}"
            continue
        if not row.migratable:
            _refused(answer, NOT_MIGRATABLE.format(vm=row.vm), what)
            assert not tried.markers, f"{what}: refused for ever, yet the VMI was marked {tried.markers}"
            continue
        _refused(answer, TRIGGERED.format(who=who), what)
        assert "evacuationNodeName" in tried.markers, (
            f"{what}: status.evacuationNodeName was not set; seen: {tried.markers or 'none'}"
        )
        if row.strategy == "External":
            _external(tried, kubevirt_facts, what)
    untried = [t.trouble for t in rows.values() if t.answer is None and not t.not_here]
    if untried:
        inconclusive(f"{len(untried)} of {len(rows)} rows were not tried: {'; '.join(filter(None, untried)) or decisions.trouble}")


@check(
    "INT-6",
    impact=Impact.NAMESPACED,
    needs=["write"],
    source="To tell a Descheduler-triggered migration from a drain-triggered one while it is in flight, read the VMI annotation",
)
def test_a_plain_eviction_migrates_without_a_source(second_node: None, decisions: Decisions, kubevirt_facts: KubeVirtFacts) -> None:
    """A plain eviction migrates without eviction-source: drains can be told from descheduling."""
    if not kubevirt_facts.eviction_source:
        not_applicable(f"KubeVirt {kubevirt_facts.version} has no eviction-source; it came with 1.7")
    tried = decisions.rows.get("live-migrate")
    if tried is None or tried.answer is None or tried.migration != "Succeeded":
        why = decisions.trouble or (tried.trouble if tried is not None else "")
        inconclusive(f"no plain eviction ended in a migration: {why or (tried.migration if tried else None) or 'none was made'}")
    assert tried.source is None, (
        f"VMI {tried.ns}/{tried.row.vm}: eviction-source was {tried.source!r} after a plain eviction, wanted none"
    )


def _refused(answer: Answer, text: str, what: str) -> None:
    assert answer.code == 429, f"{what}: answered {answer.code} {answer.message!r}, wanted 429"
    assert text in answer.message, f"{what}: answered {answer.message!r}, wanted a text with {text!r}"


def _external(tried: Tried, facts: KubeVirtFacts, what: str) -> None:
    assert tried.migration is None, f"{what}: KubeVirt made a migration ({tried.migration}), wanted none: that is for others"
    if tried.repeat is not None:
        wanted = facts.repeat_message.format(ns=tried.ns, name=tried.row.vm) or BUDGET
        _refused(tried.repeat, wanted, f"second {what}")


def _shown(tried: Tried) -> dict[str, object]:
    answer = tried.answer
    return {
        "strategy": tried.row.strategy,
        "migratable": tried.row.migratable,
        "code": answer.code if answer is not None else None,
        "message": answer.message if answer is not None else tried.trouble or f"not applicable: {tried.not_here}",
        "markers": dict(tried.markers),
        "migration": tried.migration,
    }
