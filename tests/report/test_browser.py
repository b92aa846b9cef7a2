"""The pages in a real browser: both colour schemes, no sideways scrolling on a phone, printable, nothing loaded, no script run."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from fixtures.checks import Status
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
    + " " + wide.slice(0, 3).map(e => e.tagName + "." + e.className).join();
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


def test_the_page_follows_the_colour_scheme(chromium: Browser, report: Path) -> None:
    assert min(chromium.corner(report, dark=False)) > 240
    assert max(chromium.corner(report, dark=True)) < 40


def test_a_phone_shows_it_without_scrolling_sideways(chromium: Browser, report: Path, tmp_path: Path) -> None:
    text = re.sub(r"<meta http-equiv[^>]*>", "", report.read_text(encoding="utf-8"))
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(MEASURE.format(width=PHONE, page=html.escape(text)), encoding="utf-8")
    measured = re.search(r"width=(\d+) wide=(\d+) ?([^<]*)", chromium.dom(wrapper))
    assert measured is not None
    assert (int(measured[1]), int(measured[2])) == (PHONE, 0), measured[3]


def test_no_script_runs_and_it_prints(chromium: Browser, report: Path) -> None:
    assert "<script" not in chromium.dom(report)
    assert chromium.pdf(report).startswith(b"%PDF")
