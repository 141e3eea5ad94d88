"""What a person sees while a run goes on, on a real terminal of 80 columns."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from unittest import mock

import pytest

from gsx.cli.output import progress_bar, say


class Terminal:
    """A pseudo-terminal that stands in for stderr."""

    def __init__(self, columns):
        self._inside, outside = os.openpty()
        fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stderr = os.fdopen(outside, "w")

    def lines(self):
        """Return all that was written since, cut where the cursor went back or down."""
        self.stderr.flush()
        os.set_blocking(self._inside, False)
        found = b""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._inside, 65536):
                found += data
        return [line for line in found.decode().replace("\n", "\r").split("\r") if line.strip()]

    def close(self):
        self.stderr.close()
        os.close(self._inside)


@contextlib.contextmanager
def looking(columns=80):
    """Let a terminal be stderr; pytest gives every phase of a test one of its own."""
    terminal = Terminal(columns)
    with mock.patch.object(sys, "stderr", terminal.stderr):
        yield terminal
    terminal.close()


@pytest.fixture
def clock(monkeypatch):
    """The time that a bar believes it is, in a list of one."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_a_bar_shows_speed_time_left_workers_and_bytes(clock):
    with looking() as terminal, progress_bar("generate", quiet=False) as progress:
        assert terminal.lines()[-1] == "generate: starting"
        clock[0] += 30  # workers start
        progress(0, 1_000_000, "2 workers, 0.0 MB")
        assert terminal.lines()[-1] == "generate: 0.00/1.00M, for 00:00, 2 workers, 0.0 MB"
        clock[0] += 10
        time.sleep(0.12)
        progress(250_000, 1_000_000, "2 workers, 47.8 MB")
        line = terminal.lines()[-1]
    assert "25%|" in line
    assert line.endswith("| 250k, 25.0k graphs/s, 00:30 left, 2 workers, 47.8 MB")
    assert len(line) <= 79


def test_the_longest_bar_fits_into_80_columns(clock):
    with looking() as terminal, progress_bar("generate", quiet=False) as progress:
        progress(0, 1_000_000_000, "")
        clock[0] += 40_000
        time.sleep(0.12)
        progress(456_000_000, 1_000_000_000, "100 workers, 119.3 GB")
        line = terminal.lines()[-1]
    assert line.endswith("456M, 11.4k graphs/s, 13:15:19 left, 100 workers, 119.3 GB")
    assert len(line) <= 79


def test_what_is_said_stands_above_the_bar_on_a_line_of_its_own():
    with looking() as terminal, progress_bar("generate", quiet=False) as progress:
        progress(1, 10, "2 workers, 0.1 MB")
        terminal.lines()
        say("dashboard of the workers: http://127.0.0.1:8787/status")
        lines = terminal.lines()
    assert lines[0] == "dashboard of the workers: http://127.0.0.1:8787/status"
    assert lines[1].startswith("generate:  10%|")
    assert len(lines) == 2


def test_nothing_is_shown_where_nobody_looks(capfd):
    with looking() as terminal, progress_bar("generate", quiet=True) as progress:
        progress(1, 10, "note")
        assert terminal.lines() == []
    with progress_bar("generate", quiet=False) as progress:
        progress(1, 10, "note")
    assert capfd.readouterr().err == ""


def test_a_warning_is_not_cut_in_the_middle_of_a_word_by_a_terminal():
    warning = (
        "prepare: cornell and texas hold the same 183 pages: features and labels are equal, and "
        "only links differ. Held-out pages of one may be training pages of the other."
    )
    screen, stderr = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", f"from gsx.cli.output import say; say({warning!r})"],
        stderr=stderr,
        env={**os.environ, "COLUMNS": "80"},
        check=True,
    )
    lines = os.read(screen, 4096).decode().splitlines()
    os.close(stderr)
    os.close(screen)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 3
    assert all(line.startswith("  ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == warning
