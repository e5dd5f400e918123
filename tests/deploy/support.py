"""What the checks of the shipped files have in common: where things are, and the program as a process."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COURTESY = pathlib.Path(os.environ.get("COURTESY_TEST_BINARY", ROOT / "target/debug/courtesy"))
TOOLS = pathlib.Path(sys.executable).parent
# Only a failing test takes so long.
DEADLINE = 20.0


def read(path):
    return (ROOT / path).read_text()


def cargo():
    return tomllib.loads(read("Cargo.toml"))


def tool(name):
    """A program of the environment of these tests, or of the system."""
    found = shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise AssertionError(f"{name} is missing: tests/run installs it")
    return found


def until(what, seen, within=DEADLINE):
    """Waits until `seen` holds, for what tells of no change by itself."""
    end = time.monotonic() + within
    while not seen():
        if time.monotonic() > end:
            raise AssertionError(f"it did not happen: {what}")
        time.sleep(0.01)


class Case(unittest.TestCase):
    """A test with a directory of its own, and programs that must succeed."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def succeed(self, *command, **others):
        """Runs a command and gives what it printed."""
        done = subprocess.run(
            [tool(command[0]), *map(str, command[1:])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            **others,
        )
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, command))}:\n{done.stdout}")
        return done.stdout


class Served:
    """`courtesy serve` with this environment, and what it has said on standard error so far."""

    def __init__(self, case, environment, arguments=(), command=None, **others):
        handle, log = tempfile.mkstemp(prefix="log-", dir=case.directory)
        os.close(handle)
        self.log = pathlib.Path(log)
        command = command or [COURTESY, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **others
            )
        case.addCleanup(self.end)
        # What clients are to trust is told last.
        until("it serves", lambda: self.has_ended() or "trust this CA" in self.said())
        case.assertFalse(self.has_ended(), self.said())

    def said(self):
        return self.log.read_text()

    def has_ended(self):
        return self.process.poll() is not None

    def address(self, of="listening"):
        """In lines of text or JSON."""
        return re.search(rf'{of}"?[, ]"?address(?:=|":")([^\s"]+)', self.said())[1]

    def metrics(self):
        url = f"http://{self.address('health and metrics')}/metrics"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=DEADLINE) as answer:
            return answer.read().decode()

    def end(self):
        if not self.has_ended():
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)
