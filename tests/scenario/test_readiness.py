"""What is installed and may not be stopped or edited: each obstacle with its reason and the next step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fixtures.cluster import discover
from fixtures.cluster.discover import Flavour
from fixtures.embedded.world import World
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, Resource
from fixtures.scenario import readiness
from tests.scenario import cases


def marked(resource: Resource, where: str, key: str) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        found = world.find(resource, "descheduler")["metadata"]
        found[where] = {**found.get(where, {}), key: "x"}

    return prepare


OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {
    "gate not rendered": ({"defects": ["gate-not-rendered"]}, "EvictionsInBackground"),
    "verbosity": ({"defects": ["verbosity-too-low"]}, "--v is 1, wanted 3 or more; set --v=3"),
    "dry run": ({"defects": ["dry-run"]}, "runs with --dry-run, so that it evicts nothing; take it away"),
    "policy no YAML": ({"defects": ["policy-not-yaml"]}, 'ConfigMap descheduler/descheduler, data["policy.yaml"]: it is no YAML'),
    "policy refused": ({"defects": ["namespaces-included"]}, "descheduler 0.36.0 would refuse the installed policy: "),
    "no interceptor": ({"defects": ["interceptor-not-registered"]}, "without the interceptor an eviction shuts a VM down"),
    "virt-api down": ({"defects": ["virt-api-without-endpoints"]}, "virt-api has no ready endpoint"),
    "Argo CD": (
        {"prepare": marked(CRONJOBS, "annotations", "argocd.argoproj.io/tracking-id")},
        "CronJob descheduler/descheduler, container descheduler is managed by Argo CD, which would undo a suspension; certify with",
    ),
    "Flux": (
        {"prepare": marked(CRONJOBS, "labels", "kustomize.toolkit.fluxcd.io/name")},
        "is managed by Flux, which would undo a suspension",
    ),
    "Flux by Helm": (
        {"prepare": marked(CRONJOBS, "labels", "helm.toolkit.fluxcd.io/name")},
        "is managed by Flux, which would undo a suspension",
    ),
    "Argo CD has the policy": (
        {"prepare": marked(CONFIGMAPS, "labels", "argocd.argoproj.io/instance")},
        'data["policy.yaml"] is managed by Argo CD, which would undo an edit',
    ),
}


def found(flavour: Flavour | None = None, **options: Any) -> tuple[str, ...]:
    cluster = cases.start(**options)
    try:
        installation, interceptor = discover.find_installation(cluster, cases.NS), discover.find_interceptor(cluster)
        consumer = installation.consumer
        consumer = replace(consumer, flavour=flavour or consumer.flavour)
        return readiness.obstacles(cluster, consumer, interceptor, installation.policy, version="0.36.0")
    finally:
        cluster.close()


@pytest.mark.parametrize("what", OBSTACLES)
def test_an_obstacle_is_told(what: str) -> None:
    options, says = OBSTACLES[what]
    told = found(**options)
    assert len(told) == 1, told
    assert says in told[0]


def test_an_operators_descheduler_is_left_alone() -> None:
    (told,) = found(Flavour.KDO)
    assert "is managed by KubeDescheduler operator, which would undo a suspension; certify with --allow=namespaced" in told


def test_a_healthy_installation_has_none() -> None:
    assert found() == ()
