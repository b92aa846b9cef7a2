"""Hostile and broken input: one message a file with path, document and what was found; the rest is read; never a traceback."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import string
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.cluster.files import FilesCluster, open_files, sources
from fixtures.cluster.files.documents import documents
from fixtures.cluster.files.notes import Notes
from fixtures.cluster.files.sources import harmless
from fixtures.kube.resources import CONFIGMAPS, PODS
from fixtures.options import Settings, UsageError
from tests.cluster.files.on_paper import DATA, judged

GOOD = DATA / "rendered" / "cronjob" / "good-default-policy.yaml"
CONFIGMAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: a}\n"


def opened(path: Path) -> FilesCluster:
    return open_files(Settings(cluster="files", engine="none", manifests=(path,)))


def values(text: str) -> tuple[list[Any], list[str]]:
    notes = Notes()
    return [d.value for d in documents("f.yaml", text.encode(), notes)], notes.texts


# ---- documents


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "document 1 (line 1): no YAML"),
        ("kind: x\n---\n\n  a: b\n c: d\n", "document 2 (line 5): no YAML"),
        ("a: {{ .Values.x }}", "an unrendered template"),
        ("!!python/object/apply:os.system ['true']", "no YAML: could not determine a constructor"),
        ("a: !!binary aGk=", "holds a bytes"),
        ("? [1, 2]\n: 3", "no YAML: found unhashable key"),
        ("a: &a [*a]", "nested more than 200 deep"),
        ("[" * 5000, "no YAML: exceeded maximum nesting depth"),
        ('{"a":' * 5000, "f.yaml"),
        ("\n".join([f"{'  ' * i}a:" for i in range(300)]), "nested more than 200 deep"),
        ("a: \x07", "no YAML"),
        ("\x00\x01binary", "binary, neither YAML nor JSON"),
        ("", "empty"),
        ("\n \n", "empty"),
    ],
)
def test_a_broken_document_is_told_by_place(text: str, complaint: str) -> None:
    found, told = values(text)
    assert found == [] or "document 2" in complaint
    assert len(told) == 1
    assert complaint in told[0]
    assert told[0].startswith("f.yaml: ")
    assert len(told[0]) < 400
    assert told[0].isprintable()


def test_bytes_that_are_no_text_are_told() -> None:
    notes = Notes()
    assert list(documents("f.yaml", b"a: \xff\xfe\xfd", notes)) == []
    assert notes.texts == ["f.yaml: not UTF-8 text (byte 3)"]


@pytest.mark.parametrize("levels", [8, 30])
def test_aliases_do_not_unfold_without_end(levels: int) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    started = time.monotonic()
    found, told = values("\n".join(lines))
    assert found == []
    assert "aliases (*) unfold to too many values" in told[0]
    assert time.monotonic() - started < 5


def test_merge_keys_do_not_unfold_without_end() -> None:
    lines = ["a0: &a0 {x: 1, z: 2}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}], k{i}: 1}}" for i in range(1, 25)]
    started = time.monotonic()
    found, told = values("\n".join(lines))  # the library of today unfolds them without growth, an older one is stopped
    assert (len(found[0]) == 25 and not told) if found else "merge keys (<<) unfold to too many values" in told[0]
    assert time.monotonic() - started < 5


def test_harmless_aliases_and_merges_are_resolved() -> None:
    found, told = values("base: &b {x: 1}\na: *b\nc: {<<: *b, z: 2}\n")
    assert found == [{"base": {"x": 1}, "a": {"x": 1}, "c": {"x": 1, "z": 2}}]
    assert told == []


def test_scalars_are_read_as_kubernetes_reads_them() -> None:
    text = """
    {time: 2026-12-01T08:47:10Z, day: 2026-12-01, sixty: 12:30:45, flag: off, on: yes, hex: 0x1F, octal: 017, exp: 1e3, dot: 1.5,
     text: "yes", none: , tilde: ~, nan: .nan, eq: =, 5: five, under: 1_000}
    """
    found, told = values(text)
    assert told == []
    assert found == [
        {
            "time": "2026-12-01T08:47:10Z",
            "day": "2026-12-01",
            "sixty": "12:30:45",
            "flag": False,
            "true": True,
            "hex": 31,
            "octal": 15,
            "exp": 1000.0,
            "dot": 1.5,
            "text": "yes",
            "none": None,
            "tilde": None,
            "nan": "nan",
            "eq": "=",
            "5": "five",
            "under": 1000,
        }
    ]


def test_a_stream_of_json_values_goes_on_behind_a_broken_one() -> None:
    found, told = values('{"a": 1}\n{"b": }\n{"c": 3}\n')
    assert found == [{"a": 1}, {"c": 3}]
    assert "document 2 (line 2): no JSON" in told[0]


def test_flow_yaml_that_looks_like_json_is_still_read() -> None:
    assert values("{a: 1}") == ([{"a": 1}], [])


# ---- objects


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("just text", "is 'just text', wanted a Kubernetes object"),
        ("kind: ConfigMap\nmetadata: {name: a}", "apiVersion is missing"),
        ("apiVersion: v1\nkind: 7\nmetadata: {name: a}", "kind is 7"),
        ("apiVersion: v1\nkind: ConfigMap", "ConfigMap: metadata is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [a]}", "metadata.name is a list"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: 3}", "metadata.namespace is 3"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: x}", "metadata.labels is 'x', wanted a mapping"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: 1}}", "metadata.labels['x'] is 1, wanted a text"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: 7", "ConfigMap a: json: cannot unmarshal number"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {}}", "Pod a: json: cannot unmarshal object"),
        (
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: x}",
            "CronJob a: json: cannot unmarshal string",
        ),
        ("apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: a}\nspec: []", "KubeVirt a: spec is a list"),
        ("apiVersion: v1\nkind: Status\nmessage: x", "Status is no object of a cluster; ignored"),
        ("apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy", "a DeschedulerPolicy by itself"),
        ("- 1\n- 2", "item 1: is 1, wanted a Kubernetes object"),
        ("gitVersion: 7", "a version without a server's gitVersion"),
    ],
)
def test_what_is_no_object_is_told_and_the_rest_is_kept(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(f"{CONFIGMAP % 'first'}---\n{text}\n---\n{CONFIGMAP % 'last'}")
    found = opened(tmp_path)
    assert [o["metadata"]["name"] for o in found.list(CONFIGMAPS)] == ["first", "last"]
    assert complaint in found.remarks[0]
    assert found.remarks[0].startswith("f.yaml: document 2 (line 4): ")


def test_unknown_kinds_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(f"{CONFIGMAP % 'a'}---\napiVersion: x.io/v9\nkind: Thing\nmetadata: {{name: t}}\nspec: 7\n")
    assert opened(tmp_path).remarks == []


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil\x1b[31m.yaml").write_text("a: [")
    (tmp_path / "good.yaml").write_text(CONFIGMAP % "a")
    assert all(r.isprintable() for r in opened(tmp_path).remarks)


def test_remarks_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(CONFIGMAP % "a" + "---\nx\n" * 1000)
    remarks = opened(tmp_path).remarks
    assert len(remarks) == 201
    assert remarks[-1] == "and 800 more"


# ---- files and archives


def test_nothing_usable_is_one_usage_error(tmp_path: Path) -> None:
    for name, content in (("empty.yaml", b""), ("bin.yaml", os.urandom(4000) + b"\0"), ("text.yaml", b"hello")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=f"no Kubernetes object in 1 manifests read: {name}: "):
            opened(tmp_path / name)
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="no Kubernetes object in 0 manifests read; wanted"):
        opened(tmp_path / "none")


def test_an_empty_archive_is_called_that(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "none.tar.gz", "w:gz"):
        pass
    with pytest.raises(UsageError, match=r"in 0 manifests read: none.tar.gz: an archive without any member"):
        opened(tmp_path / "none.tar.gz")


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"])
def test_other_archives_are_named(head: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(head + b"\0" * 100)
    with pytest.raises(UsageError, match="unpack it and give the directory"):
        opened(tmp_path / "a.bin")


@pytest.mark.parametrize("cut", [10, 200, 900])
def test_a_truncated_archive_gives_what_was_readable(cut: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(GOOD, arcname="good.yaml")
    (tmp_path / "cut.tar.gz").write_bytes(whole.read_bytes()[:cut])
    with pytest.raises(UsageError):
        opened(tmp_path / "cut.tar.gz")


def test_links_and_special_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.yaml").write_text(CONFIGMAP % "secret")
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "good.yaml").write_text(CONFIGMAP % "good")
    (folder / "link.yaml").symlink_to(tmp_path / "outside" / "secret.yaml")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.yaml")
    found = opened(folder)
    assert [o["metadata"]["name"] for o in found.list(CONFIGMAPS)] == ["good"]
    assert len(found.remarks) == 4


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        archive.add(GOOD, arcname="good.yaml")
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "name", ["../evil.yaml", "/etc/evil.yaml", "a/../../evil.yaml", "..\\evil.yaml", "C:\\evil.yaml", "a/..", "\\evil.yaml"]
)
def test_a_member_that_climbs_is_refused(name: str, tmp_path: Path) -> None:
    assert harmless(name) is None
    found = opened(tar_of(tmp_path / "a.tgz", (member(name), (CONFIGMAP % "evil").encode())))
    assert "evil" not in [o["metadata"]["name"] for o in found.list(CONFIGMAPS)]
    assert "would lie outside" in found.remarks[0]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_member_that_is_no_file_is_refused(kind: bytes, tmp_path: Path) -> None:
    found = opened(tar_of(tmp_path / "a.tgz", (member("x.yaml", kind, "/etc/passwd"), b"")))
    assert len(found.remarks) == 1
    assert "x.yaml: " in found.remarks[0]


def test_an_archive_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST_ARCHIVE", 1 << 20)
    bomb = member("zeros.log")
    path = tmp_path / "bomb.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(GOOD, arcname="good.yaml")
        bomb.size = 8 << 20
        archive.addfile(bomb, io.BytesIO(b"\0" * bomb.size))
        archive.add(GOOD, arcname="later.yaml")
    found = opened(path)
    assert found.count == 1
    assert "unpacks to more than 1 MiB" in found.remarks[0]


def test_a_header_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    info = member("x", tarfile.XHDTYPE)
    info.size = 3 << 20
    raw = info.tobuf(tarfile.USTAR_FORMAT) + b"\0" * (3 << 20)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(raw))
    with pytest.raises(UsageError, match="a header of 3145728 bytes"):
        opened(tmp_path / "a.tar.gz")


def test_large_files_and_totals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.files.reading.LARGEST_FILE", 2000)
    monkeypatch.setattr("fixtures.cluster.files.reading.LARGEST_TOTAL", 3000)
    for i in range(4):
        (tmp_path / f"{i}.yaml").write_text(CONFIGMAP % f"c{i}" + "#" * (3000 if i == 0 else 1000))
    found = opened(tmp_path)
    assert found.remarks[0].startswith("0.yaml: larger than")
    assert any(r.startswith("3.yaml: not read") for r in found.remarks)


def test_too_many_objects_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.files.reading.MOST_OBJECTS", 3)
    monkeypatch.setattr(sources, "MOST_FILES", 2)
    (tmp_path / "a.yaml").write_text("---\n".join(CONFIGMAP % f"c{i}" for i in range(5)))
    for name in "bcd":
        (tmp_path / f"{name}.yaml").write_text(CONFIGMAP % name)
    found = opened(tmp_path)
    assert found.records.count == 3
    assert any("more than 3 objects" in r for r in found.remarks)
    assert any("more than 2 files" in r for r in found.remarks)


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(CONFIGMAP % "a")
    (tmp_path / "b.yaml").write_text(CONFIGMAP % "b")
    reading = sources._read_file

    def refused(path: Path, limit: int) -> bytes:
        if path.name == "b.yaml":
            raise PermissionError(13, "Permission denied")
        return reading(path, limit)

    monkeypatch.setattr(sources, "_read_file", refused)
    assert opened(tmp_path).remarks == ["b.yaml: cannot be read: Permission denied"]


# ---- fuzz: anything at all gives records, remarks or a usage error; every check then gives an outcome

FUZZ = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
_KEYS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "items",
        "name",
        "namespace",
        "labels",
        "data",
        "containers",
        "args",
        "template",
        "<<",
        "1",
    ]
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=8) | st.just("v1")
TREES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5), max_leaves=25)


@FUZZ
@given(data=st.binary(max_size=300) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_documents_or_notes(data: bytes) -> None:
    notes = Notes()
    for document in documents("f", data, notes):
        json.dumps(document.value)
    assert all(t.isprintable() for t in notes.texts)


@FUZZ
@given(tree=TREES)
def test_any_tree_is_an_object_or_noted(tree: Any, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(CONFIGMAP % "first" + "---\n" + yaml.safe_dump(tree, allow_unicode=False) + "\n---\n" + CONFIGMAP % "last")
    names = [o["metadata"]["name"] for o in opened(path).list(CONFIGMAPS)]
    assert {"first", "last"} <= set(names)


@pytest.mark.slow
@settings(FUZZ, max_examples=40)
@given(tree=TREES, at=st.integers(0, 10_000))
def test_any_value_anywhere_in_a_good_manifest_breaks_no_check(tree: Any, at: int, tmp_path: Path) -> None:
    documents_ = list(yaml.safe_load_all(GOOD.read_text()))
    holders = [(d, k) for document in documents_ for d, k in _places(document)]
    holder, key = holders[at % len(holders)]
    holder[key] = tree
    path = tmp_path / "f.yaml"
    path.write_text(yaml.safe_dump_all(documents_) + "---\n" + CONFIGMAP % "kept")
    judged(path)


@pytest.mark.slow
@settings(FUZZ, max_examples=12)
@given(tree=TREES, at=st.integers(0, 1_000_000))
def test_any_value_anywhere_in_a_dump_breaks_no_check(tree: Any, at: int, tmp_path: Path) -> None:
    paths = [p for p in _dump_files() if "events" not in p]
    name = paths[at % len(paths)]
    document = yaml.safe_load((DATA / "dump" / name).read_text())
    holders = list(_places(document))
    holder, key = holders[at % len(holders)]
    holder[key] = tree
    folder = tmp_path / "dump"
    if not folder.exists():
        shutil.copytree(DATA / "dump", folder, ignore=shutil.ignore_patterns("events.yaml", "*.log"))
    changed = folder / name
    before = changed.read_text()
    changed.write_text(yaml.safe_dump(document))
    try:
        judged(folder)
    finally:
        changed.write_text(before)


def _dump_files() -> list[str]:
    return sorted(str(p.relative_to(DATA / "dump")) for p in (DATA / "dump").rglob("*.yaml"))


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        found += [(value, key), *_places(part)]
    return found


def test_pods_of_a_large_cluster_are_read_in_time(tmp_path: Path) -> None:
    pod = yaml.safe_load((DATA / "dump/namespaces/filler/pods.yaml").read_text())["items"][0]
    items = [{**pod, "metadata": {**pod["metadata"], "name": f"p-{i}"}} for i in range(2000)]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, default=str))
    started = time.monotonic()
    assert len(opened(tmp_path).list(PODS)) == 2000
    assert time.monotonic() - started < 10
