"""The scenario of compose.yaml, as processes: each network is one of Linux's name spaces, and each service
runs with the command, environment and volumes that are written there. This program is started again inside,
so that all of it is gone when it ends."""

import json
import os
import pathlib
import subprocess
import sys
import time

import yaml

from support import COURTESY, DEADLINE, ROOT, Case, read

# What is outside: the site that compose.yaml names, at an address that could be anybody's.
SITE, SITE_ADDRESS, OUTSIDE_ADDRESS = "example.com", "93.184.215.14", "93.184.215.1"
SCRAPY = ROOT / "target/test-python/bin/scrapy"


class Scenario(Case):
    def test_the_crawler_reaches_the_site_through_the_proxy_and_not_around_it(self):
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        unshare = ["unshare", *user, "--net", "--mount", "--propagation", "private", "--kill-child", "--fork"]
        self.succeed(*unshare, sys.executable, __file__, self.directory)
        items = json.loads((self.directory / "items.json").read_text())
        told = {it["url"].removeprefix(f"https://{SITE}"): it["status"] for it in items}
        self.assertEqual(told, {"/": 200, "/a": 200, "/private/b": 403})
        asked = [json.loads(line) for line in (self.directory / "asked").read_text().splitlines()]
        self.assertEqual([it for it in asked if it["path"].startswith("/private")], [])
        self.assertEqual({it["from"] for it in asked}, {OUTSIDE_ADDRESS})
        self.assertEqual({it["path"] for it in asked}, {"/robots.txt", "/", "/a"})
        around = json.loads((self.directory / "around.json").read_text())
        self.assertEqual(around, {"courtesy": True, "crawler": False})
        (record,) = [
            line for line in (self.directory / "denials.jsonl").read_text().splitlines() if '"reason"' in line
        ]
        self.assertEqual(json.loads(record)["url"], f"https://{SITE}/private/b")


class Inside:
    """The services, in networks of their own."""

    def __init__(self, directory):
        self.directory = directory
        self.compose = yaml.safe_load(read("compose.yaml"))
        self.processes = []

    def run(self, *command, network=None, **others):
        return subprocess.run(self.within(network, command), check=True, timeout=60, **others)

    def start(self, *command, network, **others):
        self.processes.append(subprocess.Popen(self.within(network, command), **others))

    def within(self, network, command):
        within = ["ip", "netns", "exec", network] if network else []
        return [*map(str, [*within, *command])]

    def environment(self, service):
        given = self.compose["services"][service].get("environment", {})
        given = {name: value.replace("${START_URL:-", "").replace("}", "") for name, value in given.items()}
        # As the Dockerfile has it.
        return {"PATH": os.environ["PATH"], "STATE_DIRECTORY": "/var/lib/courtesy"} | given

    def networks(self):
        """The crawler and the proxy on one, the proxy and the site on the other, and no way between them."""
        subnet = self.compose["networks"]["crawl"]["ipam"]["config"][0]["subnet"]
        at = lambda host: subnet.replace(".0/", f".{host}/")
        self.proxy = at(2).split("/")[0]
        for directory in ["/run", "/var/lib"]:
            self.run("mount", "-t", "tmpfs", "none", directory)
        os.makedirs("/run/netns")
        for name in ["crawler", "courtesy", "site"]:
            self.run("ip", "netns", "add", name)
            self.run("ip", "-n", name, "link", "set", "lo", "up")
        for name, ends in [
            ("crawl", {"crawler": at(3), "courtesy": at(2)}),
            ("outside", {"courtesy": f"{OUTSIDE_ADDRESS}/24", "site": f"{SITE_ADDRESS}/24"}),
        ]:
            one, other = ends
            veth = ["name", name, "netns", one, "type", "veth", "peer", "name", name, "netns", other]
            self.run("ip", "link", "add", *veth)
            for end, address in ends.items():
                self.run("ip", "-n", end, "address", "add", address, "dev", name)
                self.run("ip", "-n", end, "link", "set", name, "up")
        hosts = self.directory / "hosts"
        # The crawler could find the site by its name, and is not to reach it all the same.
        hosts.write_text(f"127.0.0.1 localhost\n{self.proxy} courtesy\n{SITE_ADDRESS} {SITE}\n")
        self.run("mount", "--bind", hosts, os.path.realpath("/etc/hosts"))

    def volumes(self):
        for directory in ["state", "trust"]:
            (self.directory / directory).mkdir()
        state = pathlib.Path("/var/lib/courtesy")
        state.mkdir()
        self.run("mount", "--bind", self.directory / "state", state)
        (state / "clients").mkdir()
        self.run("mount", "--bind", self.directory / "trust", state / "clients")

    def site(self):
        made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -keyout"
        made = ["openssl", *made.split()]
        at = lambda name: self.directory / name
        quiet = {"stderr": subprocess.DEVNULL}
        self.run(*made, at("root.key"), "-out", at("root.pem"), "-subj", "/CN=Root", **quiet)
        leaf = ["-subj", f"/CN={SITE}", "-addext", f"subjectAltName=DNS:{SITE}", "-addext", "basicConstraints=CA:FALSE"]
        by = ["-CA", at("root.pem"), "-CAkey", at("root.key")]
        self.run(*made, at("site.key"), "-out", at("site.pem"), *leaf, *by, **quiet)
        self.start(sys.executable, ROOT / "tests/deploy/site.py", self.directory, network="site")

    def services(self):
        courtesy = self.environment("courtesy")
        # The one thing that is not as it is written: the world's authorities do not know this site.
        courtesy["COURTESY__TLS__EXTRA_ROOTS"] = str(self.directory / "root.pem")
        self.run(COURTESY, *self.compose["services"]["trust"]["command"], env=courtesy, stdout=subprocess.DEVNULL)
        self.start(COURTESY, "serve", network="courtesy", env=courtesy)
        self.wait_for(lambda: self.answers([COURTESY, "health"], "courtesy", env=courtesy))
        self.wait_for(lambda: self.can_connect("courtesy"))
        crawler = self.environment("crawler")
        spider = ROOT / "deploy/compose/crawler/spider.py"
        command = [SCRAPY, "runspider", spider, "--overwrite-output", self.directory / "items.json"]
        # Nothing of the state but what is to be trusted is the crawler's.
        self.run(*command, network="crawler", env=crawler, cwd=self.directory)
        around = {network: self.can_connect(network) for network in ["courtesy", "crawler"]}
        (self.directory / "around.json").write_text(json.dumps(around))
        records = self.directory / "state/audit/denials.jsonl"
        (self.directory / "denials.jsonl").write_text(records.read_text())

    def can_connect(self, network):
        """Whether the site can be reached from there without a proxy."""
        connect = f"import socket; socket.create_connection(({SITE!r}, 443), 5)"
        return self.answers([sys.executable, "-c", connect], network)

    def answers(self, command, network, **others):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run(self.within(network, command), **quiet, **others).returncode == 0

    def wait_for(self, seen):
        end = time.monotonic() + DEADLINE
        while not seen():
            assert time.monotonic() < end, "it does not come up"
            time.sleep(0.1)

    @classmethod
    def main(cls):
        """Plays the scenario in the directory that the command line names."""
        inside = cls(pathlib.Path(sys.argv[1]))
        try:
            inside.networks()
            inside.volumes()
            inside.site()
            inside.services()
        finally:
            for process in inside.processes:
                process.terminate()
                process.wait(DEADLINE)


if __name__ == "__main__":
    Inside.main()
