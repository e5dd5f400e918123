"""A real Prometheus, to which the alert rules are given: beside a scripted exporter each of them fires, and
beside running proxies those that are cheap to provoke."""

import http.server
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import yaml

from manifests import KUBERNETES, render
from support import COURTESY, DEADLINE, ROOT, Case, Served, tool, until

RULES = ROOT / "deploy/observability/alerts.yaml"
TESTS = ROOT / "deploy/observability/alerts.test.yaml"
TOKEN = "a-token-of-the-operator"


def names():
    return {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


class Prometheus:
    """One with our rules, which have to hold for a second only, and what it is to scrape."""

    def __init__(self, case, jobs):
        directory = case.directory / "prometheus"
        directory.mkdir()
        rules = re.sub(r"^( *for:) .*$", r"\1 1s", RULES.read_text(), flags=re.MULTILINE)
        (directory / "alerts.yaml").write_text(rules)
        often = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
        config = {"global": often, "rule_files": ["alerts.yaml"], "scrape_configs": jobs}
        (directory / "prometheus.yaml").write_text(yaml.dump(config))
        options = [f"--config.file={directory}/prometheus.yaml", f"--storage.tsdb.path={directory}/data"]
        self.log = directory / "log"
        with open(self.log, "wb") as log:
            command = ["prometheus", *options, "--web.listen-address=127.0.0.1:0"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # Each ends before its directory is removed.
        case.addCleanup(process.wait, DEADLINE)
        case.addCleanup(process.kill)
        # Before that it answers 503.
        ready = lambda: "Server is ready" in self.log.read_text()
        until("Prometheus is ready", lambda: process.poll() is not None or ready())
        case.assertIsNone(process.poll(), self.log.read_text())
        self.address = re.search(r'"Listening on" address=(\S+)', self.log.read_text())[1]

    def ask(self, path):
        return json.loads(direct(f"http://{self.address}/api/v1/{path}"))["data"]

    def firing(self):
        """The labels of each alert that fires."""
        return [it["labels"] for it in self.ask("alerts")["alerts"] if it["state"] == "firing"]

    def wait_for(self, wanted):
        try:
            until("they fire", lambda: wanted <= {it["alertname"] for it in self.firing()}, within=3 * DEADLINE)
        except AssertionError:
            missing = wanted - {it["alertname"] for it in self.firing()}
            faults = [it["lastError"] for it in self.ask("targets")["activeTargets"]]
            raise AssertionError(f"these do not fire: {missing}; faults of scrapes: {faults}") from None


def direct(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as answer:
        return answer.read().decode()


def listening(case, handler):
    """The address of a server with this handler, in threads."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)
    return "127.0.0.1:%d" % server.server_address[1]


def refusing(case):
    """An address that nobody else gets, and at which nobody listens."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    case.addCleanup(bound.close)
    return "127.0.0.1:%d" % bound.getsockname()[1]


def expanded(values):
    """promtool's notation: "0+3x2 7" is 0 3 6 7."""
    found = []
    for part in values.split():
        start, step, times = re.fullmatch(r"([\d.]+)(?:\+([\d.]+))?(?:x(\d+))?", part).groups(default="0")
        found += [float(start) + number * float(step) for number in range(int(times) + 1)]
    return found


class Scripted(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed")

    def test_each_rule_fires_beside_an_exporter_at_which_all_goes_wrong(self):
        """The series are those that promtool is given, a minute of them at each scrape."""
        wrong = [it for test in yaml.safe_load(TESTS.read_text())["tests"][:2] for it in test["input_series"]]
        series = {it["series"]: expanded(it["values"]) for it in wrong if not it["series"].startswith("up{")}
        scrapes = iter(range(10**6))

        class Exporter(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                now = next(scrapes)
                lines = [f"{name} {values[min(now, len(values) - 1)]}\n" for name, values in series.items()]
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write("".join(lines).encode())

            def log_message(self, *_):
                pass

        targets = [
            {"targets": [listening(self, Exporter)], "labels": {"instance": "crowded:3129"}},
            {"targets": [refusing(self)], "labels": {"instance": "bad"}},
        ]
        prometheus = Prometheus(self, [{"job_name": "courtesy", "honor_labels": True, "static_configs": targets}])
        prometheus.wait_for(names())


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"User-agent: *\nDisallow: /private/\n" if self.path == "/robots.txt" else b"a page"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Running(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed")
        self.token = self.directory / "admin.token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def engine(self):
        """One that may evict."""
        at = self.directory / "engine.sock"
        options = ["--port", "0", "--save", "", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]
        command = [tool("redis-server"), *options, "--dir", self.directory, "--unixsocket", at]
        engine = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
        self.addCleanup(engine.wait, DEADLINE)
        self.addCleanup(engine.kill)
        until("the engine listens", at.exists)
        return at

    def serve(self, name, engine, **settings):
        """A proxy as a pod of that name: on all addresses, with a token."""
        state = self.directory / name
        state.mkdir()
        (state / "config.toml").write_text("")
        environment = {
            "STATE_DIRECTORY": str(state),
            "COURTESY_CONFIG": str(state / "config.toml"),
            "COURTESY__TLS__ROOTS": "bundled",
            "COURTESY__ENGINE__URL": f"redis+unix://{engine}",
            "COURTESY__ENGINE__NAME": name,
            "COURTESY__ADMIN__TOKEN_FILE": str(self.token),
        }
        environment |= {"COURTESY__" + key: value for key, value in settings.items()}
        command = [COURTESY, "serve", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"]
        served = Served(self, environment, command=command)
        served.admin = served.address("health and metrics").replace("0.0.0.0", "127.0.0.1")
        return served

    def job(self, proxies):
        """What the operator makes of our PodMonitor and these pods."""
        (monitor,) = (it["spec"] for it in render(KUBERNETES / "monitoring/sidecar") if it["kind"] == "PodMonitor")
        (endpoint,) = monitor["podMetricsEndpoints"]
        snake = lambda name: re.sub(r"[A-Z]", lambda it: "_" + it[0].lower(), name)
        own = [{"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"}]
        asked = [{snake(name): value for name, value in it.items()} for it in endpoint["relabelings"]]
        meta = lambda name: {"__meta_kubernetes_namespace": "crawl", "__meta_kubernetes_pod_name": name}
        return {
            "job_name": "podMonitor/crawl/courtesy-sidecars/0",
            "metrics_path": endpoint["path"],
            "authorization": {"credentials_file": str(self.token)},
            "relabel_configs": own + asked,
            "static_configs": [{"targets": [it.admin], "labels": meta(name)} for name, it in proxies.items()],
        }

    def test_what_a_site_an_engine_or_an_operator_can_cause_fires(self):
        engine, nowhere, site = self.engine(), self.directory / "none.sock", listening(self, Site)
        paced = {"PACE__DELAY": "1h", "PACE__MAX_WAIT": "1s", "EGRESS__ALLOW": "127.0.0.0/8"}
        closed = {"EGRESS__PARENT": f"http://{refusing(self)}", "EGRESS__PARENT_RESOLVE": "parent"}
        closed["CLIENTS__MAX_CONNECTIONS"] = "1"
        proxies = {
            "reaches-it": self.serve("reaches-it", engine, **paced),
            "cut-off": self.serve("cut-off", nowhere, **closed),
            "killed": self.serve("killed", engine),
            "other": self.serve("other", engine),
        }
        of = lambda name: direct(f"http://{proxies[name].admin}/metrics", Authorization=f"Bearer {TOKEN}")
        until("the engine is reached by three", lambda: "\ncourtesy_engine_members 3\n" in of("reaches-it"))
        prometheus = Prometheus(self, [self.job(proxies)])
        up = lambda: {it["metric"]["instance"]: it["value"][1] for it in prometheus.ask("query?query=up")["result"]}
        until("all are scraped", lambda: up() == {f"crawl/{name}": "1" for name in proxies})

        # The first may wait, too: what others have started just before is not known.
        self.assertGreaterEqual(statuses(proxies["reaches-it"].address(), f"http://{site}/", 30)[429], 29)
        self.turn_away(proxies["cut-off"].address())
        (self.directory / "cut-off/config.toml").write_text("[robots\n")
        proxies["killed"].process.kill()
        # Of what is open it gets a tenth more.
        pid = proxies["cut-off"].process.pid
        count = len(os.listdir(f"/proc/{pid}/fd"))
        most = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(count + 3, count * 11 // 10), most))

        wanted = {
            "CourtesyPaceRefusals": "crawl/reaches-it",
            "CourtesyEngineMayEvict": "crawl/reaches-it",
            "CourtesyEngineSettingsDiffer": "crawl/reaches-it",
            "CourtesyEngineAway": "crawl/cut-off",
            "CourtesyClientsTurnedAway": "crawl/cut-off",
            "CourtesyParentDown": "crawl/cut-off",
            "CourtesyReloadFailed": "crawl/cut-off",
            "CourtesyFileDescriptors": "crawl/cut-off",
            "CourtesyDown": "crawl/killed",
        }
        of_all = {"CourtesyEngineSeenBySome", "CourtesyEngineProxiesMissing"}
        prometheus.wait_for(wanted.keys() | of_all)
        firing = {(it["alertname"], it.get("instance")) for it in prometheus.firing()}
        self.assertLessEqual(set(wanted.items()), firing)
        for name in of_all:
            some = [it for it in prometheus.firing() if it["alertname"] == name]
            self.assertEqual([(it["job"], it["namespace"]) for it in some], [("courtesy", "crawl")], name)

    def turn_away(self, address):
        """Asks for a page by the parent, on the one connection that there may be, and opens others beside it."""
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), DEADLINE) as first:
            first.sendall(b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n")
            self.assertRegex(first.recv(65536), rb"HTTP/1.1 (403|50\d) ")
            for _ in range(20):
                with socket.create_connection((host, int(port)), DEADLINE) as another:
                    another.sendall(b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n")
                    self.assertIn(b" 503 ", another.recv(65536))


def statuses(proxy, url, times):
    """How often each status was answered."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{proxy}"}))
    found = {}
    for _ in range(times):
        try:
            with opener.open(url, timeout=DEADLINE) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        found[status] = found.get(status, 0) + 1
    return found
