"""HyperConverged: propagation of the strategy, defaulting, and its two API versions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.controllers.hco import KUBEVIRT_NAME, convert
from fixtures.kube.objects import dig
from fixtures.kube.resources import HYPERCONVERGEDS, KUBEVIRTS, VMIS
from fixtures.versions import STRATEGY_PATHS
from tests.embedded.controllers.web import Web

Start = Callable[..., EmbeddedCluster]
NS, NAME = "kubevirt", "kubevirt-hyperconverged"


def configured(web: Web) -> str | None:
    found: str | None = dig(web.get(KUBEVIRTS, NS, KUBEVIRT_NAME), "spec", "configuration", "evictionStrategy")
    return found


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_the_strategy_reaches_kubevirt_at_once_in_either_version(embedded: Start, version: str) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    body = {"evictionStrategy": "LiveMigrate"}
    patch = {"spec": body if version == "v1beta1" else {"virtualization": body}}
    assert web.merge(HYPERCONVERGEDS.at(version), NS, NAME, patch).code == 200
    cluster.clock.advance(0.5)
    assert configured(web) == "LiveMigrate"
    for served, path in STRATEGY_PATHS.items():
        assert dig(web.get(HYPERCONVERGEDS.at(served), NS, NAME), *path) == "LiveMigrate"
    assert dig(web.get(VMIS, "tenant-a", "erp-db"), "spec", "evictionStrategy") == "LiveMigrateIfPossible"


def test_a_removed_strategy_defaults_to_none_on_acp(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    web.merge(HYPERCONVERGEDS, NS, NAME, {"spec": {"evictionStrategy": None}})
    cluster.clock.advance(0.5)
    assert configured(web) == "None"
    assert dig(web.get(HYPERCONVERGEDS, NS, NAME), "spec", "evictionStrategy") == "None"


def test_a_value_outside_the_enum_is_refused(embedded: Start) -> None:
    web = Web(embedded().server)
    reply = web.merge(HYPERCONVERGEDS, NS, NAME, {"spec": {"evictionStrategy": "Sometimes"}})
    assert reply.code == 422
    assert "spec.evictionStrategy" in reply.body["message"]


def test_what_others_change_in_kubevirt_is_put_back(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    web.merge(KUBEVIRTS, NS, KUBEVIRT_NAME, {"spec": {"configuration": {"evictionStrategy": "External"}}})
    cluster.clock.advance(0.5)
    assert configured(web) == "LiveMigrateIfPossible"


def test_migration_settings_are_those_of_the_release(embedded: Start) -> None:
    for release, outbound, timeout in (("1.18.1", 2, 150), ("1.19.0", 1, 20)):
        web = Web(embedded(hco=release).server)
        found = dig(web.get(KUBEVIRTS, NS, KUBEVIRT_NAME), "spec", "configuration", "migrations")
        assert (found["parallelOutboundMigrationsPerNode"], found["completionTimeoutPerGiB"]) == (outbound, timeout)


def test_before_1_18_only_v1beta1_is_served(embedded: Start) -> None:
    web = Web(embedded(hco="1.17.0").server)
    assert web.request("GET", HYPERCONVERGEDS.path(NS, NAME)).code == 200
    assert web.request("GET", HYPERCONVERGEDS.at("v1").path(NS, NAME)).code == 404


def test_conversion_moves_strategy_and_migration_settings_and_back() -> None:
    old = {
        "apiVersion": "hco.kubevirt.io/v1beta1",
        "spec": {"evictionStrategy": "LiveMigrate", "liveMigrationConfig": {"progressTimeout": 1}, "other": 1},
    }
    new = convert({**old, "spec": dict(old["spec"])}, HYPERCONVERGEDS.at("v1"))
    settings = {"evictionStrategy": "LiveMigrate", "liveMigrationConfig": {"progressTimeout": 1}}
    assert new == {"apiVersion": "hco.kubevirt.io/v1", "spec": {"other": 1, "virtualization": settings}}
    assert convert(new, HYPERCONVERGEDS) == old
