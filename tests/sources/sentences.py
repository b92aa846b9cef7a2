"""The procedure's text as sentences, each with a short hash; lists and commands count line by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parent / "data"
_END = re.compile(r"(?<=[.:])\s+(?=[A-Z`])")


def sentences(text: str) -> Iterator[str]:
    """Every sentence or line, in order; bare numbers of lists left out."""
    for line in text.splitlines():
        for found in _END.split(line.strip()):
            if found and not re.fullmatch(r"\d+\.", found):
                yield found


def digest(sentence: str) -> str:
    """The first twelve hexadecimal digits of the sentence's SHA-256."""
    return hashlib.sha256(sentence.encode()).hexdigest()[:12]
