"""Logs that are cut off, mixed with foreign lines, enormous or plain noise."""

import json
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.engine import klog
from fixtures.engine.line import Line, Ref

KlogText = Callable[[Iterable[str]], str]
END = 'I descheduler.go "Number of evictions/requests" totalEvicted=12 evictionRequests=34'


def test_a_last_line_that_is_cut_off_is_never_trusted(klog_text: KlogText) -> None:
    whole = klog_text([END])
    for length in range(1, len(whole)):
        found = klog.report(whole[:length])
        assert found.total_evicted is None
        assert found.unparsed in ([whole[:length]], [])
    assert klog.report(whole).total_evicted == 12


def test_a_complete_json_object_needs_no_line_break() -> None:
    line = '{"ts":1,"caller":"a/descheduler.go:1","msg":"Number of evictions/requests","v":1,"totalEvicted":1,"evictionRequests":2}'
    assert klog.report(line).total_evicted == 1
    assert klog.report(line[:-1]).unparsed == [line[:-1]]


def test_a_value_of_several_lines_is_one_entry(klog_text: KlogText) -> None:
    text = (
        'E0102 15:04:05.000000       1 evictions.go:1] "Error evicting pod" err=<\n\tfirst "line"\n\t\n\t > third\n'
        ' > pod="ns/p" reason=""\n'
    )
    (entry,) = klog.parse(text)
    assert entry.fields == {"err": 'first "line"\n\n > third', "pod": "ns/p", "reason": ""}
    assert entry.text == text.rstrip("\n")
    (step,) = klog.report(text).steps
    assert step.error == entry.fields["err"]


def test_two_values_of_several_lines_in_one_entry() -> None:
    text = 'E0102 15:04:05.000000       1 a.go:1] "m" a=<\n\t1\n\t2\n > b=<\n\t3\n\t4\n > c=5\n'
    (entry,) = klog.parse(text)
    assert entry.fields == {"a": "1\n2", "b": "3\n4", "c": 5}


def test_a_block_that_another_line_breaks_into_is_kept_as_not_understood(klog_text: KlogText) -> None:
    head = 'E0102 15:04:05.000000       1 evictions.go:1] "Error evicting pod" err=<\n\tfirst'
    found = klog.report(f"{head}\n{klog_text([END])}")
    assert found.unparsed == [head]
    assert found.total_evicted == 12


def test_foreign_lines_are_kept_and_do_not_disturb(klog_text: KlogText) -> None:
    foreign = ["}{", "goroutine 1 [running]:", "\tmain.go:12", " > ", "{not json", '{"json": "of somebody else"}', "[1, 2]", '"']
    text = "\n".join(foreign) + "\n" + klog_text([END]) + "\n".join(foreign) + "\n"
    found = klog.report(text)
    assert found.total_evicted == 12
    assert found.unparsed == foreign * 2
    assert found.log == text


def test_carriage_returns_at_line_ends_do_not_matter(klog_text: KlogText) -> None:
    assert klog.report(klog_text([END]).replace("\n", "\r\n")).eviction_requests == 34


def test_megabytes_are_read_in_linear_time(klog_text: KlogText) -> None:
    noise = 'I reflector.go "Listing and watching" type="*v1.Pod" reflector="k8s.io/client-go/tools/cache/reflector.go:343"'
    foreign = "x" * 300 + '{"a=<\\"' + "\n"

    def seconds(count: int) -> float:
        text = (foreign + klog_text([noise])) * count + klog_text([END])
        begin = time.process_time()
        found = klog.report(text)
        assert (found.total_evicted, len(found.unparsed)) == (12, count)
        return time.process_time() - begin

    small, large = seconds(2_000), seconds(16_000)
    assert large < 8 * small * 3 + 0.5


@pytest.mark.parametrize(
    "evil",
    [
        "a=" * 200_000,
        '"' + "\\" * 200_001,
        '"m" k=' + "[" * 200_000,
        '"m" k=' + "9" * 200_000,
        '"m" k="' + "\\x41" * 100_000,
        '"m" ' + "k" * 200_000,
        '"m" k=<' + " >" * 100_000,
        '"m"' + " k=1" * 100_000,
    ],
)
def test_no_line_takes_long(evil: str) -> None:
    begin = time.process_time()
    klog.report(f"I0102 15:04:05.000000       1 a.go:1] {evil}\n")
    assert time.process_time() - begin < 1.5


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = klog.reports(text)
    assert sum(len(r.log) for r in found) >= len(text.replace("\n", "").strip())


@given(st.text(alphabet='{}[]<>="\\ \tabx:1,\n'))
def test_any_fields_are_read(text: str) -> None:
    klog.report(f'I0102 15:04:05.000000       1 a.go:1] "Evicted pod" {text}\n')
    klog.report(f'{{"ts":1,"msg":"Evicted pod",{text}}}\n')


VALUES = st.one_of(st.text(), st.integers(-(2**63), 2**64 - 1), st.booleans())


@given(
    st.text(min_size=1).filter(str.strip),
    st.dictionaries(st.from_regex(r"[a-zA-Z][a-zA-Z ./-]{0,20}[a-z]", fullmatch=True), VALUES, max_size=5),
)
def test_what_is_rendered_is_read_back(message: str, fields: dict[str, object]) -> None:
    line = Line("I", 0, "a.go", message, list(fields.items()))
    (entry,) = klog.parse(klog.render(line, now=1.8e9, pid=1))
    assert (entry.level, entry.file, entry.message, entry.quoted, entry.whole) == ("I", "a.go", message, True, True)
    for key, value in fields.items():
        read = entry.fields[key]
        assert read == value or (isinstance(value, str) and "\n" in value and read == value.removesuffix("\n"))


def test_json_rendering_reads_back_with_context_first() -> None:
    fields = [("plugin", "LowNodeUtilization"), ("pod", Ref("p", "ns")), ("node", Ref("n")), ("usage", {"cpu": 1.0, "a": 2.5})]
    text = klog.render(Line("I", 2, "nodeutilization.go", "m", fields), now=1.8e9, pid=1, format="json")
    assert list(json.loads(text)) == ["ts", "caller", "msg", "plugin", "v", "pod", "node", "usage"]
    (entry,) = klog.parse(text)
    assert entry.fields == {"plugin": "LowNodeUtilization", "pod": "ns/p", "node": "n", "usage": {"a": 2.5, "cpu": 1}}


def test_json_rendering_of_an_error_has_no_verbosity_and_err_last() -> None:
    line = Line("E", 0, "run.go", "command failed", [("err", "why <>"), ("pod", Ref("p", "ns"))])
    text = klog.render(line, now=0.5, pid=1, format="json")
    assert text == '{"ts":500,"caller":"cli/run.go:1","msg":"command failed","pod":{"name":"p","namespace":"ns"},"err":"why <>"}\n'


def test_json_rendering_loses_typed_keys_as_the_original_does() -> None:
    fields = [("plugin", "LowNodeUtilization"), ("ExtensionPoint", "Balance"), ("cpu", "30.00%")]
    line = Line("I", 1, "lownodeutilization.go", "Criteria for a node under utilization", fields, typed_keys=True)
    complaint, kept = map(json.loads, klog.render(line, now=0, pid=1, format="json").splitlines())
    assert complaint["msg"].startswith("non-string key argument")
    assert complaint["invalid key"] == "cpu"
    assert "cpu" not in kept
    assert kept["plugin"] == "LowNodeUtilization"


def test_text_rendering_is_the_original_form() -> None:
    line = Line("I", 0, "a.go", "m", [("pod", Ref("p", "ns")), ("extension point", "x"), ("usage", {"b": "2", "a": 1.5}), ("n", 3)])
    assert klog.render(line, now=1796114886.42474, pid=42) == (
        'I1201 08:48:06.424740      42 a.go:1] "m" pod="ns/p" extension point="x" usage={"a":1.5,"b":"2"} n=3\n'
    )
    bare = Line("I", 3, "descheduler.go", "Resetting pod evictor counters", quoted=False)
    assert klog.render(bare, now=1796114886.42474, pid=1).endswith("descheduler.go:1] Resetting pod evictor counters\n")
