"""The bench's own world: a network with nothing but loopback in it, names, certificates, an origin."""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from .processes import Failed, raise_descriptors, start, stop, wait_listening

HERE = Path(__file__).resolve().parent.parent
HTTP, HTTPS = 18080, 18443
DNS = "127.0.0.53"
ZONE = "bench.test"
# Hosts with a meaning; all others are numbered.
DENIED, TUNNELLED = f"denied.{ZONE}", f"tunnelled.{ZONE}"

FILES = {"1k": 1 << 10, "64m": 1 << 26}
LINE = b"The quick brown fox jumps over the lazy dog 0123456789 abcdefgh\n"

# A certificate authority, as the strictest clients want it.
CA = """[req]
distinguished_name = name
x509_extensions = ca
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign, digitalSignature
subjectKeyIdentifier = hash
"""
LEAF = f"subjectAltName = DNS:*.{ZONE}\nextendedKeyUsage = serverAuth\nbasicConstraints = CA:FALSE\n"


class World:
    """All of it; `close` ends it."""

    def __init__(self, tools):
        self.cpus = len(os.sched_getaffinity(0))
        self.descriptors = raise_descriptors()
        self.loadgen = tools / "loadgen"
        self.tools = tools
        # Not /tmp, which may be memory: records are brought to a disk.
        self._folder = tempfile.TemporaryDirectory(prefix="courtesy-bench-", dir="/var/tmp")
        self.run = Path(self._folder.name)
        # Daemons that drop root look around in it.
        self.run.chmod(0o755)
        self._next_port = 18100
        self._processes = []
        network(self.run)
        self._certificates()
        self._files()
        self._serve_names()
        self.origin = self._serve_origin()

    def close(self):
        for process in self._processes:
            stop(process)
        self._folder.cleanup()

    def port(self):
        self._next_port += 1
        return self._next_port

    def render(self, template, name, **more):
        """Fills a file of conf/ in, and says where it is."""
        values = {
            "RUN": self.run, "DNS": f"{DNS}:53", "CPUS": self.cpus, "HTTP": HTTP, "HTTPS": HTTPS,
            "NOFILE": self.descriptors - 100, "CONNECTIONS": self.descriptors - 200, **more,
        }
        text = (HERE / "conf" / template).read_text()
        text = re.sub(r"@([A-Z]+)@", lambda match: str(values[match[1]]), text)
        file = self.run / name
        file.write_text(text)
        return file

    def _certificates(self):
        (self.run / "ca.cnf").write_text(CA)
        (self.run / "leaf.cnf").write_text(LEAF)
        for name in ("origin-ca", "proxy-ca"):
            self._key(name)
            self._openssl("req", "-x509", "-new", "-key", f"{name}.key", "-sha256", "-days", "30",
                          "-subj", f"/CN=bench {name}", "-config", "ca.cnf", "-out", f"{name}.pem")
        self._key("origin")
        self._openssl("req", "-new", "-key", "origin.key", "-subj", f"/CN={ZONE}", "-out", "origin.csr")
        self._openssl("x509", "-req", "-in", "origin.csr", "-CA", "origin-ca.pem",
                      "-CAkey", "origin-ca.key", "-CAcreateserial", "-days", "30", "-sha256", "-extfile", "leaf.cnf",
                      "-out", "origin.pem")

    def _key(self, name):
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-out", f"{name}.key")
        (self.run / f"{name}.key").chmod(0o600)

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.run, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"openssl {words[0]}: {done.stderr.strip()}")

    def _files(self):
        www = self.run / "www"
        www.mkdir()
        (self.run / "tmp").mkdir()
        for name, size in FILES.items():
            (www / name).write_bytes((LINE * (size // len(LINE) + 1))[:size])
        (www / "robots.txt").write_text("User-agent: *\nAllow: /\n")

    def _serve_names(self):
        errors = self.run / "names.errors"
        self._processes.append(start([self.loadgen, "dns", "--listen", f"{DNS}:53"], errors))

    def _serve_origin(self):
        errors = self.run / "origin.errors"
        origin = start(["nginx", "-p", self.run, "-c", self.render("origin.conf", "origin.conf")], errors)
        self._processes.append(origin)
        wait_listening(HTTP, origin, errors)
        return origin


def network(run):
    """Makes the namespaces that this process is the first of a network: loopback, and its resolver."""
    if os.getpid() != 1:
        raise Failed("not in a namespace of its own: start it with benches/proxy/run")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    resolver = run / "resolv.conf"
    resolver.write_text(f"nameserver {DNS}\noptions timeout:2\n")
    resolver.chmod(0o644)
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True)
    # A closed connection keeps its port for a minute: there must be enough of them.
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("20000 65535")
    unpaced()


def unpaced():
    """Where the machine's congestion control paces what is sent (bbr), a timer for each piece of it would be measured,
    though between neighbours there is nothing to be gentle to. Linux's own is cubic; but a namespace may only have
    what the machine lets anybody have, and that is always reno."""
    setting = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    for name in ("cubic", "reno"):
        with contextlib.suppress(PermissionError):
            setting.write_text(name)
            return


def url(what, host=f"h0.{ZONE}", tls=False):
    """Where a file of the origin is, by a name for it."""
    return f"{'https' if tls else 'http'}://{host}:{HTTPS if tls else HTTP}/{what}"


def numbered(first, count):
    """So many hosts from that number on, as one pattern of the generator."""
    return f"h{{{first}..{first + count - 1}}}.{ZONE}"
