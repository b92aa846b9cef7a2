"""ACP: how the platform treats an edit of the policy. Seen during the two-worker scenario, which edits it anyway."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive, not_applicable
from fixtures.kube.objects import dig, name
from fixtures.run import Attach
from fixtures.scenario.record import ScenarioRecord
from fixtures.scenario.timeline import TOLERANCE


@check(
    "ACP-2",
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="ACP records the edit as a ResourcePatch in the plugin namespace (the API server prints Warning: The operation is"
    " allowed, and ResourcePatch rp-<suffix> is created), so the change survives chart reconciliation",
)
def test_an_edit_of_the_policy_is_recorded_and_survives(policy_edit: ScenarioRecord, evidence: Attach) -> None:
    """An edit of the policy answers with the Warning, is recorded as a ResourcePatch and survives reconciliation; deleting that
    restores the chart's policy.
    """
    edit = policy_edit.override
    if edit is None:
        inconclusive(f"the policy was not edited: {policy_edit.stopped_because or 'unknown reason'}")
    if edit.existed:
        not_applicable("a ResourcePatch on the policy ConfigMap existed before, so this edit creates none")
    evidence("answer", "warnings of the policy's edit", edit.warnings)
    assert edit.patch is not None, f"no ResourcePatch appeared for the edit of the policy; warnings: {edit.warnings or 'none'}"
    patch = name(edit.patch)
    evidence("object", f"ResourcePatch {patch}", edit.patch)
    said = [w for w in edit.warnings if "ResourcePatch" in w and patch in w]
    assert said, f"the edit answered with warnings {edit.warnings or 'none'}, wanted one that names ResourcePatch {patch}"
    paths = [str(dig(p, "path")) for p in dig(edit.patch, "spec", "jsonPatch", default=[])]
    assert any(p.startswith("/data/") for p in paths), (
        f"ResourcePatch {patch}: spec.jsonPatch changes {paths}, wanted the policy's data"
    )
    if edit.applied_at is None or edit.applied_at < edit.written_at - TOLERANCE:
        inconclusive(f"ResourcePatch {patch}: no reconciliation was seen after the edit (status.lastApplyTime)")
    if edit.survived is None:
        inconclusive("the policy could not be read before the roll-back")
    assert edit.survived, "the chart's reconciliation took the edited policy back during the run"
    if policy_edit.rollback.by_deletion is None:
        inconclusive(
            f"ResourcePatch {patch} was not deleted: {'; '.join(policy_edit.rollback.differences) or 'it was gone before'}"
        )
    assert policy_edit.rollback.by_deletion, f"deleting ResourcePatch {patch} did not bring the chart's policy back"
