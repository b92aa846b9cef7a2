"""The table of options and what becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fixtures.checks import Impact, Scope
from fixtures.options import OPTIONS, EmbeddedSpec, Settings, UsageError, parse

#: pytest-kind registers these; pytest refuses a second registration.
TAKEN = {"kubeconfig", "cluster-name", "keep-cluster", "kind-image", "kind-bin", "kind-kubectl-bin"}


def test_no_option_clashes_with_pytest_kind():
    assert not TAKEN & {o.name for o in OPTIONS}


def test_every_option_fills_a_setting_and_every_setting_has_an_option():
    assert {o.target for o in OPTIONS} | {"given", "quarantine"} == {f.name for f in fields(Settings)}
    assert len({o.name for o in OPTIONS}) == len(OPTIONS)


def test_every_option_has_a_help_of_one_line_without_a_full_stop():
    assert [o.name for o in OPTIONS if not o.help or "\n" in o.help or o.help.endswith(".")] == []


def test_nothing_given_is_the_defaults():
    assert parse({}) == Settings()


@pytest.mark.parametrize(
    ("cluster", "engine", "allow"),
    [
        ("embedded", "reference", Impact.DISRUPTIVE),
        ("kind", "reference", Impact.DISRUPTIVE),
        ("live", "installed", Impact.READ_ONLY),
        ("files", "none", Impact.READ_ONLY),
    ],
)
def test_defaults_depend_on_the_cluster(cluster, engine, allow):
    settings = parse({"cluster": cluster, "manifests": "." if cluster == "files" else None})
    assert (settings.engine, settings.allow) == (engine, allow)


def test_every_option_arrives_in_its_setting(tmp_path):
    program = tmp_path / "descheduler"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: descheduler/v1alpha2\n")
    settings = parse(
        {
            "engine": "binary",
            "engine-binary": str(program),
            "allow": "dry-run",
            "require": "simulated",
            "check": ["pol", "mig-3, bge"],
            "hold": True,
            "plan": False,
            "report-dir": str(tmp_path / "new" / "out"),
            "embedded": ["kubevirt=1.6.1", "platform=upstream"],
            "policy": str(policy),
            "plugin-namespace": "kube-system",
            "record": ["acp=4.4"],
            "timeout-scale": "2.5",
            "seed": "7",
            "defect": ["a,b", "c"],
            "fault": ["d"],
        },
        names={"defect": lambda: {"a", "b", "c"}, "fault": lambda: ["d"]},
    )
    assert settings.engine_binary == program
    assert (settings.allow, settings.require) == (Impact.DRY_RUN, Scope.SIMULATED)
    assert settings.check == ("POL", "MIG-3", "BGE")
    assert (settings.hold, settings.plan) == (True, False)
    assert settings.embedded == EmbeddedSpec(kubevirt="1.6.1", platform="upstream", hco="none")
    assert (settings.policy, settings.plugin_namespace, settings.record) == (policy, "kube-system", {"acp": "4.4"})
    assert (settings.timeout_scale, settings.seed) == (2.5, 7)
    assert (settings.defects, settings.faults) == (("a", "b", "c"), ("d",))
    assert settings.report_dir == tmp_path / "new" / "out"
    assert not settings.report_dir.exists()


def test_options_of_a_live_cluster(tmp_path):
    config = tmp_path / "config"
    config.write_text("")
    settings = parse({"cluster": "live", "context": "prod", "cluster-kubeconfig": str(config)})
    assert (settings.context, settings.cluster_kubeconfig) == ("prod", config)


@pytest.mark.parametrize("option", ["defect", "fault"])
def test_an_unknown_name_lists_the_known_ones_and_the_nearest(option):
    with pytest.raises(UsageError) as caught:
        parse({option: ["gate-not-renderd"]}, names={option: lambda: ["gate-not-rendered", "annotation-missing"]})
    assert str(caught.value) == (
        f"--{option}: 'gate-not-renderd' is not known (did you mean gate-not-rendered?);"
        " known: annotation-missing, gate-not-rendered"
    )


def test_what_follows_the_colon_of_a_name_is_for_the_fault_to_judge():
    assert parse({"fault": ["slow:60s,slow:x"]}, names={"fault": lambda: ["slow"]}).faults == ("slow:60s", "slow:x")
    with pytest.raises(UsageError, match=r"--fault: 'slaw' is not known \(did you mean slow\?\)"):
        parse({"fault": ["slaw:60s"]}, names={"fault": lambda: ["slow"]})


def test_names_are_looked_up_only_when_one_is_given():
    def expensive() -> list[str]:
        raise AssertionError("looked up")

    parse({"seed": "1"}, names={"defect": expensive, "fault": expensive})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_report_directory_that_cannot_be_made_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="is not writable"):
        parse({"report-dir": str(tmp_path / "out")})


@pytest.mark.slow
def test_help_starts_without_the_slow_parts():
    root = Path(__file__).parents[1]
    program = (
        "import sys, pytest; status = pytest.main(['--help', '-p', 'no:cacheprovider']);"
        "slow = {'kubernetes', 'uvicorn', 'fixtures.embedded.store', 'hypothesis'} & set(sys.modules);"
        "print('SLOW', sorted(slow)); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert "--cluster-kubeconfig" in done.stdout
    assert "SLOW []" in done.stdout


def test_where_test_vms_come_from():
    given = {"vm-image": "harbor.example:5000/x/fedora:42", "vm-registry": "harbor.example/mirror/", "vm-disk": "pvc"}
    found = parse({**given, "vm-storage-class": "ceph-rbd", "vm-volume-mode": "Filesystem"})
    assert (found.vm_image, found.vm_registry) == ("harbor.example:5000/x/fedora:42", "harbor.example/mirror")
    assert (found.vm_disk, found.vm_storage_class, found.vm_volume_mode) == ("pvc", "ceph-rbd", "Filesystem")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"vm-image": "https://quay.io/x"}, "'https://quay.io/x' is no image, such as"),
        ({"vm-image": "a image"}, "is no image"),
        ({"vm-registry": "https://harbor.example"}, r"is no HOST\[:PORT\]\[/PATH\], such as .* \(no scheme\)"),
        ({"vm-registry": "/"}, "is no HOST"),
        ({"vm-disk": "rwx"}, "'rwx' is not known; known: containerdisk, pvc"),
        ({"vm-storage-class": "Ceph", "vm-disk": "pvc"}, "'Ceph' is no name of a StorageClass"),
        ({"vm-storage-class": "ceph"}, r"--vm-storage-class: needs --vm-disk=pvc \(the test VMs have containerdisk\)"),
        ({"vm-volume-mode": "Block"}, "--vm-volume-mode: needs --vm-disk=pvc"),
        ({"vm-image": "a", "cluster": "files", "manifests": "."}, "--vm-image: not with --cluster=files"),
    ],
)
def test_unusable_sources_of_test_vms_are_named(given, says):
    with pytest.raises(UsageError, match=says):
        parse(given)


def test_a_configmap_for_the_certificate_is_named_with_its_namespace():
    assert parse({"cluster": "live", "report-configmap": "certs/prod.today"}).report_configmap == "certs/prod.today"
    with pytest.raises(UsageError, match="--report-configmap: 'certificate' is no NS/NAME of a ConfigMap, such as"):
        parse({"cluster": "live", "report-configmap": "certificate"})
    with pytest.raises(UsageError, match="--report-configmap: not with --cluster=embedded"):
        parse({"report-configmap": "a/b"})


def test_numbers_of_a_config_file_stay_what_was_typed(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("embedded: {kubernetes: 1.30}\nseed: 3\nplan: true\n", encoding="utf-8")
    found = parse({"config": str(config)})
    assert (found.embedded.kubernetes, found.seed, found.plan) == ("1.30", 3, True)


def test_a_key_that_comes_twice_in_a_config_file_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("seed: 1\nembedded: {kubernetes: '1.34'}\nseed: 2\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"the key 'seed' comes twice.*line 3"):
        parse({"config": str(config)})
