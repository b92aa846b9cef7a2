"""BGE: how the engine under test treats evictions that a third party finishes in the background."""

from __future__ import annotations

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.engine.judging import lacks_gate
from fixtures.engine.report import CycleReport
from fixtures.run import Attach
from fixtures.scenario.bench_include import IncludeRecord
from fixtures.scenario.bench_record import BackgroundRecord, Step
from fixtures.scenario.bench_stage import STUCK
from fixtures.versions import DeschedulerFacts, KubeVirtFacts

NEEDS = ["write", "engine"]
REQUESTED_BY = "sigs.k8s.io/descheduler"
NO_INCLUSION = "only Exclude namespaces can be set, inclusion is not supported"
#: What an engine is told to do here with a policy of its own, an installed one is told by editing the installed policy.
INSTALLED = Impact.DISRUPTIVE


def early(report: CycleReport) -> str:
    """Why the cycle did nothing, as it says itself."""
    return ", ".join(p.early_exit for p in report.passes if p.early_exit) or report.skipped or "its log does not say why"


@check(
    "BGE-1",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="With EvictionsInBackground=true, Descheduler treats that specific 429 as a successful eviction request",
)
def test_the_429_is_a_request_and_not_an_eviction(
    background: BackgroundRecord, kubevirt_facts: KubeVirtFacts, descheduler_facts: DeschedulerFacts, evidence: Attach
) -> None:
    """The 429 is "Eviction in background assumed", counted as a request; the Eviction says who asks for it."""
    assert not background.no_gate, background.no_gate
    report = background.report(Step.FIRST)
    evidence("log", f"first cycle in {background.namespace}", report.log)
    assert report.exit_code in (0, None), f"the engine ended with status {report.exit_code}: {report.fatal}"
    if not any(s.result for s in report.steps):
        inconclusive(f"the engine tried to evict no Pod: {early(report)}")
    assert report.requested == [background.first], (
        f"evictions assumed in background: {', '.join(report.requested) or 'none'}, wanted {background.first};"
        f" failed: {report.failed or 'none'}"
    )
    summary = (report.total_evicted, report.eviction_requests)
    assert summary == (0, 1), f"the log says totalEvicted={summary[0]} evictionRequests={summary[1]}, wanted 0 and 1"
    if descheduler_facts.requested_by and background.evictions is not None:
        signed = [e["annotations"].get("requested-by") for e in background.evictions if e["pod"] == background.first]
        assert set(signed) == {REQUESTED_BY}, f"the Evictions carry requested-by {signed}, wanted {REQUESTED_BY!r} on each"
    if descheduler_facts.requested_by and kubevirt_facts.eviction_source and background.marked:
        assert background.eviction_source == "descheduler", (
            f"the VMI's kubevirt.io/eviction-source was {background.eviction_source!r}, wanted 'descheduler': "
            f"the Eviction did not carry requested-by: {REQUESTED_BY}"
        )


@check(
    "BGE-2",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="In the next cycle it sees the eviction-in-progress annotation and logs Eviction in background already requested"
    " (ignoring) instead of asking again",
)
def test_the_next_cycle_ignores_the_eviction_in_progress(background: BackgroundRecord, evidence: Attach) -> None:
    """The next cycle, run once the marker is seen, asks for nothing new."""
    if not background.report(Step.FIRST).requested:
        inconclusive("the first cycle requested nothing: see BGE-1")
    launcher = background.first
    assert background.marked or not background.migration_seen, (
        f"Pod {launcher} was never marked eviction-in-progress although its migration runs"
    )
    report = background.beside(Step.NEXT)
    evidence("log", f"second cycle in {background.namespace}", report.log)
    assert not report.requested, f"the next cycle asked again, for {', '.join(report.requested)}"
    if not report.steps:
        inconclusive(f"the next cycle considered no Pod: {early(report)}")
    ignored = report.pods_with("alreadyRequested")
    assert ignored == [launcher], f"'already requested (ignoring)' was logged for {ignored or 'no Pod'}, wanted {launcher}"
    found = report.eviction_requests
    assert found == 1, f"the log says evictionRequests={found} with one eviction in progress, wanted 1"


@check(
    "BGE-3",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="the policy's per-cycle limits then govern how many VMs move at once",
)
def test_limits_count_requests_and_cap_what_is_under_way(
    background: BackgroundRecord, descheduler_facts: DeschedulerFacts, evidence: Attach
) -> None:
    """With one eviction in progress, each limit of 1 lets nothing more be asked for; evictionLimits.node counts requests too."""
    for step, result in ((Step.TOTAL, "limitTotal"), (Step.NODE, "limitNode"), (Step.NAMESPACE, "limitNamespace")):
        report = background.beside(step)
        evidence("log", f"{step} in {background.namespace}", report.log)
        assert not report.requested, f"{step} of 1 with one eviction in progress: the cycle asked for {report.requested}"
        if not any(s.result == result for s in report.steps):
            inconclusive(f"{step} of 1: no further candidate met the limit, so nothing is shown: {early(report)}")
    if descheduler_facts.plugin_eviction_limit:
        report = background.report(Step.PER_RUN)
        evidence("log", f"{Step.PER_RUN} in {background.namespace}", report.log)
        asked = report.pods_with("background", "alreadyRequested")
        assert len(asked) <= 1, f"evictionLimits.node of 1: the cycle asked for {len(asked)} VMs of one node: {asked}"
        if not any(s.stop == "evictionLimits.node" for s in report.steps):
            inconclusive(f"evictionLimits.node of 1: no further candidate met the limit: {early(report)}")


@check(
    "BGE-4",
    level=Level.INFORMATIONAL,
    impact=Impact.NAMESPACED,
    never_with=["installed"],
    needs=NEEDS,
    source="Without the gate it counts as a failed eviction, and the limits no longer hold",
)
def test_without_the_gate_the_429_is_a_failed_eviction(
    background: BackgroundRecord, kubevirt_facts: KubeVirtFacts, evidence: Attach
) -> None:
    """Gate off: the 429 is an error, every candidate is asked in each cycle, limits of 1 do not help."""
    for step in (Step.GATE_OFF, Step.GATE_OFF_AGAIN):
        report = background.beside(step)
        wanted = sorted([background.first, background.launchers[STUCK]])
        evidence("log", f"{step} in {background.namespace}", report.log)
        assert not report.requested, f"without the gate a request was assumed: {report.requested}"
        failed = sorted(report.pods_with("error"))
        assert failed == wanted, f"without the gate evictions failed of {failed or 'no Pod'}, wanted every candidate: {wanted}"
    if not kubevirt_facts.repeat_message:
        told = "repeats are answered by the PodDisruptionBudget (descheduler#1671)"
        evidence("known defect", f"KubeVirt {kubevirt_facts.version}", told)


@check(
    "BGE-5",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="The default policy protects Pods with PVCs, so VMs with persistent disks are not moved by it",
)
def test_the_default_policy_moves_no_vm_with_a_claim(background: BackgroundRecord, evidence: Attach) -> None:
    """Launchers with a PVC are no candidates under the default policy, and say why; without that protection they would be."""
    protected, unprotected = background.report(Step.PROTECTED), background.report(Step.UNPROTECTED)
    if not background.with_claims:
        not_applicable(f"no VM with a PVC runs on {background.source}: launchers there have no persistentVolumeClaim volume")
    foreseen = background.all(Step.PROTECTED)[-1].foreseen
    how = "foreseen over a snapshot by the reference engine" if foreseen else "with a limit of 0"
    for step, report in ((Step.PROTECTED, protected), (Step.UNPROTECTED, unprotected)):
        evidence("log", f"{step}, {how}", report.log)
    moved = sorted(set(protected.pods_with("evicted", "evictedDryRun", "background")) & set(background.with_claims))
    assert not moved, f"the default policy moves VMs with a PVC: {moved}"
    more = removable(unprotected, background.source) - removable(protected, background.source)
    assert more >= 0, f"the protection of claims added {-more} candidates on {background.source}"
    reasons = {f.pod: f.checks for p in protected.passes for f in p.filtered}
    named = [pod for pod in background.with_claims if "PVC" in reasons.get(pod, "")]
    if reasons:
        missing = sorted(set(background.with_claims) - set(named))
        assert not missing, f"no reason with PVC was logged for {missing}; theirs: {[reasons.get(p, 'none') for p in missing]}"
    if not more:
        inconclusive(f"without the protection {background.source} has no more candidates: another reason protects {named}")
    assert more == len(background.with_claims), (
        f"the protection of claims takes {more} Pods on {background.source} out, wanted {background.with_claims}"
    )


def removable(report: CycleReport, node: str) -> int:
    """How many candidates the log counts on a node."""
    found = [s.pods["removable"] for p in report.passes for s in p.sources if s.node == node and s.pods]
    if not found:
        inconclusive(f"the log does not count the candidates on {node}: {early(report)}")
    return found[-1]


@check(
    "BGE-6",
    impact=Impact.DISRUPTIVE,
    needs=NEEDS,
    source="evictableNamespaces: only exclude works; include makes the run fail and the Job is retried",
)
def test_included_namespaces_fail_the_run(included: IncludeRecord, evidence: Attach) -> None:
    """A policy that includes namespaces ends the run with the known message; it is started again, and nothing is evicted."""
    if included.report is None:
        inconclusive(f"no run with that policy: {included.stopped_because}")
    report = included.report
    evidence("log", f"run of {included.who} with evictableNamespaces.include", report.log)
    if report.fatal is None and report.total_evicted is None:
        inconclusive(f"{included.who} neither refused its policy nor completed a cycle, ended with status {report.exit_code}")
    assert report.fatal is not None, f"{included.who} accepted evictableNamespaces.include and ended with status {report.exit_code}"
    if report.fatal.startswith("failed to read policy config file"):
        inconclusive(f"{included.who} does not find its policy: {report.fatal}")
    if lacks_gate(report):
        inconclusive(f"{included.who} does not start: {report.fatal}; see BGE-1")
    assert NO_INCLUSION in report.fatal, f"{included.who} failed with {report.fatal!r}, wanted {NO_INCLUSION!r}"
    assert report.exit_code not in (0, None), f"{included.who} failed to start, but ended with status {report.exit_code}"
    assert included.started_again, f"{included.who} was not started again within {included.waited:.0f} s of its failure"
    done = [*report.requested, *report.pods_with("evicted")]
    assert not done, f"{included.who} failed to start, and still evicted {done}"


@check(
    "BGE-7",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="LowNodeUtilization classifies nodes by the sum of Pod requests, not by actual usage",
)
def test_nodes_are_classified_by_requests(
    background: BackgroundRecord, descheduler_facts: DeschedulerFacts, evidence: Attach
) -> None:
    """The percentages printed are those of the Pods' requests, and the classes follow from them."""
    report = background.report(Step.CONTROL)
    evidence("log", f"classification in {background.namespace}", report.log)
    classes = {n: c for p in report.passes for n, c in p.nodes.items()}
    found = {n: classes[n].category for n in (background.source, background.target) if n in classes}
    wanted = {background.source: "overutilized", background.target: "underutilized"}
    assert found == wanted, f"classified {found or 'no node'}, wanted {wanted}"
    near = 0.51 if descheduler_facts.classified_line else 0.011
    for node in wanted:
        for resource, printed in classes[node].usage_percentage.items():
            if resource in background.loads[node].used:
                computed = background.loads[node].percent(resource)
                assert abs(printed - computed) <= near, (
                    f"{resource} of {node} is printed as {printed} %, its Pods request {computed:.2f} %"
                )


@check(
    "BGE-8",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="nodeSelector, labelSelector and excluded namespaces bound what the policy touches",
)
def test_the_scope_of_the_policy_holds(background: BackgroundRecord, evidence: Attach) -> None:
    """Only labelled Pods, no excluded namespace, and only selected nodes are considered; without the exclusion they are."""
    control, excluded = background.report(Step.CONTROL), background.report(Step.EXCLUDED)
    for step in (Step.CONTROL, Step.EXCLUDED, Step.AVOIDING):
        evidence("log", f"{step}, with a limit of 0", background.report(step).log)
    if not any(s.result == "limitTotal" for s in control.steps):
        inconclusive(f"without a limit to its scope the policy had no candidate either: {early(control)}")
    assert removable(control, background.source) == len(background.launchers), (
        f"{removable(control, background.source)} candidates on {background.source} have the policy's label, "
        f"wanted {len(background.launchers)}"
    )
    tried = [s for s in excluded.steps if s.result]
    assert not tried, f"a Pod of the excluded namespace {background.namespace} was tried: {[s.pod or s.result for s in tried]}"
    selected = {n for p in control.passes for n in p.nodes}
    assert selected == {background.source, background.target}, f"nodes classified: {sorted(selected)}, outside the nodeSelector"
    avoiding = background.report(Step.AVOIDING)
    touched = {n for p in avoiding.passes for n in (*p.nodes, *(s.node for s in p.sources))}
    assert background.source not in touched, f"{background.source} was considered although the nodeSelector leaves it out"


@check(
    "BGE-9",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="Repeat until the log says that no node is under- or over-utilized; thresholds too close make VMs go back and forth",
)
def test_it_converges_unless_thresholds_are_too_close(background: BackgroundRecord, evidence: Attach) -> None:
    """Cycles end in an early exit with zero requests; with thresholds too close the two workers are shown to swap roles."""
    last = background.report(Step.CONVERGED)
    evidence("log", f"last cycle in {background.namespace}", last.log)
    assert not last.requested, f"after {len(background.all(Step.CONVERGED))} cycles it still asks for {last.requested}"
    assert any(p.early_exit for p in last.passes), "the last cycle asked for nothing, but did not exit early"
    assert last.eviction_requests == 0, f"at the end the log says evictionRequests={last.eviction_requests}, wanted 0"
    if Step.CLOSE not in background.ran and not background.stopped_because:
        return
    before, after = background.report(Step.CLOSE), background.report(Step.SWAPPED)
    over = [{n for p in r.passes for n, c in p.nodes.items() if c.category == "overutilized"} for r in (before, after)]
    evidence("log", "with thresholds too close, after the move", after.log)
    assert over[0].isdisjoint(over[1]), f"overutilized before the move: {over[0]}, and after it: {over[1]}"
    if not over[1]:
        inconclusive("after the move no worker was overutilized: these VMs are too small for a swap of roles")
    assert any(s.result == "limitTotal" for s in after.steps), "the worker that took the VM over would not give one back"


@check(
    "BGE-10",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="KEP-1397 story 1: a live migration may fail and be retried; no other VM is evicted in its place meanwhile",
)
def test_a_failed_migration_is_retried_and_nobody_takes_its_place(
    background: BackgroundRecord, kubevirt_facts: KubeVirtFacts, evidence: Attach
) -> None:
    """KubeVirt retries a failed migration, the marker stays, and with limits of 1 no other VM is nominated in between."""
    report, failure = background.report(Step.AFTER_FAILURE), background.failure
    if failure is None:
        inconclusive(f"no migration failed: {background.stopped_because}")
    evidence("log", f"cycle after migration {failure.failed} had failed", report.log)
    if failure.retried is None:
        inconclusive(f"whether migration {failure.failed} was retried was not seen: {background.stopped_because}")
    assert failure.retried, f"KubeVirt made no further migration after {failure.failed} had failed"
    if kubevirt_facts.eviction_in_progress_follows != "vmi":
        evidence("known defect", f"KubeVirt {kubevirt_facts.version}", "the marker goes with a failed attempt (kubevirt#15423)")
        return
    assert failure.marked, f"Pod {failure.pod} lost its eviction-in-progress annotation when migration {failure.failed} failed"
    assert not report.requested, f"after migration {failure.failed} had failed, {', '.join(report.requested)} was asked for"
    if not any(s.result in ("limitTotal", "limitNode", "limitNamespace") for s in report.steps):
        inconclusive(f"no other candidate met the limits, so nothing is shown: {early(report)}")


@check(
    "BGE-11",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="KEP-1397 story 1: a live migration takes minutes; the descheduler does not ask again while it lasts",
)
def test_a_long_migration_is_not_asked_for_twice(background: BackgroundRecord, evidence: Attach) -> None:
    """A migration that outlasts several cycles (and less than ten minutes) is ignored by each of them."""
    cycles = [ran.report for ran in background.all(Step.LATER) if ran.migrating]
    for number, report in enumerate(cycles, 1):
        evidence("log", f"cycle {number} during a long migration", report.log)
        again = report.pods_with("background", "evicted", "error")
        assert not again, f"cycle {number} during the migration asked again, for {', '.join(again)}"
    ignored = [report for report in cycles if background.first in report.pods_with("alreadyRequested")]
    if len(ignored) < 2:
        inconclusive(f"{len(ignored)} cycle(s) came upon Pod {background.first} during its migration, too few to tell")


@check(
    "BGE-12",
    impact=Impact.NAMESPACED,
    needs=NEEDS,
    source="KEP-1397 stories 3 and 4: custom eviction policies, aware of evictions in progress",
)
def test_a_custom_policy_can_veto_and_sees_evictions_in_progress(reference_engine: None, background: BackgroundRecord) -> None:
    """A policy of a few lines sees the eviction in progress and keeps every other Pod from being evicted meanwhile."""
    if background.custom is None:
        inconclusive(f"no custom policy was tried: {background.stopped_because}")
    custom = background.custom
    if not custom.without:
        inconclusive("without the custom policy the cycle would ask for no Pod either, so its veto shows nothing")
    assert custom.seen, f"the custom policy saw no eviction in progress, wanted that of Pod {background.first}"
    assert not custom.requested, f"the custom policy vetoed {custom.vetoed}, and still {custom.requested} was asked for"


@check(
    "BGE-13",
    impact=Impact.NAMESPACED,
    installed=INSTALLED,
    needs=NEEDS,
    source="Only a 429 with that text, of a Pod with the launchers' annotation, is a request; any other is a failed eviction",
)
def test_other_refusals_are_failed_evictions(background: BackgroundRecord, evidence: Attach) -> None:
    """A Pod without request-evict-only, and a 429 without the text, are failed evictions and never assumed."""
    report = background.beside(Step.REFUSED)
    evidence("log", f"{Step.REFUSED} in {background.namespace}", report.log)
    wanted = [pod for pod in (background.launchers[STUCK], background.decoy) if pod]
    assumed = [pod for pod in report.requested if pod in wanted]
    assert not assumed, f"assumed in background although it was refused: {', '.join(assumed)}"
    errors = {s.pod: s.error or "" for s in report.steps if s.result == "error"}
    missing = [pod for pod in wanted if pod not in errors]
    if missing:
        inconclusive(f"the engine did not try to evict {', '.join(missing)}: {early(report)}")
    counted = [p.summary["evictionRequests"] for p in report.passes if p.summary]
    assert not any(counted), f"the log counts {counted} new requests, although there was none"
