"""Progress bars and messages on a terminal with 80 columns."""

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

from gsx.cli.output import notify, progress_bar


class Terminal:
    """A pseudo-terminal that replaces stderr."""

    def __init__(self, columns):
        self._inside, outside = os.openpty()
        fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stderr = os.fdopen(outside, "w")

    def lines(self):
        """Return everything written since the last call, split at carriage returns and newlines."""
        self.stderr.flush()
        os.set_blocking(self._inside, False)
        written = b""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._inside, 65536):
                written += data
        return [line for line in written.decode().replace("\n", "\r").split("\r") if line.strip()]

    def close(self):
        self.stderr.close()
        os.close(self._inside)


@contextlib.contextmanager
def terminal_as_stderr(columns=80):
    """Replace stderr by a terminal; pytest has another stderr in every phase of a test."""
    terminal = Terminal(columns)
    with mock.patch.object(sys, "stderr", terminal.stderr):
        yield terminal
    terminal.close()


@pytest.fixture
def clock(monkeypatch):
    """The time that progress bars read, in a list of one item."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_a_bar_shows_speed_time_left_workers_and_bytes(clock):
    with terminal_as_stderr() as terminal, progress_bar("generate", quiet=False) as progress:
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


def test_the_longest_bar_fits_80_columns(clock):
    with terminal_as_stderr() as terminal, progress_bar("generate", quiet=False) as progress:
        progress(0, 1_000_000_000, "")
        clock[0] += 40_000
        time.sleep(0.12)
        progress(456_000_000, 1_000_000_000, "100 workers, 119.3 GB")
        line = terminal.lines()[-1]
    assert line.endswith("456M, 11.4k graphs/s, 13:15:19 left, 100 workers, 119.3 GB")
    assert len(line) <= 79


def test_a_message_is_printed_above_the_bar():
    with terminal_as_stderr() as terminal, progress_bar("generate", quiet=False) as progress:
        progress(1, 10, "2 workers, 0.1 MB")
        terminal.lines()
        notify("dashboard of the workers: http://127.0.0.1:8787/status")
        lines = terminal.lines()
    assert lines[0] == "dashboard of the workers: http://127.0.0.1:8787/status"
    assert lines[1].startswith("generate:  10%|")
    assert len(lines) == 2


def test_nothing_is_shown_if_quiet_or_not_on_a_terminal(capfd):
    with terminal_as_stderr() as terminal, progress_bar("generate", quiet=True) as progress:
        progress(1, 10, "note")
        assert terminal.lines() == []
    with progress_bar("generate", quiet=False) as progress:
        progress(1, 10, "note")
    assert capfd.readouterr().err == ""


def test_a_long_message_is_wrapped_between_words():
    warning = (
        "prepare: cornell and texas hold the same 183 pages: features and labels are equal, and "
        "only links differ. Held-out pages of one may be training pages of the other."
    )
    screen, stderr = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", f"from gsx.cli.output import notify; notify({warning!r})"],
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
