"""The catalogue: ids, order, and the generated page."""

from __future__ import annotations

from pathlib import Path

from fixtures.embedded import defects
from fixtures.report import catalogue

DOCS = Path(__file__).resolve().parent.parent / "docs" / "checks.md"


def test_ids_are_unique_and_every_check_says_what_it_asserts() -> None:
    entries = catalogue.load()
    ids = [e.spec.id for e in entries]
    assert len(ids) == len(set(ids))
    assert [e.spec.id for e in entries if not e.says or not e.spec.source] == []


def test_the_generated_page_is_current() -> None:
    page = catalogue.markdown(catalogue.load(), {name: defects.load(name).fails for name in defects.names()})
    assert DOCS.read_text(encoding="utf-8") == page, "run: python -m fixtures.report.catalogue > docs/checks.md"
