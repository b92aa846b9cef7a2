import re
from collections.abc import Callable, Iterable

import pytest


def to_klog(lines: Iterable[str]) -> str:
    """Lines of a golden trace (``LEVEL file message``) with the header they were recorded with."""
    out = []
    for line in lines:
        match = re.match(r"([IWEF]) (\S+) (.*)", line, re.DOTALL)
        out.append(
            f"{match[1]}0102 15:04:05.000000       1 {match[2]}:1] {match[3]}\n" if match else f"{line.removeprefix('- ')}\n"
        )
    return "".join(out)


@pytest.fixture(scope="session")
def klog_text() -> Callable[[Iterable[str]], str]:
    return to_klog
