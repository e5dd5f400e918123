"""The proxies that are measured: what each can do, and how it is started.

Caches, access logs and added fields are off in all of them. A further one is a line in `peers`, a
function that returns its command and, if it needs one, a file in conf/.
"""

import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Callable

from . import ways, world as worlds
from .processes import Failed, start, stop, wait_listening

# What a proxy may be able to do.
ONE_ORIGIN, PLAIN, TUNNEL, INTERCEPT = "one origin", "plain", "tunnel", "intercept"

OURS = "courtesy"
# The same, of clients that are set up for nothing.
TRANSPARENT, SEALED = "transparent", "sealed"


@dataclass
class Peer:
    """A proxy. `command` makes its command line; without one, requests go straight to the origin."""

    name: str
    roles: tuple
    program: str = ""
    command: Callable | None = None
    # What starts the generator, where it goes another way than by a proxy that it is told of.
    enter: Callable | None = None
    port: int = 0
    process: subprocess.Popen | None = None
    # Roles that it failed in, and how.
    failed: dict = field(default_factory=dict)
    # Hosts that were asked for through it on purpose to be the first.
    hosts_used: int = 0

    @property
    def is_ours(self):
        """Whether it is courtesy, in one build or another."""
        return self.command is courtesy

    def can(self, role):
        return role in self.roles and role not in self.failed

    def trusts(self, world):
        """The CA whose certificates a client of it sees."""
        return world.run / ("proxy-ca.pem" if self.command else "origin-ca.pem")

    def start(self, world):
        if self.command is None:
            return
        if shutil.which(self.program) is None:
            raise Failed(f"{self.program} is not there: benches/proxy/install")
        self.port = world.port()
        errors = world.run / f"{self.name}.errors"
        self.process = start(self.command(world, self), errors)
        if self.command is ways.sealed:
            # Its listeners are in another network; it runs its command when they serve.
            self.enter(self)
        else:
            wait_listening(self.port, self.process, errors)

    def stop(self):
        if self.process is not None:
            stop(self.process)
            self.process = None

    def restart(self, world):
        self.stop()
        self.start(world)

    def conf(self, world, template, **more):
        return world.render(template, f"{self.name}.conf", PORT=self.port, NAME=self.name, **more)


def haproxy(world, peer):
    return [peer.program, "-db", "-f", peer.conf(world, "haproxy.cfg")]


def nginx(world, peer):
    return [peer.program, "-p", world.run, "-c", peer.conf(world, "nginx.conf")]


def nginx_kept(world, peer):
    """It keeps connections only to origins that are named in advance."""
    hosts, upstreams = [], []
    for number in range(500):
        host = f"h{number}.{worlds.ZONE}:{worlds.HTTP}"
        address = f"127.1.{number // 250 + 1}.{number % 250 + 1}:{worlds.HTTP}"
        hosts.append(f"{host} up_{number};")
        upstreams.append(f"upstream up_{number} {{ server {address}; keepalive 64; "
                         "keepalive_timeout 3600s; keepalive_requests 1000000000; }")
    conf = peer.conf(world, "nginx-ka.conf", MAP="\n    ".join(hosts), UPSTREAMS="\n  ".join(upstreams))
    return [peer.program, "-p", world.run, "-c", conf]


def squid(world, peer):
    log = world.run / f"{peer.name}.log"
    log.touch()
    shutil.chown(log, "proxy")
    return [peer.program, "-N", "-f", peer.conf(world, "squid.conf")]


def traffic_server(world, peer):
    """It wants folders of its own, and a file that names them."""
    told = subprocess.run(["traffic_layout", "info"], capture_output=True, text=True, check=True).stdout
    layout = dict(line.split(": ", 1) for line in told.splitlines() if ": " in line)
    root = world.run / peer.name
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(layout["SYSCONFDIR"], root / "etc")
    for name in ("var", "log", "cache", "run"):
        (root / name).mkdir()
    (root / "etc/storage.config").write_text("")
    world.render("ats-records.config", f"{peer.name}/etc/records.config", PORT=peer.port)
    world.render("ats-ip_allow.yaml", f"{peer.name}/etc/ip_allow.yaml")
    places = {
        "prefix": root, "exec_prefix": root, "bindir": layout["BINDIR"], "sbindir": layout["BINDIR"],
        "sysconfdir": root / "etc", "datadir": root / "cache", "includedir": layout["INCLUDEDIR"],
        "libdir": layout["LIBDIR"], "libexecdir": layout["PLUGINDIR"], "localstatedir": root / "var",
        "runtimedir": root / "run", "logdir": root / "log", "mandir": root, "infodir": root,
        "cachedir": root / "cache",
    }
    runroot = root / "runroot.yaml"
    runroot.write_text("".join(f"{name}: {place}\n" for name, place in places.items()))
    subprocess.run(["chown", "-R", "trafficserver:", root], check=True)
    return [peer.program, f"--run-root={runroot}"]


def reference(*more):
    """One of the crate in peers/."""
    def command(world, peer):
        words = [word.replace("{run}", str(world.run)) for word in more]
        return [peer.program, "--listen", f"127.0.0.1:{peer.port}", "--threads", world.cpus, *words]
    return command


INTERCEPTS = ("--ca", "{run}/proxy-ca.pem", "--ca-key", "{run}/proxy-ca.key",
              "--origin-ca", "{run}/origin-ca.pem")


def courtesy(world, peer):
    conf = peer.conf(world, "courtesy.toml", PROXY=peer.port, TRANSPARENT="")
    return [peer.program, "serve", "--config", conf]


def peers(tools, binary, beside):
    """All of them by name: `binary` is ours, `beside` are other builds of it, by name."""
    everything = (ONE_ORIGIN, PLAIN, TUNNEL, INTERCEPT)
    ours = [Peer(name, everything, str(path), courtesy) for name, path in {OURS: binary, **beside}.items()]
    by_way = (ONE_ORIGIN, INTERCEPT)
    others = [
        Peer("direct", everything),
        Peer("tcp-forwarder", (ONE_ORIGIN,), str(tools / "tcp_forwarder"),
             reference("--nodelay", "--origin", f"127.0.0.1:{worlds.HTTP}")),
        Peer("haproxy", (ONE_ORIGIN, PLAIN), "haproxy", haproxy),
        Peer("nginx", (ONE_ORIGIN, PLAIN), "nginx", nginx),
        Peer("nginx-ka", (ONE_ORIGIN, PLAIN), "nginx", nginx_kept),
        Peer("ats", (ONE_ORIGIN, PLAIN, TUNNEL), "traffic_server", traffic_server),
        Peer("squid", (ONE_ORIGIN, PLAIN, TUNNEL), "squid", squid),
        Peer("hyper", (ONE_ORIGIN, PLAIN, TUNNEL), str(tools / "hyper_proxy"), reference("--nodelay")),
        Peer("hudsucker", (ONE_ORIGIN, PLAIN, INTERCEPT), str(tools / "hudsucker_proxy"),
             reference(*INTERCEPTS)),
        Peer("hudsucker-nodelay", (INTERCEPT,), str(tools / "hudsucker_proxy"),
             reference("--nodelay", *INTERCEPTS)),
        Peer("engine", (ONE_ORIGIN, PLAIN, INTERCEPT), str(tools / "engine_proxy"),
             reference("--nodelay", *INTERCEPTS)),
        Peer(TRANSPARENT, by_way, str(binary), ways.transparent, ways.redirected),
        Peer(SEALED, by_way, str(binary), ways.sealed, ways.inside),
    ]
    return {peer.name: peer for peer in others + ours}
