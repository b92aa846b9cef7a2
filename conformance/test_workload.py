"""REN: the workload that consumes the policy, as rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover import rights
from fixtures.cluster.discover.enginepolicy import release_of
from fixtures.cluster.discover.installation import ConsumersFound, Installation
from fixtures.cluster.discover.policydoc import PolicyDoc
from fixtures.cluster.discover.rbac import ADMIN, Rbac, account
from fixtures.cluster.discover.rendering import Patches, foreign_managers, patched_arguments
from fixtures.cluster.discover.versions import IMAGE, PACKAGE, VersionMatrix
from fixtures.cluster.discover.workload import DeschedulerWorkload, Flavour
from fixtures.kube import schedules
from fixtures.kube.descheduler_flags import BACKGROUND
from fixtures.kube.objects import dig
from fixtures.kube.resources import KUBEVIRTS
from fixtures.run import Attach
from fixtures.versions import UnknownVersion, Version, descheduler


def required_beside_kubevirt(facts: Mapping[str, Any]) -> Level:
    """Required where KubeVirt is not known to be absent, else informational."""
    return Level.INFORMATIONAL if facts.get(KUBEVIRTS.key) == Presence.ABSENT.value else Level.REQUIRED


def required_of_a_deployment(facts: Mapping[str, Any]) -> Level:
    """Required of a Deployment's interval, else recommended."""
    return Level.REQUIRED if facts.get("consumer") == "Deployment" else Level.RECOMMENDED


@check("REN-1", impact=Impact.READ_ONLY, source="the CronJob or Deployment that consumes the policy")
def test_exactly_one_workload_consumes_the_policy(installation: Installation, consumers: ConsumersFound) -> None:
    """Exactly one CronJob or Deployment runs a descheduler container on that ConfigMap."""
    if installation.installed is Presence.ABSENT:
        not_applicable(f"no descheduler is installed: {consumers.probe.evidence}")
    if not consumers.all and consumers.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether a workload consumes the policy is unknown: {consumers.probe.evidence}")
    _policy_seen(installation)
    policy = installation.policy
    place = f"on {policy.where}" if policy.configmap is not None else "with a policy, of which there is none"
    assert len(consumers.on) == 1, f"wanted exactly one workload {place}: {consumers.explanation}"


@check(
    "REN-2",
    level=required_beside_kubevirt,
    impact=Impact.READ_ONLY,
    source="the CronJob or Deployment that consumes the policy is rendered with --feature-gates=EvictionsInBackground=true",
)
def test_background_evictions_are_switched_on(consumer: DeschedulerWorkload, evidence: Attach) -> None:
    """The consumer's arguments turn EvictionsInBackground on, in any spelling that Go's flag parser accepts."""
    evidence("arguments", consumer.where, consumer.args)
    assert consumer.feature_gate(BACKGROUND), consumer.explain_gate()


@check(
    "REN-3",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="The --v=3 verbosity is also required to see the Eviction in background ... log lines",
)
def test_the_log_is_verbose_enough(consumer: DeschedulerWorkload) -> None:
    """Verbosity is 3 or more."""
    assert consumer.verbosity >= 3, (
        f"{consumer.where}: --v is {consumer.verbosity}, wanted 3 or more to see 'Eviction in background' lines"
    )


@check("REN-4", impact=Impact.READ_ONLY, source="--policy-config-file=/policy-dir/policy.yaml")
def test_the_policy_file_is_the_configmaps(consumer: DeschedulerWorkload, installation: Installation) -> None:
    """--policy-config-file points into the ConfigMap's mount."""
    _policy_seen(installation)
    mounts = sorted(str(m.get("mountPath")) for m in consumer.mounts)
    found = f"{consumer.where}: --policy-config-file is {consumer.policy_path!r}"
    assert consumer.policy_mount is not None, f"{found}, wanted a path inside a mounted volume; mounted: {mounts}"
    policy = installation.policy
    assert policy.name in consumer.config_maps, (
        f"{found}, in a mount that shows {consumer.config_maps or 'no ConfigMap'}, wanted {policy.name!r}"
    )
    assert consumer.policy_key == policy.key, (
        f"{found}, which is key {consumer.policy_key!r} of the ConfigMap, wanted {policy.key!r}"
    )


@check(
    "REN-5",
    level=required_of_a_deployment,
    impact=Impact.READ_ONLY,
    source="Descheduler evaluates the cluster again on every run",
)
def test_it_runs_again_and_again_and_never_twice_at_once(consumer: DeschedulerWorkload) -> None:
    """CronJob: the schedule parses, runs do not overlap, it is not suspended; Deployment: an interval is given."""
    if not consumer.is_cronjob:
        assert consumer.interval > 0, (
            f"{consumer.where}: no --descheduling-interval, so the process ends after one cycle and the Pod restarts for ever"
        )
        assert not consumer.suspended, f"{consumer.where}: it is scaled to 0, so nothing is rebalanced"
        return
    schedule = str(dig(consumer.object, "spec", "schedule", default=""))
    problem = schedules.problem(schedule)
    assert not problem, f"{consumer.where}: schedule {schedule!r} starts no run: {problem}"
    policy = dig(consumer.object, "spec", "concurrencyPolicy", default="Allow")
    assert policy in ("Forbid", "Replace"), (
        f"{consumer.where}: concurrencyPolicy is {policy}, so runs may overlap and each has limits of its own; wanted Forbid"
    )
    assert not consumer.suspended, f"{consumer.where}: it is suspended, so nothing is rebalanced"


@check("REN-6", impact=Impact.READ_ONLY, source="Descheduler selects a virt-launcher Pod and calls the Eviction API")
def test_its_account_may_do_what_is_needed_and_no_more_than_that(
    consumer: DeschedulerWorkload, versions: VersionMatrix, policy_doc: PolicyDoc, rbac: Rbac, evidence: Attach
) -> None:
    """The ServiceAccount has the rights that this release and policy need, and is not cluster-admin."""
    release, read_from, unknown = release_of(versions)
    if unknown:
        inconclusive(f"{consumer.where}: {unknown}")
    who = account(consumer.namespace, consumer.service_account)
    wanted = list(rights.needed(descheduler(release, nearest=True), consumer, policy_doc.document))
    missing = [str(r) for r in wanted if not rbac.may(who, r)]
    evidence(
        "rights", f"ServiceAccount {consumer.namespace}/{consumer.service_account}", {str(r): rbac.may(who, r) for r in wanted}
    )
    place = f"{consumer.where}: ServiceAccount {consumer.namespace}/{consumer.service_account}"
    if missing and rbac.gaps:
        inconclusive(f"{place}: of what descheduler {release} needs, {', '.join(missing)} is not recorded; {rbac.gaps}")
    assert not missing, f"{place} lacks what descheduler {release} ({read_from}) needs: {', '.join(missing)}"
    assert not rbac.almighty(who), (
        f"{place} may do everything in the cluster ({ADMIN} or the like); bind it to the chart's ClusterRole"
    )
    if rbac.gaps:
        inconclusive(f"{place} has what it needs; whether it has more is not recorded: {rbac.gaps}")


@check(
    "REN-7",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="both the package and KubeVirt evolve independently",
)
def test_image_package_and_policy_fit_together(
    consumer: DeschedulerWorkload, versions: VersionMatrix, policy_doc: PolicyDoc
) -> None:
    """The image's release is the package's, it has the feature gate, and it knows the dialect of the policy."""
    release, read_from, unknown = release_of(versions)
    package = versions[PACKAGE]
    if unknown or not package.known:
        inconclusive(f"{consumer.where}: {unknown or f'the package version is {package.value}: {package.read_from}'}")
    try:
        facts, packaged = descheduler(release), Version(package.value)
    except (UnknownVersion, ValueError) as e:
        inconclusive(f"{consumer.where}: {e}")
    if consumer.flavour in (Flavour.ACP, Flavour.HELM):
        assert packaged.minor == Version(release).minor, (
            f"{consumer.where}: {IMAGE} is {release} ({read_from}), {PACKAGE} is {package.value} ({package.read_from}); "
            "they are different releases, so policy, rights and arguments need not fit the program"
        )
    newer = policy_doc.newer_than(facts)
    assert not newer, (
        f"{consumer.where}: descheduler {release} ({read_from}) does not know {', '.join(newer)}, which the policy uses"
    )


@check(
    "REN-8",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="Do not hand-edit the generated CronJob or Deployment",
)
def test_its_arguments_are_as_rendered(consumer: DeschedulerWorkload, patches: Patches) -> None:
    """No ResourcePatch changes its arguments, and nobody else than the renderer wrote them."""
    patched = list(patched_arguments(patches, consumer))
    assert not patched, f"{consumer.where}: {'; '.join(patched)}; delete the ResourcePatch, upgrade the package instead"
    foreign = foreign_managers(consumer)
    assert not foreign, f"{consumer.where}: {'; '.join(foreign)}; let the package render it again, upgrade the package instead"
    if patches.probe.presence is Presence.UNKNOWN:
        inconclusive(f"{consumer.where}: ResourcePatches could not be listed: {patches.probe.evidence}")


@check("REN-9", impact=Impact.READ_ONLY, source="a migration was requested")
def test_it_is_not_in_dry_run(consumer: DeschedulerWorkload) -> None:
    """--dry-run is off."""
    if consumer.trouble:
        inconclusive(f"{consumer.where}: the descheduler refuses its command line: {consumer.trouble}")
    hint = "set mode: Automatic in the KubeDescheduler" if consumer.flavour is Flavour.KDO else "take --dry-run away"
    assert not consumer.dry_run, f"{consumer.where}: --dry-run is on, so no eviction is ever asked for; {hint}"


def _policy_seen(installation: Installation) -> None:
    policy = installation.policy
    if policy.configmap is None and policy.probe.presence is Presence.UNKNOWN:
        inconclusive(f"which policy it is on is unknown: {policy.probe.evidence}")
