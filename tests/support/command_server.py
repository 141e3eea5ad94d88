"""A process that has imported gsx and forks one process per command, so that each starts at once.

``python -m tests.support.command_server`` reads one JSON object per line, a command, and answers
with the process id and, when the process has ended, its exit status.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EVENTS = (
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
    "os.listdir",
    "os.scandir",
)


@dataclass
class Running:
    """A command that was started."""

    server: CommandServer
    pid: int
    out: Path
    err: Path

    def wait(self):
        """Return the exit code; negative for a signal."""
        return self.server.ask({"wait": self.pid})["code"]

    def kill(self):
        """Kill the process and all its descendants; return whether it was still running."""
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            members = psutil.Process(self.pid).children(recursive=True)
            os.kill(self.pid, signal.SIGKILL)
            code = self.wait()
            psutil.wait_procs(members, timeout=60)
            alive = [m for m in members if m.is_running() and m.status() != psutil.STATUS_ZOMBIE]
            assert alive == [], f"orphans: {alive}"
            return code == -signal.SIGKILL
        self.wait()
        return False


class CommandServer:
    """The client side: starts commands in forked processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, message):
        """Send a message and return the answer."""
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, *words, kill_at=None, **environment):
        """Start a command; with ``kill_at`` it kills itself at this file operation."""
        self.number += 1
        out, err = (self.folder / f"{self.number}.{name}" for name in ("out", "err"))
        message = {
            "words": [str(word) for word in words],
            "out": str(out),
            "err": str(err),
            "kill_at": kill_at,
            "environment": environment,
        }
        return Running(self, self.ask(message)["pid"], out, err)

    def run(self, *words, **environment):
        """Run a command to its end and return code, output and messages."""
        running = self.start(*words, **environment)
        code = running.wait()
        return code, running.out.read_text(), running.err.read_text()

    def close(self):
        """End the server."""
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def _serve():
    import torch

    import gsx

    warnings.simplefilter("ignore")
    for module in pkgutil.walk_packages(gsx.__path__, "gsx."):
        if not module.name.endswith(("__main__", "load_pyg")):
            importlib.import_module(module.name)
    torch.set_num_threads(1)
    for line in sys.stdin:
        message = json.loads(line)
        if "wait" in message:
            status = os.waitpid(message["wait"], 0)[1]
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if pid == 0:
                _execute(message)
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _execute(message):
    from gsx.cli.main import main

    code = 70
    try:
        os.setsid()
        for name, descriptor in (("out", 1), ("err", 2)):
            os.dup2(os.open(message[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        faulthandler.enable()
        os.environ.update(message["environment"])
        sys.argv = ["gsx", *message["words"]]
        _count_events(message["kill_at"])
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if message["kill_at"] == 0:  # only count
            Path(message["out"]).with_suffix(".events").write_text(str(_events))
        os._exit(code)


_events = 0


def _count_events(kill_at):
    if kill_at is None:
        return

    def audit(event, _arguments):
        global _events
        if event in EVENTS:
            _events += 1
            if _events == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


if __name__ == "__main__":
    _serve()
