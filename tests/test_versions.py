"""Version facts: parsing and order, rows by range, unknown releases, and that the rows agree with recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fixtures import versions
from fixtures.versions import KNOWN, UnknownVersion, Version

_DATA = Path(__file__).parent / "embedded" / "controllers" / "data"
RECORDINGS = {
    story: yaml.safe_load((_DATA / f"{story}.yaml").read_text(encoding="utf-8"))["events"] for story in ("a-success", "c-repeat")
}


@pytest.mark.parametrize(
    "ordered",
    [
        ["v0.36.0-3", "v0.36.0-4", "v0.36.0-5", "v0.36.0-10", "v0.36.1-1", "v0.37.0-1"],
        ["1.9.0-alpha.0", "1.9.0-rc.1", "1.9.0", "1.9.1", "1.10.0"],
        ["v1.8", "1.8.1", "v1.8.4", "1.8.4-1.2", "1.8.4-1.10"],
        ["0.36.0", "v0.36.0-1"],
    ],
)
def test_versions_compare_as_numbers_the_package_suffix_included(ordered: list[str]) -> None:
    assert sorted(map(Version, reversed(ordered))) == list(map(Version, ordered))


def test_versions_know_their_parts() -> None:
    version = Version("v0.36.0-5")
    assert (version.minor, version.patch, version.release, str(version)) == ("0.36", 0, "0.36.0", "v0.36.0-5")
    assert Version("1.35") == "v1.35.0+emulated"
    assert len({Version("1.8"), Version("v1.8.0")}) == 1
    assert Version("1.8") < "1.9"
    assert repr(version) == "Version('v0.36.0-5')"


@pytest.mark.parametrize("text", ["", "newest", "1.x", "v", "1..2", "-1"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Version(text)


@pytest.mark.parametrize(
    ("fact", "before", "at"),
    [
        ("eviction_in_progress_value", ("1.6.0", "kubevirt"), ("1.6.1", "true")),
        ("eviction_source", ("1.6.6", False), ("1.7.0", True)),
        ("failure_policy", ("1.4.0", "Ignore"), ("1.5.0", "Fail")),
        ("webhook_path", ("1.6.0", "/launcher-eviction-validate"), ("1.6.1", "/pod-eviction-validate")),
        ("pdb_per_vmi", ("1.5.2", True), ("1.6.0", False)),
        ("ack_steps", ("1.5.2", 1), ("1.6.0", 3)),
        ("priority_from_source", ("1.8.4", False), ("1.9.0", True)),
        ("evacuate_cancel", ("1.6.6", False), ("1.7.0", True)),
        ("hotplug_protected", ("1.6.0", False), ("1.6.1", True)),
        ("completed_launcher_allowed", ("1.3.0", False), ("1.3.1", True)),
        ("parse_error_denied", ("1.7.2", False), ("1.7.3", True)),
        ("parse_error_denied", ("1.8.1", False), ("1.8.2", True)),
    ],
)
def test_kubevirt_facts_change_where_they_should(fact: str, before: tuple[str, object], at: tuple[str, object]) -> None:
    for version, value in (before, at):
        assert getattr(versions.kubevirt(version), fact) == value
    assert versions.kubevirt(at[0]).source(fact)


def test_a_backport_does_not_reach_the_next_minor_s_first_releases() -> None:
    assert [versions.kubevirt(v).parse_error_denied for v in ("1.7.4", "1.8.0", "1.8.4")] == [True, False, True]


@pytest.mark.parametrize(
    ("fact", "first"),
    [
        ("requested_by", "0.34.0"),
        ("pod_protections", "0.34.0"),
        ("namespace_label_selector", "0.35.0"),
        ("namespace_match_expressions", "0.36.0"),
        ("plugin_eviction_limit", "0.33.0"),
        ("background_metric", "0.36.0"),
        ("rbac_pdb", "0.32.1"),
        ("rbac_pvc", "0.35.0"),
    ],
)
def test_descheduler_facts_hold_from_a_release_on(fact: str, first: str) -> None:
    for version in versions.known("descheduler"):
        assert getattr(versions.descheduler(version), fact) is (Version(version) >= first)


def test_hyperconverged_facts() -> None:
    assert [versions.hco(v).served for v in ("1.17.4", "1.18.1")] == [("v1beta1",), ("v1", "v1beta1")]
    assert [versions.hco(v).storage for v in ("1.18.1", "1.19.0")] == ["v1beta1", "v1"]
    assert versions.hco("1.18.1").kubevirt == "1.8.4"
    paths = [versions.hco("1.18.1").strategy_path(v) for v in ("v1beta1", "v1")]
    assert paths == [("spec", "evictionStrategy"), ("spec", "virtualization", "evictionStrategy")]


def test_kubernetes_facts() -> None:
    assert versions.kubernetes("1.35").git_version == "v1.35.0"
    assert versions.kubernetes("v1.35.2+vendor").git_version == "v1.35.2"
    assert [versions.kubernetes(v).success_criteria for v in ("1.30", "1.31")] == [False, True]
    assert versions.known("Kubernetes") == tuple(f"1.{m}" for m in range(30, 38))


@pytest.mark.parametrize(
    ("find", "product", "unknown"),
    [
        (versions.kubevirt, "KubeVirt", ["1.2.2", "1.10.0", "1.6.7", "?"]),
        (versions.descheduler, "descheduler", ["0.31.0", "0.37.0", "0.36.1"]),
        (versions.hco, "HyperConverged", ["1.12.0", "2.0.0"]),
        (versions.kubernetes, "Kubernetes", ["1.29", "1.38"]),
    ],
)
def test_unknown_releases_are_refused_with_the_known_ones(find: object, product: str, unknown: list[str]) -> None:
    for version in unknown:
        with pytest.raises(UnknownVersion, match="known: ") as refused:
            find(version)  # type: ignore[operator]
        assert refused.value.known == versions.known(product)
        assert str(refused.value).startswith(f"no facts about {product} {version!r}")


def test_a_cluster_as_found_is_measured_by_the_nearest_older_release() -> None:
    found = versions.kubevirt("v1.9.3", nearest=True)
    assert (found.version, found.assumed, found.priority_from_source) == ("1.9.3", True, True)
    assert not versions.kubevirt("1.9.0", nearest=True).assumed
    assert not versions.kubevirt("v1.8.4-vendor.2").assumed
    with pytest.raises(UnknownVersion):
        versions.kubevirt("1.2.0", nearest=True)


def test_every_known_release_has_every_fact_and_every_row_a_source() -> None:
    tables = (
        (versions.KUBEVIRT, versions.kubevirt, "KubeVirt"),
        (versions.DESCHEDULER, versions.descheduler, "descheduler"),
        (versions.HCO, versions.hco, "HyperConverged"),
        (versions.KUBERNETES, versions.kubernetes, "Kubernetes"),
    )
    for table, find, product in tables:
        assert all(row.source for rows in table.values() for row in rows)
        assert all(list(map(Version, (r.since for r in rows))) == sorted(Version(r.since) for r in rows) for rows in table.values())
        for version in versions.known(product):
            facts = find(version)
            assert {fact: bool(facts.source(fact)) for fact in table} == dict.fromkeys(table, True)
    assert set(KNOWN) == {"KubeVirt", "descheduler", "HyperConverged", "Kubernetes"}


@pytest.mark.parametrize(
    ("package", "renders"),
    [("v0.36.0-3", False), ("v0.36.0-4", False), ("v0.36.0-5", True), ("v0.36.0-10", True), ("v0.36.1", True)],
)
def test_the_gate_is_rendered_by_packages_newer_than_the_last_without(package: str, renders: bool) -> None:
    assert versions.package_renders_gate(package) is renders


def test_an_unreadable_package_version_is_told() -> None:
    with pytest.raises(UnknownVersion, match=r"newer than v0\.36\.0-4"):
        versions.package_renders_gate("latest")


def test_the_verified_combination() -> None:
    (verified,) = versions.VERIFIED
    same = {"platform": "ACP 4.4", "kubernetes": "v1.35.3", "kubevirt": "v1.8.4", "hco": "1.18.1", "package": "v0.36.0-7"}
    assert verified.matches(**same)
    changes = {"kubernetes": "v1.36.0", "kubevirt": "v1.9.0", "hco": "1.18.0", "package": "v0.36.0-4", "platform": "4.3"}
    for key, other in changes.items():
        assert not verified.matches(**{**same, key: other})
    assert not verified.matches(**{**same, "kubevirt": "unknown"})


def test_the_rows_for_1_9_say_what_was_recorded() -> None:
    """Checks and the embedded cluster read the same rows, so these must not agree on a fiction."""
    facts = versions.kubevirt("1.9.0")
    evacuation, repeats = RECORDINGS["a-success"], RECORDINGS["c-repeat"]
    changes = {d["path"]: d.get("new") for e in evacuation for d in e.get("diff") or [] if "new" in d}
    in_progress = "/metadata/annotations/descheduler.alpha.kubernetes.io~1eviction-in-progress"
    assert changes[in_progress] == facts.eviction_in_progress_value
    assert changes["/metadata/annotations/kubevirt.io~1eviction-source"] == "descheduler"
    assert facts.eviction_source
    assert ("/status/conditions[type=EvictionRequested]" in changes) is facts.eviction_requested
    born = {e["resource"]: e["object"] for e in evacuation if e.get("type") == "ADDED"}
    assert (born["VirtualMachineInstanceMigration"]["spec"].get("priority") is not None) is facts.priority_from_source
    assert ("vmi.kubevirt.io/id" in born["Pod"]["metadata"]["labels"]) is facts.vmi_id_label
    configuration = changes["/status/migrationState"]["migrationConfiguration"]
    assert configuration["completionTimeoutPerGiB"] == facts.completion_timeout_per_gib
    assert configuration["maxDowntimeMs"] == facts.max_downtime_ms
    assert configuration["utilityVolumesTimeout"] == facts.utility_volumes_timeout
    acknowledged = [e for e in evacuation if any(d["path"] == "/status/nodeName" for d in e.get("diff") or [])][-1]
    assert ("/status/migrationState/completed" in {d["path"] for d in acknowledged["diff"]}) is (facts.ack_steps == 1)
    answers = {e["response"]["to"]: e["response"]["body"].get("message", "") for e in repeats if "response" in e}
    repeat = facts.repeat_message.format(ns="story-c", name="vm-c")
    assert answers["repeat on source Pod at once"].endswith(f"denied the request: {repeat}")
    assert not any(e.get("resource") == "PodDisruptionBudget" for e in evacuation) or facts.pdb_per_vmi


def test_known_defects_of_a_pair() -> None:
    def checks(kubevirt: str) -> list[str]:
        return [d.check for d in versions.known_defects(kubevirt=kubevirt, descheduler="0.36.0")]

    assert [checks(v) for v in ("1.4.0", "1.6.0", "1.6.1")] == [["BGE-4", "BGE-10"], ["BGE-10"], []]
