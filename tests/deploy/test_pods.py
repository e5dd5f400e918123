"""The containers of the manifests, as processes."""

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

from manifests import KUBERNETES, OVERLAYS, containers, environment, pod, render
from support import COURTESY, DEADLINE, Case, Served, read, tool, until


class Pods(Case):
    """What the manifests say a container is, as a process: its arguments, variables and files. Only ports and
    paths are others."""

    def setUp(self):
        super().setUp()
        self.rendered = {overlay: render(KUBERNETES / "overlays" / overlay) for overlay in OVERLAYS}
        # As fsGroup has it: the group's, who is the process's own.
        self.as_nobody = {"user": 65532, "group": 65532, "extra_groups": []} if os.geteuid() == 0 else {}
        self.directory.chmod(0o711)
        for name in ["state", "state/clients"]:
            (self.directory / name).mkdir()
            self.give(self.directory / name, 0o2770)
        (self.directory / "config.toml").write_text((KUBERNETES / "base/config.toml").read_text())
        # A binary that stands where nobody may look is copied.
        self.courtesy = shutil.copy(COURTESY, self.directory / "courtesy")

    def give(self, path, mode):
        if self.as_nobody:
            os.chown(path, 0, self.as_nobody["group"])
        path.chmod(mode)

    def container(self, overlay, name):
        (found,) = (it for resource in self.rendered[overlay] for it in containers(resource) if it["name"] == name)
        return found

    def environment(self, container):
        credentials = str(self.directory / "credentials")
        given = {name: value.replace("/run/credentials", credentials) for name, value in environment(container).items()}
        of_image = {"STATE_DIRECTORY": str(self.directory / "state"), "COURTESY__TLS__ROOTS": "bundled"}
        return given | of_image | {"COURTESY_CONFIG": str(self.directory / "config.toml")}

    def run_as(self, container, *arguments):
        command = [self.courtesy, *arguments]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, env=self.environment(container), timeout=DEADLINE, **quiet, **self.as_nobody)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def serve(self, container):
        """At free ports of the addresses that it has."""
        given = environment(container)
        command = [self.courtesy, *container["args"]]
        for flag, name in [("--listen", "COURTESY__LISTEN__PROXY"), ("--admin", "COURTESY__LISTEN__ADMIN")]:
            command += [flag, given.get(name, "127.0.0.1").split(":")[0] + ":0"]
        served = Served(self, self.environment(container), command=command, **self.as_nobody)
        self.admin = served.address("health and metrics").replace("0.0.0.0", "127.0.0.1")
        return served

    def probe(self, container):
        """Each probe, at the port that it happens to be."""
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            (_, *arguments) = container[probe]["exec"]["command"]
            self.run_as(container, *arguments, "--admin", self.admin)

    def test_the_sidecar_starts_behind_what_makes_its_ca(self):
        trust, proxy = self.container("sidecar", "trust"), self.container("sidecar", "courtesy")
        said = self.run_as(trust, *trust["args"])
        self.assertIn("SSL_CERT_FILE", said)
        certificate = (self.directory / "state/ca/ca.pem").read_text()
        self.assertIn(certificate.strip(), (self.directory / "state/clients/bundle.pem").read_text())
        served = self.serve(proxy)
        self.probe(proxy)
        self.assertEqual(served.end(), 0)
        self.assertEqual((self.directory / "state/ca/ca.pem").read_text(), certificate)

    def test_the_rules_of_a_pod_are_applied_with_one_capability(self):
        """In a network of its own, by what the security context leaves of root."""
        if os.geteuid() != 0:
            self.skipTest("only root can give up all capabilities but one")
        redirect = self.container("transparent", "redirect")
        command = [tool("unshare"), "--net", "sh", "-c", 'setpriv "$@" && nft list table inet courtesy', "sh"]
        command += ["--bounding-set=-all,+net_admin", "--inh-caps=-all", "--no-new-privs"]
        command += [self.courtesy, "redirect", *redirect["args"]]
        rules = self.succeed(*command)
        self.assertIn("meta skuid 65532 return", rules)
        self.assertIn("tcp dport { 80, 443 } redirect to :3130", rules)
        self.assertIn("169.254.0.0/16", rules)
        self.assertIn("fc00::/7", rules)

    def test_a_crawler_that_is_led_to_the_proxy_reads_its_ca(self):
        trust, proxy = self.container("transparent", "trust"), self.container("transparent", "courtesy")
        self.run_as(trust, *trust["args"])
        served = self.serve(proxy)
        self.assertIn("127.0.0.1:3130", served.said())
        self.probe(proxy)
        self.assertEqual(served.end(), 0)
        if self.as_nobody:
            closed = self.container("transparent", "crawler")["securityContext"]
            user, group = closed["runAsUser"], closed["runAsGroup"]
            of_crawler = {"user": user, "group": group, "extra_groups": []}
            bundle = self.directory / "state/clients/bundle.pem"
            subprocess.run(["cat", bundle], stdout=subprocess.DEVNULL, check=True, **of_crawler)
            key = self.directory / "state/ca/ca.key"
            seen = subprocess.run(["cat", key], capture_output=True, check=False, **of_crawler)
            self.assertNotEqual(seen.returncode, 0)

    def test_a_pod_with_ipv6_has_the_listener_that_the_page_adds(self):
        trust, proxy = self.container("transparent", "trust"), self.container("transparent", "courtesy")
        (more,) = re.findall(r"add `(\[::1\]:\d+)` to", read("docs/operate/kubernetes.md"))
        name = "COURTESY__LISTEN__TRANSPARENT"
        given = self.environment(proxy)
        given[name] += f",{more}"
        self.run_as(trust, *trust["args"])
        command = [self.courtesy, *proxy["args"], "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        served = Served(self, given, command=command, **self.as_nobody)
        self.assertEqual(given[name], "127.0.0.1:3130,[::1]:3130")
        for address in given[name].split(","):
            self.assertIn(f'"{address}"', served.said())
        self.assertEqual(served.end(), 0)

    def test_a_sidecar_of_a_cluster_reaches_the_engine_with_the_rights_of_its_secret(self):
        rights = (KUBERNETES / "overlays/cluster/rights").read_text().strip()
        self.assertIn(rights.split("script|load")[0].split("-@all ")[1], read("docs/operate/cluster.md").replace("\n", " "))
        of_engine = self.directory / "engine"
        of_engine.mkdir()
        (of_engine / "users.acl").write_text(f"user default off\nuser courtesy on >the-password {rights}\n")
        (of_engine / "password").write_text("the-password")
        volumes = next(pod(it)["volumes"] for it in self.rendered["cluster"] if it["kind"] == "Job")
        (volume,) = (it for it in volumes if it["name"] == "engine")
        self.give(of_engine / "password", volume["secret"]["defaultMode"])
        arguments = [it.replace("/run/engine", str(of_engine)) for it in self.container("cluster", "valkey")["args"]]
        arguments[arguments.index("--dir") + 1] = str(of_engine)
        socket = self.directory / "engine.sock"
        # Debian has redis-server in the place of valkey-server.
        command = [tool("redis-server"), *arguments, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "777"]
        engine = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
        self.addCleanup(engine.wait, DEADLINE)
        self.addCleanup(engine.terminate)
        until("the engine listens", socket.exists)
        trust, proxy = self.container("cluster", "trust"), self.container("cluster", "courtesy")
        self.run_as(trust, *trust["args"])
        of_proxy = self.environment(proxy) | {
            "COURTESY__ENGINE__URL": f"redis+unix://{socket}",
            "COURTESY__ENGINE__PASSWORD_FILE": str(of_engine / "password"),
        }
        command = [self.courtesy, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        served = Served(self, of_proxy, command=command, **self.as_nobody)
        until("the engine is reached", lambda: "\ncourtesy_engine_up 1\n" in served.metrics())
        # Requests that share what they find leave no fault of rights.
        self.assertIn('courtesy_engine_errors_total{kind="permission"} 0', served.metrics())
        self.assertIn("\ncourtesy_engine_may_evict 0\n", served.metrics())

    def test_the_shared_proxy_starts_by_its_secrets(self):
        credentials = self.directory / "credentials"
        credentials.mkdir()
        self.succeed(
            *"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9".split(),
            *["-subj", "/CN=Ours", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
            *["-out", credentials / "ca.crt", "-keyout", credentials / "ca.key"],
        )
        (credentials / "admin.token").write_text("a-token-of-the-operator")
        proxy = self.container("shared", "courtesy")
        volumes = next(pod(it)["volumes"] for it in self.rendered["shared"] if it["kind"] == "StatefulSet")
        (volume,) = (it for it in volumes if "projected" in it)
        for file in credentials.iterdir():
            self.give(file, volume["projected"]["defaultMode"])
        served = self.serve(proxy)
        self.assertIn("CN=Ours", served.said())
        self.assertFalse((self.directory / "state/ca").exists())
        self.probe(proxy)
        self.assertEqual(status(f"http://{self.admin}/metrics"), 401)
        self.assertEqual(status(f"http://{self.admin}/metrics", "a-token-of-the-operator"), 200)


def status(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
