"""The containers of the manifests, as processes."""

import os
import re
import shutil
import signal
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

    def test_the_metrics_of_a_sidecar_are_for_who_has_the_token(self):
        variables = next(it["data"] for it in render(KUBERNETES / "monitoring/sidecar") if it["kind"] == "ConfigMap")
        for overlay in ["sidecar", "cluster", "transparent"]:
            volumes = next(pod(it)["volumes"] for it in self.rendered[overlay] if it["kind"] == "Job")
            (volume,) = (it for it in volumes if it["name"] == "admin")
            proxy = self.container(overlay, "courtesy")
            self.assertIn({"name": "admin", "mountPath": "/run/credentials", "readOnly": True}, proxy["volumeMounts"])
        credentials = self.directory / "credentials"
        credentials.mkdir()
        (credentials / "admin.token").write_text("a-token-of-the-operator")
        self.give(credentials / "admin.token", volume["secret"]["defaultMode"])
        proxy = self.container("sidecar", "courtesy")
        proxy["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        served = self.serve(proxy)
        self.assertIn("0.0.0.0:", served.address("health and metrics"))
        self.probe(proxy)
        self.assertEqual(status(f"http://{self.admin}/metrics"), 401)
        self.assertEqual(status(f"http://{self.admin}/metrics", "a-token-of-the-operator"), 200)
        self.assertEqual(served.end(), 0)

    def engine(self):
        """The engine of the manifests, at a socket, with the users of the page."""
        rights = (KUBERNETES / "engine/rights").read_text().strip()
        of_engine = self.directory / "engine"
        of_engine.mkdir()
        page = read("docs/operate/kubernetes.md")
        lines = re.findall(r'^\$ echo "(user .*)" >+users\.acl$', page, re.MULTILINE)
        self.assertEqual(len(lines), 3)
        users = "\n".join(lines).replace("$password", "the-password")
        users = users.replace("$(cat deploy/kubernetes/engine/rights)", rights)
        self.assertNotIn("$", users)
        (of_engine / "users.acl").write_text(users + "\n")
        (of_engine / "password").write_text("the-password")
        arguments = [it.replace("/run/engine", str(of_engine)) for it in self.container("cluster", "valkey")["args"]]
        arguments[arguments.index("--dir") + 1] = str(of_engine)
        socket = self.directory / "engine.sock"
        # Debian has redis-server in the place of valkey-server.
        command = [tool("redis-server"), *arguments, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "777"]
        engine = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
        self.addCleanup(engine.wait, DEADLINE)
        self.addCleanup(engine.kill)
        until("the engine listens", socket.exists)
        return engine, socket

    def engine_probe(self, kind):
        """The exit of a probe of the engine, or None where the kubelet would end it for its time."""
        probe = self.container("cluster", "valkey")[kind]
        program, *arguments = probe["exec"]["command"]
        self.assertEqual(program, "valkey-cli")
        command = [tool("redis-cli"), "-s", self.directory / "engine.sock", *arguments]
        try:
            return subprocess.run(command, capture_output=True, timeout=probe["timeoutSeconds"]).returncode
        except subprocess.TimeoutExpired:
            return None

    def test_the_engine_is_asked_whether_it_answers_not_whether_its_port_is_open(self):
        engine, socket = self.engine()
        page = read("docs/operate/engine-server.md")
        for kind in ["startupProbe", "readinessProbe", "livenessProbe"]:
            self.assertEqual(self.engine_probe(kind), 0, kind)
            words = self.container("cluster", "valkey")[kind]["exec"]["command"]
            self.assertIn("`" + " ".join(it for it in words if it != "--no-auth-warning") + "`", page)
        # One that answers with an error is not ready, and lives.
        password = ["--user", "courtesy", "--pass", "the-password", "--no-auth-warning"]
        client = subprocess.Popen(
            [tool("redis-cli"), "-s", socket, *password, "EVAL", "while true do end", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(client.wait, DEADLINE)
        self.addCleanup(client.kill)
        until("a script takes too long", lambda: self.engine_probe("readinessProbe") == 1)
        self.assertEqual(self.engine_probe("livenessProbe"), 0)
        # One that hangs is neither, though its port accepts.
        engine.send_signal(signal.SIGSTOP)
        self.assertIsNone(self.engine_probe("readinessProbe"))
        self.assertIsNone(self.engine_probe("livenessProbe"))

    def of_engine(self, overlay, socket):
        """The environment of a proxy of an overlay, with the engine at its socket, and its password as mounted."""
        volumes = next(pod(it)["volumes"] for it in self.rendered[overlay] if self.has_proxy(it))
        (volume,) = (it for it in volumes if it["name"] == "engine")
        password = self.directory / "engine/password"
        self.give(password, volume["secret"]["defaultMode"])
        given = self.environment(self.container(overlay, "courtesy"))
        self.assertEqual(given["COURTESY__ENGINE__NAME"], "{metadata.name}")
        given["COURTESY__ENGINE__NAME"] = "pod-of-this-name"
        given["COURTESY__ENGINE__URL"] = f"redis+unix://{socket}"
        given["COURTESY__ENGINE__PASSWORD_FILE"] = str(password)
        return given

    def has_proxy(self, resource):
        return "courtesy" in [it["name"] for it in containers(resource)]

    def test_a_sidecar_of_a_cluster_reaches_the_engine_with_the_rights_of_its_secret(self):
        rights = (KUBERNETES / "engine/rights").read_text().strip()
        page = read("docs/operate/cluster.md").replace("\n", " ")
        self.assertIn(rights.split("script|load")[0].split("-@all ")[1], page)
        _, socket = self.engine()
        trust = self.container("cluster", "trust")
        self.run_as(trust, *trust["args"])
        command = [self.courtesy, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        served = Served(self, self.of_engine("cluster", socket), command=command, **self.as_nobody)
        until("the engine is reached", lambda: "\ncourtesy_engine_up 1\n" in served.metrics())
        # Requests that share what they find leave no fault of rights.
        self.assertIn('courtesy_engine_errors_total{kind="permission"} 0', served.metrics())
        self.assertIn("\ncourtesy_engine_may_evict 0\n", served.metrics())

    def gateway(self, name, socket):
        """A proxy of gateway-ha, as a pod of that name with a claim of its own."""
        state = self.directory / name
        for directory in [state, state / "clients"]:
            directory.mkdir(exist_ok=True)
            self.give(directory, 0o2770)
        given = self.of_engine("gateway-ha", socket)
        self.assertEqual(given["COURTESY__LIMITS__DRAIN_DELAY"], "10s")
        given |= {"COURTESY__LIMITS__DRAIN_DELAY": "0s", "COURTESY__ENGINE__NAME": name, "STATE_DIRECTORY": str(state)}
        command = [self.courtesy, *self.container("gateway-ha", "courtesy")["args"]]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        served = Served(self, given, command=command, **self.as_nobody)
        served.admin = served.address("health and metrics")
        return served

    def test_a_gateway_is_ready_once_it_has_reached_the_engine(self):
        engine, socket = self.engine()
        engine.send_signal(signal.SIGSTOP)
        self.credentials()
        served = self.gateway("courtesy-0", socket)
        self.assertEqual(status(f"http://{served.admin}/readyz"), 503)
        engine.send_signal(signal.SIGCONT)
        until("it is ready", lambda: status(f"http://{served.admin}/readyz") == 200)
        self.assertEqual(served.end(), 0)

    def test_three_gateways_are_three_proxies_and_a_new_pod_takes_the_place_of_the_one_before(self):
        _, socket = self.engine()
        self.credentials()
        owner = next(it for it in self.rendered["gateway-ha"] if it["kind"] == "StatefulSet" and self.has_proxy(it))
        pods = [self.gateway(f"courtesy-{number}", socket) for number in range(owner["spec"]["replicas"])]
        ask = lambda served, path: answer(f"http://{served.admin}/{path}", "a-token-of-the-operator")
        for served in pods:
            until("it counts three", lambda: "\ncourtesy_engine_members 3\n" in ask(served, "metrics")[1])
            code, said = ask(served, "readyz")
            self.assertEqual((code, "degraded" in said), (200, False), said)
        pods[2].process.kill()
        pods[2].process.wait()
        pods[2] = self.gateway("courtesy-2", socket)
        for served in pods:
            until("it is ready", lambda: ask(served, "readyz")[0] == 200)
            # The one that was killed counts until it has missed three heartbeats.
            until("it counts three", lambda: "\ncourtesy_engine_members 3\n" in ask(served, "metrics")[1])
        for served in pods:
            self.assertEqual(served.end(), 0)

    def credentials(self):
        """The Secrets of a gateway, as they are mounted."""
        credentials = self.directory / "credentials"
        credentials.mkdir()
        self.succeed(
            *"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9".split(),
            *["-subj", "/CN=Ours", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
            *["-out", credentials / "ca.crt", "-keyout", credentials / "ca.key"],
        )
        (credentials / "admin.token").write_text("a-token-of-the-operator")
        volumes = next(pod(it)["volumes"] for it in self.rendered["shared"] if it["kind"] == "StatefulSet")
        (volume,) = (it for it in volumes if "projected" in it)
        for file in credentials.iterdir():
            self.give(file, volume["projected"]["defaultMode"])

    def test_the_shared_proxy_starts_by_its_secrets(self):
        self.credentials()
        proxy = self.container("shared", "courtesy")
        served = self.serve(proxy)
        self.assertIn("CN=Ours", served.said())
        self.assertFalse((self.directory / "state/ca").exists())
        self.probe(proxy)
        self.assertEqual(status(f"http://{self.admin}/metrics"), 401)
        self.assertEqual(status(f"http://{self.admin}/metrics", "a-token-of-the-operator"), 200)


def status(url, token=None):
    return answer(url, token)[0]


def answer(url, token=None):
    """Its status and body."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
