"""The catalogue: ids, order, and the generated pages."""

from __future__ import annotations

from fixtures.report import catalogue, pages


def test_ids_are_unique_and_every_check_says_what_it_asserts() -> None:
    entries = catalogue.load()
    ids = [e.spec.id for e in entries]
    assert len(ids) == len(set(ids))
    assert [e.spec.id for e in entries if not e.says or not e.spec.source] == []


def test_the_generated_pages_are_current() -> None:
    stale = [name for name, text in pages.pages().items() if (pages.DOCS / name).read_text(encoding="utf-8") != text]
    assert not stale, "run: tox -e docs"
