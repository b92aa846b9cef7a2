"""BGE: how the engine under test treats evictions that a third party finishes in the background."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive
from fixtures.run import Attach
from fixtures.scenario.bench import BackgroundRecord
from fixtures.versions import DeschedulerFacts, KubeVirtFacts

NEEDS = ["write", "engine"]
REQUESTED_BY = "sigs.k8s.io/descheduler"


@check(
    "BGE-1",
    impact=Impact.NAMESPACED,
    needs=NEEDS,
    source="With EvictionsInBackground=true, Descheduler treats that specific 429 as a successful eviction request",
)
def test_the_429_is_a_request_and_not_an_eviction(
    background: BackgroundRecord, kubevirt_facts: KubeVirtFacts, descheduler_facts: DeschedulerFacts, evidence: Attach
) -> None:
    """The 429 is "Eviction in background assumed", counted as a request; the Eviction says who asks for it."""
    if background.first is None:
        inconclusive(f"no cycle was run: {background.stopped_because}")
    report = background.first
    evidence("log", f"first cycle in {background.namespace}", report.log)
    errors = [f"{s.pod}: {s.error}" for s in report.steps if s.error]
    assert report.exit_code == 0, f"the engine ended with status {report.exit_code}: {report.fatal}"
    if not any(s.result for s in report.steps):
        exits = [p.early_exit for p in report.passes if p.early_exit]
        inconclusive(f"the engine tried to evict no Pod: {', '.join(exits) or 'no candidate'}")
    assert len(report.requested) == 1, (
        f"{len(report.requested)} evictions assumed in background, wanted 1; failed: {errors or 'none'}"
    )
    summary = (report.total_evicted, report.eviction_requests)
    assert summary == (0, 1), f"the log says totalEvicted={summary[0]} evictionRequests={summary[1]}, wanted 0 and 1"
    if descheduler_facts.requested_by and kubevirt_facts.eviction_source:
        assert background.eviction_source == "descheduler", (
            f"the VMI's kubevirt.io/eviction-source was {background.eviction_source!r}, wanted 'descheduler': "
            f"the Eviction did not carry requested-by: {REQUESTED_BY}"
        )


@check(
    "BGE-2",
    impact=Impact.NAMESPACED,
    needs=NEEDS,
    source="In the next cycle it sees the eviction-in-progress annotation and logs Eviction in background already requested"
    " (ignoring) instead of asking again",
)
def test_the_next_cycle_ignores_the_eviction_in_progress(background: BackgroundRecord, evidence: Attach) -> None:
    """The next cycle, run once the marker is seen, asks for nothing new."""
    if background.first is None or not background.first.requested:
        inconclusive(f"the first cycle requested nothing: {background.stopped_because or 'see BGE-1'}")
    launcher = background.first.requested[0]
    assert not background.migration_ended, f"Pod {launcher} was never marked eviction-in-progress while its migration ran"
    if background.marked is None or background.second is None:
        inconclusive(
            f"no marker on Pod {launcher} and no migration either: {background.stopped_because or 'nothing followed the request'}"
        )
    report = background.second
    evidence("log", f"second cycle in {background.namespace}", report.log)
    assert not report.requested, f"the next cycle asked again, for {', '.join(report.requested)}"
    if not report.steps:
        exits = [p.early_exit for p in report.passes if p.early_exit]
        inconclusive(f"the next cycle considered no Pod: {', '.join(exits) or 'its log does not say why'}")
    ignored = report.pods_with("alreadyRequested")
    assert ignored == [launcher], f"'already requested (ignoring)' was logged for {ignored or 'no Pod'}, wanted {launcher}"
    found = report.eviction_requests
    assert found == 1, f"the log says evictionRequests={found} with one eviction in progress, wanted 1"
