"""Command line, exit statuses and start-up errors, in the original's words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.engine import klog
from fixtures.engine.reference.process import main, run
from tests.engine.fakeapi import FakeApi, status

ROOT = Path(__file__).parents[3]
MODULE = [sys.executable, "-m", "fixtures.engine.reference.process"]
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 50}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
"""


def started(args: Sequence[str], **more: Any) -> tuple[int, str]:
    """Run to the end, sleeping no time at all; exit status and log."""
    log = bytearray()
    options: dict[str, Any] = {"env": {}, "files": {"/p": POLICY}, "kubeconfig": None, "now": lambda: 1.8e9} | more
    steps = run(args, write=log.extend, **options)
    for _ in range(100):
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value), log.decode()
    raise AssertionError("does not end")


def last_error(log: str) -> str | None:
    return klog.report(log).fatal


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["--feature-gates=EvictionsInBackground"], 'invalid argument "EvictionsInBackground" for "--feature-gates" flag'),
        (["--v=x"], 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint'),
        (["serve"], 'unknown command "serve" for "descheduler"'),
        (["--emulate-version=0.12"], 'invalid argument "0.12" for "--emulate-version" flag'),
        (["--emulate-version=x"], 'invalid argument "x" for "--emulate-version" flag'),
    ],
)
def test_a_bad_command_line_prints_error_and_status_1(args: list[str], error: str) -> None:
    code, log = started(args)
    assert code == 1
    assert log.splitlines()[-1].startswith(f"Error: {error}")


def test_help_is_no_error() -> None:
    code, log = started(["--help"])
    assert code == 0
    assert "--policy-config-file" in log


CONFIG_ERRORS = [
    (
        [],
        {},
        "unable to create config: unable to build in cluster config: unable to load in-cluster configuration, "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
    ),
    (
        ["--kubeconfig=/nope"],
        {},
        "unable to create config: failed to parse kubeconfig file: open /nope: no such file or directory ",
    ),
    (
        ["--kubeconfig=/k"],
        {"/k": "{}"},
        "unable to create config: failed to parse kubeconfig file: "
        "failed to get master address from kubeconfig: current context not found ",
    ),
    (
        ["--client-connection-kubeconfig=/k"],
        {"/k": "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]"},
        "unable to create config: failed to parse kubeconfig file: "
        "failed to get master address from kubeconfig: cluster information not found ",
    ),
]


@pytest.mark.parametrize(("args", "files", "error"), CONFIG_ERRORS)
def test_a_configuration_that_does_not_lead_anywhere(args: list[str], files: dict[str, str], error: str) -> None:
    code, log = started(args, files=files)
    assert code == 1
    found = [(e.file, e.message, e.fields.get("err")) for e in klog.parse(log)]
    assert found == [("server.go", "failed to run descheduler server", error), ("run.go", "command failed", error)]


def test_the_last_of_both_kubeconfig_flags_counts() -> None:
    _, log = started(["--kubeconfig=/a", "--client-connection-kubeconfig=/b", "--kubeconfig=/c"])
    assert "open /c: no such file" in log


def test_an_unknown_gate(api: FakeApi) -> None:
    code, log = started(["--feature-gates=Foo=true", "--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    found = [(e.file, e.message, e.fields["err"]) for e in klog.parse(log)]
    error = "unrecognized feature gate: Foo"
    assert (code, found) == (1, [("server.go", "failed to apply", error), ("run.go", "command failed", error)])
    assert api.requests == []


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ([], "deschedulerPolicy is nil"),
        (["--policy-config-file=/x"], 'failed to read policy config file "/x": open /x: no such file or directory'),
        (["--policy-config-file=/p", "--leader-elect"], "leaderElection must be used with deschedulingInterval"),
        (
            ["--policy-config-file=/p", "--leader-elect", "--descheduling-interval=1m", "--leader-elect-resource-name="],
            "leaderElection: name may not be empty",
        ),
    ],
)
def test_what_else_keeps_it_from_starting(args: list[str], error: str, api: FakeApi) -> None:
    code, log = started([*args, "--v=1"], kubeconfig=api.kubeconfig())
    assert (code, last_error(log)) == (1, error)
    assert ("Policy config file not specified" in log) is (not args)


@pytest.mark.parametrize("groups", [(), ("apps",)])
def test_without_evictions_it_ends_silently(groups: tuple[str, ...], api: FakeApi) -> None:
    api.groups = groups
    assert started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig()) == (0, "")


def test_versions_far_apart_are_warned_of(api: FakeApi) -> None:
    api.faults.append(("GET /version", 200, {"gitVersion": "v1.30.4+k3s1"}, {}))
    code, log = started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    assert code == 0
    assert "descheduler version 0.36 may not be supported on your version of Kubernetes v1.30.4+k3s1." in log
    assert klog.report(log).unparsed == []


def test_gates_are_logged_with_what_all_alpha_brings(api: FakeApi) -> None:
    _, log = started(["--policy-config-file=/p", "--v=1", "--feature-gates=AllAlpha=true"], kubeconfig=api.kubeconfig())
    (entry,) = [e for e in klog.parse(log) if e.message == "Updated"]
    assert entry.fields["featureGates"] == {"AllAlpha": True, "EvictionsInBackground": True}


def test_json_logging(api: FakeApi) -> None:
    args = ["--policy-config-file=/p", "--v=4", "--logging-format=json"]
    _, log = started(args, kubeconfig=api.kubeconfig())
    assert all(json.loads(line)["ts"] == 1.8e12 for line in log.splitlines())
    text = started(["--policy-config-file=/p", "--v=4"], kubeconfig=api.kubeconfig())[1]
    assert klog.report(log).skipped == klog.report(text).skipped == "Skipping descheduling cycle: requires >=2 nodes"


def test_an_unknown_logging_format_is_text(api: FakeApi) -> None:
    assert started(["--policy-config-file=/p", "--logging-format=xml", "--v=1"], kubeconfig=api.kubeconfig())[1].startswith("I")


@pytest.mark.parametrize(("version", "reset"), [("0.34", "Setting up"), ("v0.35.1", "Resetting"), ("master", "Resetting")])
def test_releases_are_emulated(version: str, reset: str, api: FakeApi) -> None:
    for node in ("a", "b"):
        api.put("/api/v1/nodes", {"metadata": {"name": node}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}})
    args = ["--policy-config-file=/p", "--v=3", f"--emulate-version={version}"]
    code, log = started(args, kubeconfig=api.kubeconfig())
    assert code == 0
    assert f"{reset} " in log


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_list_that_is_refused_ends_the_process_at_once(code: int, api: FakeApi) -> None:
    refusal = status(code, 'pods is forbidden: User "x" cannot list resource "pods"', "Forbidden")
    api.faults.append(("GET /api/v1/pods", code, refusal, {}))
    result, log = started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    assert result == 1
    assert last_error(log) == 'failed to list *v1.Pod: pods is forbidden: User "x" cannot list resource "pods"'


def test_a_server_that_stays_down_ends_the_process_after_some_attempts(api: FakeApi) -> None:
    api.faults += [("GET /apis", 500, {}, {})] * 20
    code, log = started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    assert code == 1
    assert last_error(log) == "failed to get /apis: an error on the server (500) has prevented the request from succeeding"


def test_requests_carry_the_token_and_the_name(api: FakeApi) -> None:
    started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    assert {h["Authorization"] for h in api.headers} == {"Bearer secret-token"}
    assert all(h["User-Agent"].startswith("descheduler/v0.36.0") for h in api.headers)


def test_a_defect_of_the_engine_is_one_line_and_no_traceback(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **more: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("fixtures.engine.reference.process.loop.decide", broken)
    code, log = started(["--policy-config-file=/p"], kubeconfig=api.kubeconfig())
    assert code == 1
    error = last_error(log)
    assert error is not None
    assert error.startswith("internal error of the reference engine at test_command.py:")
    assert error.endswith("KeyError: 'surprise'")


# ---------------------------------------------------------------- any input


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode("utf-8", "surrogateescape"))))
def test_any_policy_text_is_taken_or_refused(api: FakeApi, text: str) -> None:
    code, log = started(["--policy-config-file=/p"], files={"/p": text}, kubeconfig=api.kubeconfig())
    assert code in (0, 1)
    assert "internal error" not in log


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
PARTS = ("current-context", "contexts", "clusters", "users")


@settings(deadline=None, max_examples=150)
@given(st.one_of(JSON, st.fixed_dictionaries({}, optional=dict.fromkeys(PARTS, JSON))))
def test_any_kubeconfig_is_taken_or_refused(config: Any) -> None:
    code, log = started(["--policy-config-file=/p", "--kubeconfig=/k"], files={"/k": json.dumps(config)})
    assert code == 1
    assert "internal error" not in log


QUANTITIES = ("1e3", "100m", "1Ei", "-5", "", "x", None, 5, 1.5, [], {"a": 1}, "9" * 40)
ODD = st.sampled_from(QUANTITIES)
RESOURCES = st.one_of(st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "x.y/z"]), ODD), st.none(), st.just([]))


def odd(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.fixed_dictionaries({}, optional=parts), st.none(), st.just("odd"), st.just([]))


CONTAINERS = st.lists(odd(name=st.just("c"), resources=odd(requests=RESOURCES, limits=RESOURCES)), max_size=2)
NODE = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])}, optional={"labels": JSON})},
    optional={
        "spec": odd(taints=JSON, unschedulable=JSON),
        "status": odd(allocatable=RESOURCES, capacity=RESOURCES, conditions=JSON),
    },
)
POD = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("p")}, optional=dict.fromkeys(("annotations", "ownerReferences"), JSON))},
    optional={
        "spec": odd(nodeName=st.just("a"), containers=CONTAINERS, volumes=JSON, priority=JSON, overhead=RESOURCES, affinity=JSON),
        "status": odd(phase=JSON, startTime=JSON, qosClass=JSON),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.lists(NODE, min_size=2, max_size=3), st.lists(POD, max_size=3))
def test_objects_of_any_shape_are_taken_as_far_as_they_go(api: FakeApi, nodes: list[Any], pods: list[Any]) -> None:
    api.objects["/api/v1/nodes"] = {str(n): node for n, node in enumerate(nodes)}
    api.objects["/api/v1/pods"] = {str(n): pod for n, pod in enumerate(pods)}
    code, log = started(["--policy-config-file=/p", "--v=4"], kubeconfig=api.kubeconfig())
    assert "internal error" not in log
    assert code == 0


# ---------------------------------------------------------------- as a process of its own


def executed(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MODULE, *args],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_as_a_process_it_logs_to_stderr(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "policy").write_text(POLICY)
    (tmp_path / "kubeconfig").write_text(json.dumps(api.kubeconfig()))
    done = executed(f"--policy-config-file={tmp_path}/policy", f"--kubeconfig={tmp_path}/kubeconfig", "--v=1")
    assert (done.returncode, done.stdout) == (0, "")
    assert klog.report(done.stderr).total_evicted == 0


def test_sigterm_ends_a_waiting_process_without_error(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "policy").write_text(POLICY)
    (tmp_path / "kubeconfig").write_text(json.dumps(api.kubeconfig()))
    words = [f"--policy-config-file={tmp_path}/policy", f"--kubeconfig={tmp_path}/kubeconfig", "--v=1"]
    process = subprocess.Popen([*MODULE, *words, "--descheduling-interval=1h"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Number of evictions" in line:
            break
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=10)
    assert (process.returncode, rest) == (0, "")


def test_it_starts_fast_and_without_the_big_libraries() -> None:
    script = "import sys, fixtures.engine.reference.process as p; p.main(['--v=0']); print(*sorted(sys.modules))"
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    assert time.monotonic() - begin < 2
    modules = set(done.stdout.split())
    assert not {"pytest", "_pytest", "kubernetes", "asyncio", "uvicorn", "requests", "cryptography"} & modules
    assert not [
        m for m in modules if m.startswith(("fixtures.embedded", "fixtures.cluster", "fixtures.scenario", "fixtures.report"))
    ]


def test_version_and_parity_are_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("Descheduler version {Major:0 Minor:36 GitVersion:v0.36.0 ")
    assert main(["parity", str(tmp_path)]) == 2
    assert "no *.yaml files there" in capsys.readouterr().err
    assert main(["parity"]) == 2
    trace = ROOT / "tests" / "golden" / "exit-single-node.yaml"
    (tmp_path / trace.name).write_bytes(trace.read_bytes())
    assert main(["parity", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"] is True
