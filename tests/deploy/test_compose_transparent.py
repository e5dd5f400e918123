"""The profile "transparent" of compose.yaml, as processes: a crawler in the network of a proxy, to which rules
of nftables lead it. As in test_compose.py, whose site this is."""

import json
import os
import shutil
import subprocess
import sys

from support import COURTESY, Case
from test_compose import OUTSIDE_ADDRESS, SITE, SITE_ADDRESS, Inside

PROXY, CRAWLER = "courtesy-transparent", "crawler-transparent"
# The user of the image.
OF_IMAGE = "65532:65532"
# What the spider of the image does: it follows the links of the site, and tells each status.
CRAWL = """
import json, os, re, sys, urllib.error, urllib.parse, urllib.request
told, next = {}, [os.environ["START_URL"]]
while next:
    url = next.pop()
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            status, body = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, body = error.code, ""
    told[urllib.parse.urlsplit(url).path] = status
    next += [urllib.parse.urljoin(url, it) for it in re.findall('href="([^"]*)"', body)]
print(json.dumps(told))
"""


class Scenario(Case):
    def test_rules_lead_a_crawler_without_a_proxy_to_it(self):
        if os.geteuid() != 0:
            self.skipTest("only root can run a crawler as another user than the proxy")
        self.directory.chmod(0o711)
        unshare = ["unshare", "--net", "--mount", "--propagation", "private", "--kill-child", "--fork"]
        self.succeed(*unshare, sys.executable, __file__, self.directory)
        told = json.loads((self.directory / "told.json").read_text())
        self.assertEqual(told["before"], {"/": 200, "/a": 200, "/private/b": 200})
        self.assertEqual(told["after"], {"/": 200, "/a": 200, "/private/b": 403})
        asked = [json.loads(line) for line in (self.directory / "asked").read_text().splitlines()]
        after = asked[[it["path"] for it in asked].index("/robots.txt") :]
        self.assertEqual(sorted(it["path"] for it in after), ["/", "/a", "/robots.txt"])
        (record,) = [
            line for line in (self.directory / "denials.jsonl").read_text().splitlines() if '"reason"' in line
        ]
        self.assertEqual(json.loads(record)["url"], f"https://{SITE}/private/b")


class Transparent(Inside):
    def networks(self):
        """One for the proxy, the rules and the crawler; the other is the site's."""
        for directory in ["/run", "/var/lib"]:
            self.run("mount", "-t", "tmpfs", "none", directory)
        os.makedirs("/run/netns")
        for name in [PROXY, "site"]:
            self.run("ip", "netns", "add", name)
            self.run("ip", "-n", name, "link", "set", "lo", "up")
        ends = {PROXY: f"{OUTSIDE_ADDRESS}/24", "site": f"{SITE_ADDRESS}/24"}
        veth = ["name", "outside", "netns", PROXY, "type", "veth", "peer", "name", "outside", "netns", "site"]
        self.run("ip", "link", "add", *veth)
        for end, address in ends.items():
            self.run("ip", "-n", end, "address", "add", address, "dev", "outside")
            self.run("ip", "-n", end, "link", "set", "outside", "up")
        hosts = self.directory / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{SITE_ADDRESS} {SITE}\n")
        self.run("mount", "--bind", hosts, os.path.realpath("/etc/hosts"))

    def volumes(self):
        super().volumes()
        for path in ["/var/lib/courtesy", "/var/lib/courtesy/clients"]:
            self.run("chown", OF_IMAGE, path)

    def of(self, service, *command):
        """A command as the user of a service, with the capabilities that it has."""
        written = self.compose["services"][service]
        user, group = written.get("user", OF_IMAGE).split(":")
        bounds = ",".join(["-all", *(f"+{it.lower()}" for it in written.get("cap_add", []))])
        closed = [f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", f"--bounding-set={bounds}"]
        if user != "0":
            closed.append("--inh-caps=-all")
        return ["setpriv", *closed, *command]

    def services(self):
        # The one that is tested may be where only root may look.
        courtesy = shutil.copy(COURTESY, self.directory / "courtesy")
        given = self.environment(PROXY) | {"COURTESY__TLS__EXTRA_ROOTS": str(self.directory / "root.pem")}
        trust = self.of("trust-transparent", courtesy, *self.compose["services"]["trust-transparent"]["command"])
        self.run(*trust, env=given, stdout=subprocess.DEVNULL)
        self.start(*self.of(PROXY, courtesy, "serve"), network=PROXY, env=given)
        self.wait_for(lambda: self.answers(self.of(PROXY, courtesy, "health"), PROXY, env=given))
        self.wait_for(lambda: self.can_connect(PROXY))
        # Without rules it goes around: it has to trust the site itself for that.
        before = self.crawl({"SSL_CERT_FILE": str(self.directory / "root.pem")})
        rules = [courtesy, "redirect", *self.compose["services"]["redirect"]["command"]]
        self.run(*self.of("redirect", *rules), network=PROXY, env=given)
        told = {"before": before, "after": self.crawl({})}
        (self.directory / "told.json").write_text(json.dumps(told))
        records = self.directory / "state/audit/denials.jsonl"
        (self.directory / "denials.jsonl").write_text(records.read_text())

    def crawl(self, variables):
        crawler = self.of(CRAWLER, "/usr/bin/python3", "-c", CRAWL)
        given = self.environment(CRAWLER) | variables
        done = self.run(*crawler, network=PROXY, env=given, stdout=subprocess.PIPE)
        return json.loads(done.stdout)


if __name__ == "__main__":
    Transparent.main()
