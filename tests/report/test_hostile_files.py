"""Certificate files of strangers, to every command that reads them: a message a file, the rest still processed, nothing hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.launcher.__main__ import main
from fixtures.report.files import verify, write
from fixtures.report.reading import MAX_VALUES, load, load_any
from fixtures.report.wire import BadCertificate, to_yaml
from tests.report.samples import certificate, evidence_of

GOOD = to_yaml(certificate())
ACTING = '"\\e[31mred\\a\\u202E"'

#: What stands in the file, and what is said of it.
CONTENTS = {
    "one list of millions": ("a: [" + "x," * (MAX_VALUES + 1) + "]", f"not a certificate: more than {MAX_VALUES} values"),
    "deep": (GOOD.replace("scenario:\n", "scenario:\n  deep: " + "[" * 60 + "]" * 60 + "\n"), "nested more than 50 deep"),
    "an anchor that holds itself": ("&a [*a]", "an alias (*name)"),
    "a merge key": ("a: &a {x: 1}\nb:\n  <<: *a\n", "an alias (*name)"),
    "a python object": ('!!python/object/apply:os.system ["true"]', "could not determine a constructor for the tag"),
    "a set": (GOOD + "\nx: !!set {a}\n", "a value of YAML's type set"),
    "bytes": (GOOD + "\nx: !!binary YQ==\n", "a value of YAML's type bytes"),
    "a huge number": (GOOD + "\nx: 0x" + "f" * 5000, "a number with more than 15 digits"),
    "a number of thousands of digits": (GOOD + "\nx: " + "9" * 5000, "Exceeds the limit"),
    "a list as a key": (GOOD + "\n? [a]\n: x\n", "found unhashable key"),
    "two documents": (GOOD + "---\n" + GOOD, "but found another document"),
    "one check twice": (GOOD.replace("id: REN-2", "id: POL-2"), "checks[1].id: 'POL-2' where an id that occurs once is wanted"),
    "an id with markup": (GOOD.replace("id: REN-2", 'id: "<b>"'), "checks[1].id: '<b>' where an id such as POL-2 is wanted"),
    "an id with a raised number": (GOOD.replace("id: REN-2", "id: REN-²"), "where an id such as POL-2 is wanted"),
    "an id of thousands of digits": (GOOD.replace("id: REN-2", "id: REN-" + "9" * 5000), "… where an id such as POL-2 is wanted"),
    "an id that acts on a terminal": (GOOD.replace("id: REN-2", f"id: {ACTING}"), "where an id such as POL-2 is wanted"),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_hostile_content_is_one_printable_line(tmp_path, kind):
    text, says = CONTENTS[kind]
    path = tmp_path / "report.yaml"
    path.write_text(text)
    for read in (load, load_any):
        with pytest.raises(BadCertificate) as caught:
            read(path)
        said = str(caught.value)
        assert said.startswith(f"{path}: ")
        assert says in said
        assert said.isprintable()
        assert len(said) < 500


def special(folder: Path) -> dict[Path, str]:
    """Files that are none, and what is said of them."""
    found = {n: folder / n / "report.yaml" for n in ("pipe", "loop", "nowhere", "device")}
    for path in found.values():
        path.parent.mkdir(parents=True)
    os.mkfifo(found["pipe"])
    found["loop"].symlink_to(found["loop"].name)
    found["nowhere"].symlink_to("nowhere")
    found["device"].symlink_to("/dev/zero")
    says = ("neither a file nor a directory", "Too many levels of symbolic links", "No such file", "neither a file nor a directory")
    return dict(zip(found.values(), says, strict=True)) | {folder: "a directory"}


def test_what_is_no_file_is_told_and_nothing_waits_for_it(tmp_path, capsys):
    good = write(certificate(), evidence_of(certificate()), tmp_path / "good")
    files = special(tmp_path / "special")
    assert main(["verify", *map(str, files), str(good)]) == 4
    seen = capsys.readouterr()
    assert [line.startswith(f"{p}: {says}") for line, (p, says) in zip(seen.err.splitlines(), files.items(), strict=True)] == [
        True
    ] * 5
    assert seen.out == f"{good}: conformant (simulated)\n"
    for path, says in files.items():
        with pytest.raises(SystemExit) as ended:
            main(["compare", str(path), str(good)])
        assert ended.value.code == 4
        assert f"{path}: {says}" in capsys.readouterr().err
    assert main(["matrix", str(tmp_path), "-o", str(tmp_path / "m.json")]) == 0
    told = json.loads((tmp_path / "m.json").read_text())
    assert (len(told["rows"]), len(told["problems"])) == (1, 4)


def test_names_of_files_that_are_no_text_do_not_act_on_a_terminal(tmp_path, capsys):
    for name, text in ((b"\x1b[31m\nbad\xff<b>", "x"), (b"good\xff", GOOD)):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        folder.mkdir()
        (folder / "report.yaml").write_text(text)
    out = tmp_path / "m.html"
    assert main(["matrix", str(tmp_path), "-o", str(out), "-o", str(tmp_path / "m.md")]) == 0
    assert "good%FF/report.yaml" in out.read_text()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_texts_that_act_are_replaced_at_the_door(tmp_path):
    path = tmp_path / "report.yaml"
    path.write_text(GOOD.replace("engine: reference", f"engine: {ACTING}"))
    assert load(path).engine == "\ufffd[31mred\ufffd\ufffd"


def test_times_that_another_tool_wrote_without_quotes_stay_texts(tmp_path):
    path = tmp_path / "report.yaml"
    path.write_text("\ufeff" + GOOD.replace("takenAt: '2026-01-01T00:00:00Z'", "takenAt: 2026-01-01T00:00:00Z", 1))
    assert load(path).taken_at == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("/etc/passwd", "outside the certificate's directory"),
        ("../x", "outside the certificate's directory"),
        ("x" * 5000, "cannot be read: File name too long"),
        ("loop", "cannot be read: "),
        ("pipe", "cannot be read: neither a file nor a directory"),
        ("", "outside the certificate's directory"),
        ("folder", "cannot be read: a directory"),
        ("none", "missing"),
    ],
)
def test_evidence_of_a_stranger_is_not_followed_anywhere(tmp_path, file, says):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "report.yaml"
    path.write_text(GOOD.replace("file: evidence/POL-2-1-log.txt", f"file: '{file}'"))
    (problem,) = verify(path)
    assert says in problem
    assert len(problem) < 500


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(tmp_path):
    write(certificate(), {}, tmp_path)
    command = [sys.executable, "-m", "fixtures.launcher", "compare", str(tmp_path / "report.yaml"), str(tmp_path / "report.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
