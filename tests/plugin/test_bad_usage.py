"""Every bad usage: one message on stderr, exit status 4, nothing created, no traceback."""

from __future__ import annotations

import os

import pytest

BAD = {
    "unknown cluster": (
        ["--cluster=embeded"],
        "--cluster: 'embeded' is not known (did you mean embedded?); known: embedded, live, kind, files",
    ),
    "files without path": (["--cluster=files"], "--cluster=files: needs --manifests PATH"),
    "files cannot be changed": (
        ["--cluster=files", "--manifests=.", "--allow=disruptive"],
        "--allow=disruptive: files can only be read; leave it out with --cluster=files",
    ),
    "path without files": (["--manifests=."], "--manifests: not with --cluster=embedded; only with --cluster=files"),
    "no such path": (["--cluster=files", "--manifests=nowhere"], "--manifests: nowhere: no such file or directory"),
    "nothing after embedded": (["--embedded="], "--embedded: is empty; leave the option out, or give it a value"),
    "nothing after defect": (["--defect="], "--defect: is empty; leave the option out, or give it a value"),
    "no engine where one is needed": (["--engine=none"], "--engine=none: only with --cluster=files (the cluster is embedded)"),
    "a folder nobody can make": (["--report-dir=/proc/nowhere"], "--report-dir: /proc/nowhere cannot be made"),
    "unknown engine": (["--engine=refrence"], "--engine: 'refrence' is not known (did you mean reference?)"),
    "binary without a file": (["--engine=binary"], "--engine=binary: needs --engine-binary FILE"),
    "file without binary": (["--engine-binary=pytest.ini"], "not executable"),
    "no such binary": (["--engine=binary", "--engine-binary=none"], "--engine-binary: none: no such file"),
    "waiting for what is not scheduled": (["--engine-wait"], "--engine-wait: needs --engine=installed (the engine is reference)"),
    "unknown impact": (["--allow=disruptve"], "--allow: 'disruptve' is not known (did you mean disruptive?)"),
    "unknown scope": (["--require=live"], "--require: 'live' is not known"),
    "no id": (["--check=POL2"], "--check: 'POL2' is no check id or area"),
    "empty check": (["--check=,"], "--check: names nothing"),
    "unknown id": (["--check=POL-22"], "--check: no check 'POL-22' (did you mean POL-2?); known: POL-2, REN-2, INT-1"),
    "unknown area": (["--check=POX"], "--check: no check 'POX' (did you mean POL?); known: POL, REN, INT"),
    "unknown embedded key": (["--embedded=kubvirt=1.8"], "--embedded: 'kubvirt' is no key (did you mean kubevirt?)"),
    "embedded no pair": (["--embedded=kubevirt"], "--embedded: 'kubevirt' is not KEY=VALUE"),
    "unknown version": (["--embedded=kubevirt=0.1.0"], "--embedded: no facts about KubeVirt '0.1.0'; known: "),
    "version no version": (["--embedded=kubevirt=new"], "--embedded: no facts about KubeVirt 'new'"),
    "unknown platform": (["--embedded=platform=acq"], "--embedded platform: 'acq' is not known (did you mean acp?)"),
    "given twice": (["--embedded=hco=1.18.1", "--embedded=hco=1.18.0"], "--embedded: hco is given twice"),
    "emulate": (["--emulate-version=0.99"], "--emulate-version: no facts about descheduler '0.99'"),
    "record": (["--record=apc=4.4"], "--record: 'apc' is no key (did you mean acp?)"),
    "record value": (["--record=acp=4 4"], "--record: '4 4' is no version of acp"),
    "scale word": (["--timeout-scale=slow"], "--timeout-scale: 'slow' is not a number above 0"),
    "scale zero": (["--timeout-scale=0"], "--timeout-scale: '0' is not a number above 0"),
    "scale nan": (["--timeout-scale=nan"], "--timeout-scale: 'nan' is not a number above 0"),
    "scale inf": (["--timeout-scale=inf"], "--timeout-scale: 'inf' is not a number above 0"),
    "seed": (["--seed=-1"], "--seed: '-1' is not a whole number"),
    "namespace": (["--plugin-namespace=A_b"], "--plugin-namespace: 'A_b' is no namespace name"),
    "no policy": (["--policy=none.yaml"], "--policy: none.yaml: no such file"),
    "policy is a directory": (["--policy=conformance"], "--policy: conformance: not a file"),
    "no kubeconfig": (["--cluster=live", "--cluster-kubeconfig=none"], "--cluster-kubeconfig: none: no such file"),
    "context without live": (["--context=prod"], "--context: not with --cluster=embedded; only with --cluster=live"),
    "defect on live": (["--cluster=live", "--defect=x"], "--defect: not with --cluster=live; only with --cluster=embedded"),
    "hold on live": (["--cluster=live", "--hold"], "--hold: not with --cluster=live"),
    "hold a plan": (["--plan", "--hold"], "--hold: with --plan nothing is started"),
    "report dir is a file": (["--report-dir=pytest.ini"], "--report-dir: pytest.ini: "),
    "no config": (["--config=none.yaml"], "--config: none.yaml: no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_is_one_message_and_exit_4(project, name):
    args, message = BAD[name]
    result = project.cluster(opening="pass").checks().run(*args)
    assert result.ret == 4
    err = result.stderr.str()
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err + result.stdout.str()
    assert project.left <= {"opened", "closed"}
    assert "results" not in project.left


POLICIES = {
    "not yaml": (b"profiles: [a\nb: c", "not YAML: "),
    "tab": (b"a:\n\t- b", "in line 2, column 1"),
    "a text": (b"hello", "holds a str where a mapping (key: value) is wanted"),
    "a list": (b"- a", "holds a list where"),
    "empty": (b"", "holds nothing where"),
    "two documents": (b"a: 1\n---\nb: 2\n", "not YAML: "),
    "binary": (b"\xff\xfe\x00", "not UTF-8 text (byte 0)"),
    "python tag": (b"!!python/object/apply:os.system [id]", "not YAML: "),
    "large": (b"a: " + b"x" * (1 << 20), "larger than 1 MiB"),
    "deep": (b"a: " + b"[" * 3000, "not YAML: it is nested too deeply to be read"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_is_no_policy_is_refused(project, name):
    raw, message = POLICIES[name]
    (project.path / "policy.yaml").write_bytes(raw)
    result = project.checks().run("--policy=policy.yaml")
    assert result.ret == 4
    assert f"--policy: policy.yaml: {message}" in result.stderr.str() or message in result.stderr.str()
    assert project.left == {"policy.yaml"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_policy_is_refused(project):
    (project.path / "policy.yaml").write_text("a: 1")
    (project.path / "policy.yaml").chmod(0)
    result = project.checks().run("--policy=policy.yaml")
    assert result.ret == 4
    assert "--policy: policy.yaml: not readable" in result.stderr.str()


CONFIGS = {
    "unknown option": ("clutser: live", "'clutser' is no option (did you mean cluster?)"),
    "unknown value": ("cluster: alive", "--cluster: 'alive' is not known (did you mean live?)"),
    "list for one value": ("engine: [a, b]", "engine: ['a', 'b'] where a text or number is wanted"),
    "text for a flag": ("plan: maybe", "plan: 'maybe' where true or false is wanted"),
    "flag for a text": ("engine: true", "engine: True where a text or number is wanted"),
    "config in config": ("config: x", "'config' is no option"),
    "not yaml": ("a: [", "not YAML"),
    "number as key": ("7: x", "'7' is no option"),
    "misspelt quarantine": ("quarantne: []", "'quarantne' is no option (did you mean quarantine?)"),
    "quarantine as mapping": (
        "quarantine: {POL-2: x}",
        "quarantine is a mapping where a list is wanted; each entry: wanted {check",
    ),
    "entry as text": ("quarantine: [POL-2]", "quarantine[0] is a text; wanted {check: REN-2, ticket"),
    "unknown key of an entry": (
        "quarantine: [{check: POL-2, tickt: T-1, until: 2030-01-01}]",
        "quarantine[0]: 'tickt' is not known (did you mean ticket?)",
    ),
    "no ticket": ("quarantine: [{check: POL-2, until: 2030-01-01}]", "quarantine[0]: ticket is missing; wanted"),
    "empty ticket": ("quarantine: [{check: POL-2, ticket: '', until: 2030-01-01}]", "quarantine[0]: ticket is missing"),
    "ticket of two lines": (
        'quarantine: [{check: POL-2, ticket: "a\\nb", until: 2030-01-01}]',
        "quarantine[0]: ticket is 'a\\nb'; wanted a name or an address of at most 200 characters on one line",
    ),
    "no end": ("quarantine: [{check: POL-2, ticket: T-1}]", "quarantine[0]: until is missing; wanted"),
    "no date": (
        "quarantine: [{check: POL-2, ticket: T-1, until: soon}]",
        "quarantine[0]: until is 'soon'; wanted the last day as YYYY-MM-DD",
    ),
    "no such day": ("quarantine: [{check: POL-2, ticket: T-1, until: '2030-02-30'}]", "until is '2030-02-30'; wanted the last day"),
    "quarantined area": (
        "quarantine: [{check: POL, ticket: T-1, until: 2030-01-01}]",
        "check is 'POL'; wanted the id of one check",
    ),
    "quarantined twice": (
        "quarantine: [{check: POL-2, ticket: T-1, until: 2030-01-01}, {check: pol-2, ticket: T-2, until: 2030-01-01}]",
        "quarantine names POL-2 more than once",
    ),
    "quarantined check that is none": (
        "quarantine: [{check: POL-22, ticket: T-1, until: 2030-01-01}]",
        "--config: c.yaml: quarantine: no check 'POL-22' (did you mean POL-2?); known: POL-2, REN-2, INT-1",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_file_is_as_strict_as_the_command_line(project, name):
    text, message = CONFIGS[name]
    (project.path / "c.yaml").write_text(text)
    result = project.checks().run("--config=c.yaml")
    assert result.ret == 4
    assert message in result.stderr.str()
    assert project.left == {"c.yaml"}


def test_a_config_file_gives_options_and_the_command_line_wins(project):
    (project.path / "c.yaml").write_text(
        "check: [POL, REN-2]\nallow: namespaced\nembedded: {kubevirt: 1.7.0}\n"
        "record: {acp: '4.4'}\nseed: 7\nplan: false\nreport-dir: out\n"
    )
    assert project.checks().run("--config=c.yaml", "--allow=read-only", "--report-dir=results").ret == 5
    assert project.report["options"] == {
        "check": "POL,REN-2",
        "allow": "read-only",
        "embedded": "kubevirt=1.7.0",
        "record": "acp=4.4",
        "seed": "7",
        "report-dir": "results",
        "config": "c.yaml",
    }


def test_an_unreachable_cluster_is_bad_input(project):
    project.cluster(source="live", opening="raise Unreachable('https://10.0.0.1: no answer within 9 s')").checks()
    result = project.run("--cluster=live")
    assert result.ret == 4
    assert result.stderr.str().strip() == "ERROR: --cluster=live: https://10.0.0.1: no answer within 9 s"
    assert project.left == set()


def test_bad_input_found_while_a_check_prepares_ends_the_run_with_4(project):
    text = """
@pytest.fixture
def engine():
    from fixtures.options import UsageError
    raise UsageError("--engine-binary: ./x: not a program")

@check("BGE-1", impact=NS, source="s")
def test_x(engine):
    "X."
"""
    result = project.checks(text).run()
    assert result.ret == 4
    assert "ERROR: --engine-binary: ./x: not a program" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    assert (project.path / "closed").exists()


def test_xdist_is_refused_for_checks_only(project, monkeypatch):
    project.checks()
    result = project.run("-p", "xdist", "-n", "2")
    assert result.ret == 4
    assert "-n: checks share one cluster" in result.stderr.str()
