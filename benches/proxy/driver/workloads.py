"""The kinds of work: what is asked for, through whom, and which figure counts.

Work that stands in one group is measured in turns, so that its figures can be compared.
"""

from dataclasses import dataclass
from typing import Callable

from . import world
from .peers import INTERCEPT, ONE_ORIGIN, PLAIN, SEALED, TRANSPARENT, TUNNEL

# The figures of a measurement.
CPU_US, CPU_S_GIB, ADDED_US, KIB = "cpu_us", "cpu_s_per_gib", "added_us", "kib"

TITLES = {
    CPU_US: "CPU µs per request", CPU_S_GIB: "CPU s per GiB",
    ADDED_US: "µs added to the median", KIB: "KiB per connection",
}

# The origins of a crawl.
MANY = world.numbered(0, 500)
# Where hosts begin whose leaf certificates are there when the measurement begins.
KNOWN_FROM = 2_000
# Where hosts begin that nobody has asked for.
NEW_FROM = 10_000


@dataclass(frozen=True)
class Settings:
    """How much is done: `rounds` of `seconds`, so many `hosts` to meet, so many connections `idle`."""

    rounds: int
    seconds: float
    hosts: int
    idle: tuple


QUICK = Settings(rounds=5, seconds=0.8, hosts=100, idle=(500, 2_500))
FULL = Settings(rounds=7, seconds=1.5, hosts=200, idle=(1_000, 10_000))


@dataclass(frozen=True)
class Work:
    """One kind of work. `options` makes the generator's from settings and peer; `peers` are those that
    are compared in any case, all others of that role only where there is time."""

    name: str
    title: str
    role: str
    figure: str
    peers: tuple
    options: Callable
    # Done once by each peer before the first round, and not counted.
    before: Callable | None = None
    # Nobody else can do it.
    ours_only: bool = False


def loop(what, connections=64, warmup=0.2, size=1024, tls=False, host=None, more=()):
    """Asks for one file for as long as a measurement takes."""
    target = world.url(what, *([host] if host else []), tls=tls)
    words = ["--connections", connections, "--warmup", warmup, "--target", target, *more]
    if size is not None:
        words += ["--expect-bytes", size]
    return lambda settings, _peer: ["--duration", settings.seconds, *words]


def large(host=None, tls=False):
    """A GiB, 64 MB at a time, on two connections: so few of them that their number must not differ."""
    target = world.url("64m", *([host] if host else []), tls=tls)
    words = ["--connections", 2, "--requests", 16, "--duration", 50, "--timeout", 30,
             "--expect-bytes", 1 << 26, "--target", target]
    return lambda *_: words


def once_each(first, settings):
    """One request to each of so many hosts, on a connection of its own."""
    target = world.url("1k", world.numbered(first, settings.hosts), tls=True)
    return ["--connections", 8, "--requests", settings.hosts, "--duration", 20,
            "--requests-per-connection", 1, "--expect-bytes", 1024, "--target", target]


def every_origin(_settings, _peer):
    """Enough for each connection that is kept later, and for what is asked once of an origin."""
    return ["--connections", 64, "--requests", 4_000, "--duration", 20, "--target", world.url("1k", MANY)]


def known_hosts(settings, _peer):
    return once_each(KNOWN_FROM, settings)


def new_hosts(settings, peer):
    first = NEW_FROM + peer.hosts_used
    peer.hosts_used += settings.hosts
    return once_each(first, settings)


def one_host_again(settings, _peer):
    """So many that the handshakes with which sessions begin are few among them. The generator keeps eight
    tickets of a host: more connections at a time would find none left."""
    return ["--connections", 4, "--requests", 10 * settings.hosts, "--duration", 20, *NEW_EACH,
            "--tls-resume", "--expect-bytes", 1024, "--target", world.url("1k", tls=True)]


NEW_EACH = ("--requests-per-connection", 1, "--source-ips", 8)

WAYS = (TRANSPARENT, SEALED)

GROUPS = [
    [
        Work("forwarded", "1 KB, 64 connections", ONE_ORIGIN, CPU_US,
             ("haproxy", "nginx-ka", *WAYS), loop("1k")),
        Work("denied", "a 403 and its record, 64 connections", PLAIN, CPU_US, (), ours_only=True,
             options=loop("1k", host=world.DENIED, size=None, more=("--expect-status", 403))),
    ],
    [Work("origins", "1 KB, 64 connections over 500 origins", PLAIN, CPU_US, ("nginx",),
          loop("1k", host=MANY), before=every_origin)],
    [Work("one", "1 KB, one connection", ONE_ORIGIN, ADDED_US, ("direct", "hyper"),
          loop("1k", connections=1, warmup=0.1))],
    [Work("connections", "1 KB, a new connection each", ONE_ORIGIN, CPU_US, ("ats", *WAYS),
          loop("1k", warmup=0, more=NEW_EACH))],
    [Work("large", "64 MB", ONE_ORIGIN, CPU_S_GIB, ("haproxy", "nginx", "ats", "squid", "hyper", "hudsucker"),
          large())],
    [Work("tunnel", "64 MB in a tunnel", TUNNEL, CPU_S_GIB, ("ats", "squid", "hyper"),
          large(world.TUNNELLED, tls=True))],
    [Work("tunnels", "1 KB, a new tunnel each", TUNNEL, CPU_US, ("ats",),
          loop("1k", connections=16, warmup=0, tls=True, host=world.TUNNELLED, more=NEW_EACH))],
    [Work("intercepted", "1 KB intercepted, 32 warm connections", INTERCEPT, CPU_US, ("hudsucker", *WAYS),
          loop("1k", connections=32, warmup=0.5, tls=True))],
    [
        Work("first-contact", "intercepted, first contact with a host", INTERCEPT, CPU_US,
             ("hudsucker-nodelay",), new_hosts),
        Work("known-host", "intercepted, a new connection to a known host, no resumption", INTERCEPT, CPU_US,
             ("hudsucker-nodelay",), known_hosts, before=known_hosts),
        Work("resumed", "intercepted, a new connection each, resumed", INTERCEPT, CPU_US,
             ("hudsucker-nodelay",), one_host_again),
    ],
]

# Held rather than driven: each peer is started anew for it, and looked at once.
IDLE = [
    Work("idle", "an idle connection", ONE_ORIGIN, KIB, ("haproxy",),
         lambda *_: ["--target", world.url("1k")]),
    Work("idle-intercepted", "an idle intercepted connection", INTERCEPT, KIB, ("hudsucker",),
         lambda *_: ["--target", world.url("1k", tls=True)]),
]

ALL = {work.name: work for group in [*GROUPS, IDLE] for work in group}


def takers(work, everybody, full, also=()):
    """Who does this work: those that are named for it, and ours; in a full run all who can."""
    def takes(peer):
        if not peer.can(work.role):
            return False
        if peer.is_ours:
            return True
        return not work.ours_only and (full or peer.name in work.peers or peer.name in also)
    return [peer for peer in everybody if takes(peer)]
