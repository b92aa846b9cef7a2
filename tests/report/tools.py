"""Programs that tests look for and do without; where CI tried to install one, the skip tells what came of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import pytest


def program(what: str, names: Sequence[str], said: str) -> str:
    """Path of the first of ``names`` on the path; skips without one. ``said``: environment variable with CI's reason."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        why = os.environ.get(said, "")
        pytest.skip(f"no {what}: none of {', '.join(names)} is on the path{f' ({why})' if why else ''}")
    return found
