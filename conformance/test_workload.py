"""REN: the workload that consumes the policy, as rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixtures.checks import Impact, Level, check, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.installation import ConsumersFound, Installation
from fixtures.cluster.discover.workload import DeschedulerWorkload
from fixtures.kube.descheduler_flags import BACKGROUND
from fixtures.kube.resources import KUBEVIRTS
from fixtures.run import Attach


def required_beside_kubevirt(facts: Mapping[str, Any]) -> Level:
    """Required where KubeVirt is not known to be absent, else informational."""
    return Level.INFORMATIONAL if facts.get(KUBEVIRTS.key) == Presence.ABSENT.value else Level.REQUIRED


@check("REN-1", impact=Impact.READ_ONLY, source="the CronJob or Deployment that consumes the policy")
def test_exactly_one_workload_consumes_the_policy(installation: Installation, consumers: ConsumersFound) -> None:
    """Exactly one CronJob or Deployment runs a descheduler container on that ConfigMap."""
    if installation.installed is Presence.ABSENT:
        not_applicable(f"no descheduler is installed: {consumers.probe.evidence}")
    assert len(consumers.on) == 1, f"wanted exactly one workload on {installation.policy.where}: {consumers.explanation}"


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
