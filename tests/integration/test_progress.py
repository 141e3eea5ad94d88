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
from gsx.pipeline import progress as progress_display
from tests.support.artifacts import gsx


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


def test_nothing_is_shown_if_quiet(capfd):
    with terminal_as_stderr() as terminal, progress_bar("generate", quiet=True) as progress:
        progress(1, 10, "note")
        assert terminal.lines() == []
    with progress_bar("generate", quiet=True) as progress:
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


@pytest.fixture
def steady(monkeypatch):
    """The clock of log lines, in a list of one item."""
    now = [0.0]
    monkeypatch.setattr(progress_display.time, "monotonic", lambda: now[0])
    return now


def test_a_log_file_gets_a_line_per_epoch(steady, capsys):
    with progress_bar("train", quiet=False) as progress:
        for epoch in range(1, 5):
            steady[0] += 30
            progress(epoch * 10, 40, f"epoch {epoch}/4, loss 0.5, ood_val 70.00")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train: epoch 1/4, loss 0.5, ood_val 70.00, 25% in 0:30, 1:30 left"
    assert lines[-1] == "train: epoch 4/4, loss 0.5, ood_val 70.00, 100% in 2:00, 0:00 left"
    assert len(lines) == 4


def test_a_log_file_gets_at_most_one_line_per_second_or_minute(steady, capsys):
    with progress_bar("train", quiet=False) as train, progress_bar("x", quiet=False) as shards:
        for epoch in range(1, 31):
            steady[0] += 0.25
            train(epoch, 40, f"epoch {epoch}/40, loss 0.5")
        for done in range(1, 31):
            steady[0] += 5
            shards(done, 30, "2 workers")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("train")] == [
        f"train: epoch {epoch}/40" for epoch in range(4, 31, 4)
    ]
    shard_lines = [line for line in lines if line.startswith("x")]
    assert len(shard_lines) == 2
    assert shard_lines[0].startswith("x: 2 workers, ")


def test_training_in_a_log_file_prints_epochs_and_says_that_it_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_display, "SECONDS_PER_EPOCH_LINE", 0.0)
    words = ("train", "corpus", "--epochs", 4, "--width", 8, "--store", tmp_path / "store")
    made = gsx("prepare", "motif-size", "--num-graphs", 60, "--tag", "corpus", *words[-2:])
    assert made.code == 0, made.err

    from gsx.stages.train import trainer

    save, saved = trainer.checkpoint.save, []

    def stop_after_two(*arguments):
        save(*arguments)
        saved.append(1)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer.checkpoint, "save", stop_after_two)
    stopped = gsx(*words)
    assert "train: epoch 1/4, loss " in stopped.err
    assert "resumed" not in stopped.err
    monkeypatch.setattr(trainer.checkpoint, "save", save)
    resumed = gsx(*words)
    assert resumed.code == 0, resumed.err
    lines = [line for line in resumed.err.splitlines() if line.startswith("train: ")]
    assert lines[0] == "train: resumed after epoch 2 of 4"
    assert lines[1].startswith("train: epoch 3/4, loss ")
    assert "ood_val" in lines[1]
    assert "ood_test" not in resumed.err
    assert gsx(*words).err == ""


def test_a_notebook_gets_a_bar():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    code = (
        "from gsx.cli.output import progress_bar\n"
        "with progress_bar('train', quiet=False) as progress:\n"
        "    progress(0, 10)\n"
        "    import time; time.sleep(0.2)\n"
        "    progress(5, 10, 'epoch 1/2, loss 0.5, ood_val 70.00')\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    text = "".join(output.get("text", "") for output in notebook.cells[0].outputs)
    bar = next(part for part in text.split("\r") if "50%|" in part)
    assert bar.rstrip().endswith("epoch 1/2, loss 0.5")
    assert len(bar.rstrip()) <= 80
