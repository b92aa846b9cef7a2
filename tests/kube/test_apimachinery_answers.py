"""Quantities and string selectors give what apimachinery 0.36 gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.kube import quantities, selectors

ANSWERS = json.loads((Path(__file__).parent / "apimachinery_answers.json").read_text(encoding="utf-8"))
LABELS = {"app": "web", "tier": "3", "empty": ""}


@pytest.mark.parametrize("case", ANSWERS["quantities"], ids=lambda c: repr(c["text"]))
def test_quantities(case: dict[str, Any]) -> None:
    try:
        found = quantities.parse(case["text"])
        answer = {"error": "", "printed": str(found), "value": found.value(), "milli": found.milli()}
    except quantities.QuantityError as error:
        answer = {"error": str(error), "printed": "", "value": 0, "milli": 0}
    assert {"text": case["text"], **answer} == case


@pytest.mark.parametrize("case", ANSWERS["selectors"], ids=lambda c: repr(c["text"])[:40])
def test_selectors(case: dict[str, str]) -> None:
    try:
        answer = str(selectors.parse(case["text"]).matches(LABELS)).lower()
    except selectors.SelectorError as error:
        answer = f"ERR {error}"
    assert answer == case["answer"]
