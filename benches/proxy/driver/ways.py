"""courtesy where its clients are set up for nothing: what the network redirects to it, and what is in a sealed
run. The generator goes the way of such a client: straight to the origin."""

import subprocess
import time
from pathlib import Path

from . import gauge, world as worlds
from .processes import Failed

# Whose connections are redirected: those of this group. The proxy's own are of another.
GROUP = 12345

# How long a sealed run may take to begin.
LIMIT_S = 20.0

RULES = """
table ip bench {{
    chain output {{
        type nat hook output priority -100
        meta skgid {group} tcp dport {{ {http}, {https} }} redirect to :{port}
    }}
}}
"""


def transparent(world, peer):
    """It listens on its port for what nftables leads there."""
    rules = RULES.format(group=GROUP, http=worlds.HTTP, https=worlds.HTTPS, port=peer.port)
    done = subprocess.run(["nft", "-f", "-"], input=rules, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"nft: {done.stderr.strip()}")
    listen = f'transparent = ["127.0.0.1:{peer.port}"]'
    conf = peer.conf(world, "courtesy.toml", PROXY=world.port(), TRANSPARENT=listen)
    return [peer.program, "serve", "--config", conf]


def redirected(_peer):
    """What starts the generator as one whose connections are redirected."""
    return ["setpriv", f"--regid={GROUP}", "--clear-groups"]


def sealed(world, peer):
    """A command that does nothing, for as long as it is let."""
    conf = peer.conf(world, "courtesy.toml", PROXY=peer.port, TRANSPARENT="")
    return [peer.program, "run", "--sealed", "--ports", f"{worlds.HTTP},{worlds.HTTPS}", "--config", conf,
            "--", "sleep", "infinity"]


def inside(peer):
    """What starts the generator where that command is."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and peer.process.poll() is None:
        for pid in gauge.tree(peer.process.pid):
            if name(pid) == "sleep":
                return ["nsenter", "--target", pid, "--user", "--preserve-credentials", "--net", "--mount"]
        time.sleep(0.02)
    raise Failed("the sealed run has not begun")


def name(pid):
    """Of a process; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
