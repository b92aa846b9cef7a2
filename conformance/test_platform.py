"""ACP: what the platform's global cluster says of the plugin."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.installation import Installation
from fixtures.cluster.discover.moduleinfo import CLUSTER_LABEL, Module, ModulesFound
from fixtures.cluster.discover.versions import VERSION_LABEL
from fixtures.kube.descheduler_flags import BACKGROUND
from fixtures.kube.objects import labels
from fixtures.run import Attach
from fixtures.versions import LAST_PACKAGE_WITHOUT_GATE, UnknownVersion, Version, package_renders_gate


@check("ACP-1", impact=Impact.READ_ONLY, source="ModuleInfo is served only by the global (management) cluster")
def test_the_global_cluster_knows_the_plugin(modules: ModulesFound, installation: Installation, evidence: Attach) -> None:
    """ModuleInfo names this cluster, is Running, and its version renders the feature gate."""
    if not modules.modules and installation.installed is Presence.ABSENT:
        not_applicable(f"no descheduler is installed: {modules.probe.evidence}; {installation.policy.probe.evidence}")
    assert modules.modules, f"the global cluster has no ModuleInfo of the descheduler: {modules.probe.evidence}"
    module = _ours(modules, installation)
    evidence("object", module.where, module.object)
    assert module.cluster, f"{module.where}: no label {CLUSTER_LABEL} says which cluster it is about"
    assert module.cluster_probe.presence is not Presence.ABSENT, f"{module.where}: {module.cluster_probe.evidence}"
    assert module.phase == "Running", f"{module.where}: status.phase is {module.phase or 'missing'}, wanted Running"
    try:
        renders = package_renders_gate(module.version) or _other_line_renders(module.version, installation)
    except UnknownVersion as e:
        inconclusive(f"{module.where}, spec.version: {e}")
    assert renders, (
        f"{module.where}: spec.version is {module.version}, which does not render the feature gate; "
        f"upgrade the plugin to a package newer than {LAST_PACKAGE_WITHOUT_GATE}"
    )


def _other_line_renders(package: str, installation: Installation) -> bool:
    """Of packages of another release line only what they rendered tells."""
    other = Version(package).release != Version(LAST_PACKAGE_WITHOUT_GATE).release
    return other and any(w.feature_gate(BACKGROUND) for w in installation.consumers.on)


def _ours(modules: ModulesFound, installation: Installation) -> Module:
    """The one about this cluster: there is one per cluster, and of several only the installed package can tell."""
    fitting = modules.about(labels(w.object).get(VERSION_LABEL, "") for w in installation.consumers.all)
    named = ", ".join(f"{m.where} ({m.cluster or 'no cluster'}, {m.version})" for m in fitting or modules.modules)
    assert fitting, (
        f"the cluster's address calls it {modules.here}, and no ModuleInfo of the descheduler names that; there are: {named}"
    )
    if len(fitting) > 1:
        inconclusive(
            f"several ModuleInfos may be about this cluster: {named}; use a kubeconfig whose server is the platform's address "
            "https://PLATFORM/kubernetes/CLUSTER, which names it"
        )
    return fitting[0]
