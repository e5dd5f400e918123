"""The profile "cluster" of compose.yaml, as processes: two proxies with one engine, two crawlers of one site.
As in test_compose.py, whose networks and site these are; Debian has redis-server in the place of Valkey."""

import ipaddress
import json
import os
import subprocess
import sys
from collections import Counter

from support import COURTESY, DEADLINE, ROOT, Case
from test_compose import SCRAPY, SITE, SITE_ADDRESS, Inside

PROXIES = ["courtesy-1", "courtesy-2"]
CRAWLERS = ["crawler-1", "crawler-2"]
# A gateway of each network, and where its services begin.
OUTSIDE, ENGINE = ipaddress.ip_network("93.184.215.0/24"), ipaddress.ip_network("172.31.29.0/24")


class Scenario(Case):
    def test_two_proxies_ask_a_site_for_its_robots_txt_once_and_let_their_crawlers_in(self):
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        unshare = ["unshare", *user, "--net", "--mount", "--propagation", "private", "--kill-child", "--fork"]
        self.succeed(*unshare, sys.executable, __file__, self.directory)
        for crawler in CRAWLERS:
            items = json.loads((self.directory / f"{crawler}.json").read_text())
            told = {it["url"].removeprefix(f"https://{SITE}"): it["status"] for it in items}
            self.assertEqual(told, {"/": 200, "/a": 200, "/private/b": 403}, crawler)
        asked = [json.loads(line) for line in (self.directory / "asked").read_text().splitlines()]
        self.assertEqual(Counter(it["path"] for it in asked), {"/robots.txt": 1, "/": 2, "/a": 2})
        self.assertEqual(len({it["from"] for it in asked if it["path"] == "/a"}), 2, "through both proxies")
        reached = json.loads((self.directory / "reached.json").read_text())
        self.assertEqual(reached.pop("members"), ["2", "2"])
        to_engine = {name: name.startswith("courtesy") for name in [*PROXIES, *CRAWLERS]}
        self.assertEqual(reached, {"engine": to_engine, "site": to_engine})


class Cluster(Inside):
    def networks(self):
        """Each network a bridge, each service with an address on those that it names."""
        crawl = ipaddress.ip_network(self.compose["networks"]["crawl"]["ipam"]["config"][0]["subnet"])
        subnets = {"crawl": crawl, "outside": OUTSIDE, "engine": ENGINE}
        self.assert_closed()
        for directory in ["/run", "/var/lib"]:
            self.run("mount", "-t", "tmpfs", "none", directory)
        os.makedirs("/run/netns")
        services = [*PROXIES, *CRAWLERS, "engine"]
        members = {it: self.compose["services"][it]["networks"] for it in services} | {"site": ["outside"]}
        for network in subnets:
            self.run("ip", "link", "add", network, "type", "bridge")
            self.run("ip", "link", "set", network, "up")
        hosts = ["127.0.0.1 localhost", f"{SITE_ADDRESS} {SITE}"]
        for number, (service, networks) in enumerate(members.items()):
            self.run("ip", "netns", "add", service)
            self.run("ip", "-n", service, "link", "set", "lo", "up")
            for network in networks:
                subnet = subnets[network]
                address = SITE_ADDRESS if service == "site" else subnet[20 + number]
                outer = f"{network[:4]}{number}"
                veth = ["name", outer, "type", "veth", "peer", "name", network, "netns", service]
                self.run("ip", "link", "add", *veth)
                self.run("ip", "link", "set", outer, "master", network, "up")
                self.run("ip", "-n", service, "address", "add", f"{address}/{subnet.prefixlen}", "dev", network)
                self.run("ip", "-n", service, "link", "set", network, "up")
                # The engine by its own network, a proxy by that of its crawler.
                if network == ("engine" if service == "engine" else "crawl"):
                    hosts.append(f"{address} {service}")
        path = self.directory / "hosts"
        path.write_text("\n".join(hosts) + "\n")
        self.run("mount", "--bind", path, os.path.realpath("/etc/hosts"))

    def assert_closed(self):
        """No network but that of the proxies leads outside."""
        internal = {name for name, it in self.compose["networks"].items() if it.get("internal")}
        assert internal == {"crawl", "engine"}, internal

    def volumes(self):
        os.makedirs("/var/lib/courtesy")
        for number in "12":
            (self.directory / f"state-{number}/clients").mkdir(parents=True)
            (self.directory / f"trust-{number}").mkdir()

    def of(self, service, network, *command):
        """A command with the volumes and the network of a service."""
        mounts = []
        for volume in self.compose["services"][service]["volumes"]:
            name, at = volume.split(":")[:2]
            mounts.append(f"mkdir -p {at}; mount --bind {self.directory / name} {at}")
        script = "; ".join([*mounts, 'exec "$@"'])
        within = ["ip", "netns", "exec", network] if network else ["unshare", "--mount"]
        return [str(it) for it in [*within, "sh", "-ec", script, "sh", *command]]

    def start_service(self, service, *command, **others):
        self.processes.append(subprocess.Popen(self.of(service, service, *command), **others))

    def services(self):
        _, *arguments = self.compose["services"]["engine"]["command"]
        data = self.directory / "engine"
        data.mkdir()
        arguments = [str(data) if it == "/data" else it for it in arguments]
        # Of a container with a network of its own, as here.
        self.start("redis-server", *arguments, "--protected-mode", "no", network="engine", stdout=subprocess.DEVNULL)
        for number, proxy in enumerate(PROXIES, 1):
            given = self.environment(proxy) | {"COURTESY__TLS__EXTRA_ROOTS": str(self.directory / "root.pem")}
            trust = f"trust-{number}"
            made = self.of(trust, None, COURTESY, *self.compose["services"][trust]["command"])
            subprocess.run(made, check=True, timeout=60, env=given, stdout=subprocess.DEVNULL)
            self.start_service(proxy, COURTESY, "serve", env=given)
        for proxy in PROXIES:
            health = self.of(proxy, proxy, COURTESY, "health")
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.wait_for(lambda: subprocess.run(health, env=self.environment(proxy), **quiet).returncode == 0)
        self.wait_for(lambda: self.can_connect("courtesy-1"))
        self.wait_for(lambda: self.members() == ["2", "2"])
        crawlers = []
        for crawler in CRAWLERS:
            spider = ROOT / "deploy/compose/crawler/spider.py"
            command = [SCRAPY, "runspider", spider, "--overwrite-output", self.directory / f"{crawler}.json"]
            crawl = self.of(crawler, crawler, *command)
            crawlers.append(subprocess.Popen(crawl, env=self.environment(crawler), cwd=self.directory))
        for crawler in crawlers:
            assert crawler.wait(3 * DEADLINE) == 0
        names = [*PROXIES, *CRAWLERS]
        reached = {
            "engine": {name: self.can_reach(name, "engine", 6379) for name in names},
            "site": {name: self.can_connect(name) for name in names},
            "members": self.members(),
        }
        (self.directory / "reached.json").write_text(json.dumps(reached))

    def members(self):
        """How many proxies each proxy knows of."""
        ask = "import urllib.request as it; print(it.urlopen('http://127.0.0.1:3129/metrics').read().decode())"
        found = []
        for proxy in PROXIES:
            command = self.within(proxy, [sys.executable, "-c", ask])
            text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            lines = [it.split() for it in text.splitlines() if it.startswith("courtesy_engine_members ")]
            found += [value for _, value in lines]
        return found

    def can_reach(self, network, host, port):
        connect = f"import socket; socket.create_connection(({host!r}, {port}), 5)"
        return self.answers([sys.executable, "-c", connect], network)


if __name__ == "__main__":
    Cluster.main()
