"""HCO: a change of the strategy, from HyperConverged down to the next VMI. On clusters of our own only."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive
from fixtures.scenario.strategy import StrategyChange

#: "Immediately", with room for a slow operator.
AT_ONCE = 30.0


@check(
    "HCO-7",
    impact=Impact.DISRUPTIVE,
    needs=["write", "faults"],
    source="Changing HyperConverged.spec.evictionStrategy propagates to the KubeVirt resource immediately but affects only VMIs"
    " created afterwards; existing VMIs keep their recorded value",
)
def test_a_changed_strategy_reaches_kubevirt_and_the_next_vmi_only(strategy_change: StrategyChange) -> None:
    """Changing the HCO value reaches KubeVirt at once, running VMIs keep theirs, a restarted VM takes the new one."""
    found = strategy_change
    assert not found.left_behind, f"left behind: {', '.join(found.left_behind)}"
    if found.seconds is None or found.running is None:
        inconclusive(f"the strategy was not changed: {found.trouble or 'unknown reason'}")
    assert found.reached == found.wanted, (
        f"HyperConverged says {found.wanted}, KubeVirt's spec.configuration.evictionStrategy is {found.reached!r}"
        f" {found.seconds:.0f} s later, wanted the same"
    )
    assert found.seconds <= AT_ONCE, (
        f"it took {found.seconds:.0f} s until KubeVirt had {found.wanted}, wanted at most {AT_ONCE:.0f} s"
    )
    before, after = found.running
    assert after == before, (
        f"the running VMI's spec.evictionStrategy changed from {before!r} to {after!r}, wanted it to keep its own"
    )
    if found.restarted is None:
        inconclusive(f"the VM did not come back after its restart: {found.trouble or 'no new VMI'}")
    assert found.restarted == found.wanted, (
        f"the restarted VM's VMI has spec.evictionStrategy {found.restarted!r}, wanted the new default {found.wanted!r}"
    )
    assert found.restored, f"HyperConverged was set back to {found.before!r}, and KubeVirt did not follow"
