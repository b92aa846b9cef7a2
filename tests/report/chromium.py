"""A headless browser for tests; without one they are skipped with a reason."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path

from tests.report.tools import program

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


class Browser:
    """Starts the browser once a call; nothing is kept between calls."""

    def __init__(self, executable: str, folder: Path) -> None:
        self._executable, self._folder, self._calls = executable, folder, 0

    def _run(self, *options: str) -> str:
        self._calls += 1
        profile = self._folder / f"profile-{self._calls}"
        command = [self._executable, *OPTIONS, f"--user-data-dir={profile}", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        shutil.rmtree(profile, ignore_errors=True)
        return done.stdout

    def dom(self, page: Path) -> str:
        return self._run("--dump-dom", f"file://{page}")

    def corner(self, page: Path, *, dark: bool) -> tuple[int, int, int]:
        """Colour of the first pixel."""
        picture = self._folder / "shot.png"
        options = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(*options, "--window-size=800,600", f"--screenshot={picture}", f"file://{page}")
        return first_pixel(picture.read_bytes())

    def pdf(self, page: Path) -> bytes:
        made = self._folder / "page.pdf"
        self._run(f"--print-to-pdf={made}", f"file://{page}")
        return made.read_bytes()


def browser(folder: Path) -> Browser:
    return Browser(program("browser", NAMES, "NO_BROWSER"), folder)


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Of a PNG with 8-bit RGB or RGBA; the first pixel of the first row is stored as it is, whatever the row's filter."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    red, green, blue = zlib.decompressobj().decompress(data, 4)[1:4]
    return red, green, blue
