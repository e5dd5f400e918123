"""Sockets of services outside of a sealed run. `serve DIR PATH…` makes those without "late" in their path, and
makes all anew when it is asked; `try DIR PATH…` asks, and tells which are reached then."""

import os
import socket
import sys
import time

mode, folder, *paths = sys.argv[1:]
ready, go, done = (os.path.join(folder, name) for name in ("ready", "go", "done"))


def wait(file, there=True):
    while os.path.exists(file) != there:
        time.sleep(0.01)


def make(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    return listener


def reached(path):
    with socket.socket(socket.AF_UNIX) as stream:
        try:
            stream.connect(path)
            return "REACHED"
        except OSError:
            return "covered"


if mode == "serve":
    held = [make(path) for path in paths if "late" not in path]
    open(ready, "w").close()
    wait(go)
    held = [make(path) for path in paths]
    open(done, "w").close()
    wait(go, there=False)
else:
    before = [reached(path) for path in paths]
    open(go, "w").close()
    wait(done)
    for path, was in zip(paths, before):
        print(f"{path}: {was}, {reached(path)}")
    os.unlink(go)
    os.unlink(done)
