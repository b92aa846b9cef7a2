"""The pages in a real browser: both colour schemes, no sideways scrolling on a phone, printable, nothing loaded, no script run."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from fixtures.checks import AREAS, Status
from fixtures.report.files import write
from fixtures.report.matrix.collect import Entry
from fixtures.report.matrix.model import join
from fixtures.report.matrix.render import html as html_of
from tests.report.chromium import Browser, browser
from tests.report.samples import certificate, evidence_of, hostile, row

pytestmark = pytest.mark.slow
PHONE = 360
MEASURE = """<body><iframe width="{width}" height="800" srcdoc="{page}"></iframe><pre id="out"></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const d = frame.contentDocument;
  const wide = [...d.querySelectorAll("body *")].filter(
    e => e.getBoundingClientRect().right > {width} + 1 && !e.closest(".scroll") && !e.closest("svg"));
  document.getElementById("out").textContent = "width=" + d.documentElement.scrollWidth + " wide=" + wide.length
    + " " + wide.slice(0, 3).map(e => e.tagName + "." + e.className).join()
    + " cut=" + [...d.querySelectorAll(".lead")].filter(
      e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1).length
    + " hidden=" + [...d.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1).length;
}};
</script></body>"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return browser(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module", params=["plain", "hostile", "matrix"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "matrix":
        out = tmp_path_factory.mktemp("matrix") / "matrix.html"
        pair = [certificate(row("POL-8", Status.FAILED), kubevirt="1.7.4"), certificate(row("POL-8"), kubevirt="1.8.4"), hostile()]
        out.write_text(html_of(join(Entry(out, c) for c in pair), ["a file"], [], out.parent), encoding="utf-8")
        return out
    found = hostile() if request.param == "hostile" else certificate(row("POL-8", Status.FAILED, "too " + "tight" * 40))
    folder = tmp_path_factory.mktemp("page")
    write(found, evidence_of(found), folder)
    return folder / "report.html"


@pytest.mark.parametrize("report", ["plain"], indirect=True)  # one style sheet for all pages
def test_the_page_follows_the_colour_scheme(chromium: Browser, report: Path) -> None:
    assert min(chromium.corner(report, dark=False)) > 240
    assert max(chromium.corner(report, dark=True)) < 40


def measured(chromium: Browser, page: str, folder: Path, width: int) -> dict[str, int]:
    wrapper = folder / "wrapper.html"
    text = re.sub(r"<meta http-equiv[^>]*>", "", page)
    wrapper.write_text(MEASURE.format(width=width, page=html.escape(text)), encoding="utf-8")
    found = dict(re.findall(r"(width|wide|cut|hidden)=(\d+)", chromium.dom(wrapper).partition('id="out"')[2]))
    return {name: int(value) for name, value in found.items()}


def test_a_phone_shows_it_without_scrolling_sideways(chromium: Browser, report: Path, tmp_path: Path) -> None:
    found = measured(chromium, report.read_text(encoding="utf-8"), tmp_path, PHONE)
    assert (found["width"], found["wide"]) == (PHONE, 0)


def test_no_version_is_cut_off_and_a_screen_shows_every_area_of_a_matrix(chromium: Browser, tmp_path: Path) -> None:
    rows = [row(f"{area}-1") for area in AREAS]
    real, embedded = (certificate(*rows, source=s, kubevirt="v1.8.4", image="v0.36.0") for s in ("live", "embedded"))
    page = html_of(join(Entry(tmp_path / "x", c) for c in (real, embedded)), [], [], tmp_path)
    assert measured(chromium, page, tmp_path, PHONE)["cut"] == 0
    wide = measured(chromium, page, tmp_path, 1100)
    assert (wide["wide"], wide["cut"], wide["hidden"]) == (0, 0, 0)


def test_no_script_runs_and_it_prints(chromium: Browser, report: Path) -> None:
    assert "<script" not in chromium.dom(report)
    assert chromium.pdf(report).startswith(b"%PDF")
