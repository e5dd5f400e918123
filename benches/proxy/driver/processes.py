"""Starts what the bench needs, and ends it.

The driver is the first process of a namespace of its own: when it ends, however that comes, the
kernel ends all that it has started.
"""

import os
import resource
import signal
import socket
import subprocess
import time

from . import gauge

# As many descriptors as 10,000 clients take, with an origin connection each.
DESCRIPTORS = 40_000


class Failed(Exception):
    """Something outside did not do what the measurement needs; the text says what."""


def raise_descriptors():
    """Lets this process, and with it all that it starts, have as many descriptors as may be had."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in (max(DESCRIPTORS, hard), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return limit
        except (ValueError, OSError):
            continue
    raise Failed("the limit of descriptors cannot be raised to the hard one")


def start(command, errors, **more):
    """Starts a command; what it says on standard error goes to the file `errors`."""
    more.setdefault("stdout", subprocess.DEVNULL)
    more.setdefault("stdin", subprocess.DEVNULL)
    with open(errors, "w") as file:
        command = [str(word) for word in command]
        return subprocess.Popen(command, stderr=file, start_new_session=True, **more)


def stop(process):
    """Ends a process and all below it."""
    below = gauge.tree(process.pid)
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass
    for pid in below:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait(5)


def wait_listening(port, process, errors, limit=20.0):
    """Waits until somebody listens on the port, or the process has ended."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if process.poll() is not None:
            said = errors.read_text(errors="replace").strip()[-600:]
            raise Failed(f"it ended at start with status {process.returncode}: {said}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Failed(f"nobody listens on port {port} after {limit:.0f} s")
