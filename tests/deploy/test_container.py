"""The Dockerfiles and compose.yaml, as they are written."""

import fnmatch
import re

import yaml

from support import ROOT, Case, cargo, read

CRAWLER = "deploy/compose/crawler"
REDIRECT = "deploy/redirect/Dockerfile"


def instructions(dockerfile):
    """Each instruction with its argument, lines joined and comments left out."""
    text = re.sub(r"^#.*\n", "", read(dockerfile), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def of(dockerfile, name):
    return [argument for found, argument in instructions(dockerfile) if found == name]


class Image(Case):
    def test_the_linter_finds_nothing(self):
        self.succeed("hadolint", ROOT / "Dockerfile", ROOT / CRAWLER / "Dockerfile", ROOT / REDIRECT)

    def test_what_is_copied_is_there_and_not_ignored(self):
        kept = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
        self.assertIn("*", read(".dockerignore").splitlines())
        for argument in of("Dockerfile", "COPY"):
            if argument.startswith("--from"):
                continue
            for source in argument.split()[:-1]:
                self.assertTrue((ROOT / source).exists(), source)
                is_kept = any(fnmatch.fnmatch(source, it) or source.startswith(f"{it}/") for it in kept)
                self.assertTrue(is_kept, f"{source} is ignored")

    def test_it_fits_the_manifest(self):
        package = cargo()["package"]
        arguments = dict(it.split("=", 1) for it in of("Dockerfile", "ARG") if "=" in it)
        self.assertEqual(arguments["VERSION"], package["version"])
        self.assertEqual(arguments["BUILD_IMAGE"], f"rust:{package['rust-version']}-bookworm")
        # Cargo wants the files that the manifest names to be there.
        script = re.search(r"sed -n '(.*?)' Cargo.toml >benches/all", " ".join(of("Dockerfile", "RUN")))[1]
        benches = self.succeed("sed", "-n", script, ROOT / "Cargo.toml").split()
        self.assertEqual(benches, [f"benches/{bench['name']}.rs" for bench in cargo()["bench"]])

    def test_what_it_depends_on_is_built_before_its_sources_come(self):
        order = instructions("Dockerfile")
        first = next(index for index, (name, it) in enumerate(order) if name == "RUN" and "packaging/compile" in it)
        sources = next(index for index, it in enumerate(order) if it == ("COPY", "src src"))
        self.assertLess(first, sources)
        # By the same flags both times, or the second would build all of it again.
        self.assertEqual(sum("packaging/compile --no-profile" in it for it in of("Dockerfile", "RUN")), 2)
        self.assertEqual(sum("RUSTFLAGS" in it for _, it in order), 1)

    def test_the_profile_is_recorded_unless_it_is_declined(self):
        runs = of("Dockerfile", "RUN")
        self.assertIn("PROFILE=yes", of("Dockerfile", "ARG"))
        self.assertIn('if [ "$PROFILE" = no ]; then packaging/compile --no-profile; else packaging/compile; fi', runs[-1])
        copied = " ".join(it for it in of("Dockerfile", "COPY"))
        for source in ["packaging/record", "packaging/train", "benches/proxy", "tests/conformance"]:
            self.assertIn(source, copied)

    def test_it_is_nobody_with_one_place_to_write_and_asks_itself(self):
        for dockerfile in ["Dockerfile", f"{CRAWLER}/Dockerfile"]:
            self.assertRegex(of(dockerfile, "USER")[-1], r"^[1-9]\d+:[1-9]\d+$")
        self.assertEqual(of("Dockerfile", "VOLUME"), ["/var/lib/courtesy"])
        self.assertEqual(of("Dockerfile", "ENV")[-1], "STATE_DIRECTORY=/var/lib/courtesy")
        self.assertIn('CMD ["/usr/bin/courtesy", "health"]', of("Dockerfile", "HEALTHCHECK")[0])
        self.assertEqual(of("Dockerfile", "ENTRYPOINT"), ['["/usr/bin/courtesy"]'])

    def test_it_takes_the_time_and_the_base_images_from_outside(self):
        names = {it.split("=")[0] for it in of("Dockerfile", "ARG")}
        self.assertLessEqual({"BUILD_IMAGE", "RUN_IMAGE", "SOURCE_DATE_EPOCH"}, names)
        self.assertEqual([it.split()[0] for it in of("Dockerfile", "FROM")], ["${BUILD_IMAGE}", "${RUN_IMAGE}"])


class Redirect(Case):
    """The image of the init container that makes the rules of a pod's network."""

    def test_it_has_what_courtesy_redirect_runs(self):
        self.assertIn("nftables", " ".join(of(REDIRECT, "RUN")))
        self.assertEqual(of(REDIRECT, "COPY"), ["--from=courtesy /usr/bin/courtesy /usr/bin/courtesy"])
        self.assertEqual(of(REDIRECT, "ENTRYPOINT"), ['["/usr/bin/courtesy", "redirect"]'])
        # Root is asked for where it is needed.
        self.assertRegex(of(REDIRECT, "USER")[-1], r"^[1-9]\d+:[1-9]\d+$")

    def test_its_c_library_is_that_of_the_proxys_image(self):
        arguments = dict(it.split("=", 1) for it in of(REDIRECT, "ARG"))
        self.assertIn("bookworm", arguments["RUN_IMAGE"])
        self.assertIn("debian12", " ".join(of("Dockerfile", "ARG")))


class Compose(Case):
    def setUp(self):
        super().setUp()
        self.compose = yaml.safe_load(read("compose.yaml"))
        self.services = self.compose["services"]

    def test_the_schema_takes_it(self):
        self.succeed("check-jsonschema", "--builtin-schema", "vendor.compose-spec", ROOT / "compose.yaml")

    def test_every_service_is_closed(self):
        for service in self.services.values():
            self.assertIs(service["read_only"], True)
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertEqual(service["security_opt"], ["no-new-privileges:true"])

    def test_the_crawler_has_no_way_out_but_the_proxy_and_no_key(self):
        networks = self.compose["networks"]
        self.assertEqual(self.services["crawler"]["networks"], ["crawl"])
        self.assertIs(networks["crawl"]["internal"], True)
        self.assertEqual(self.services["courtesy"]["networks"], ["crawl", "outside"])
        self.assertEqual(self.services["crawler"]["volumes"], ["trust:/var/lib/courtesy/clients:ro"])
        allowed = self.services["courtesy"]["environment"]["COURTESY__CLIENTS__ALLOW"]
        self.assertEqual(networks["crawl"]["ipam"]["config"], [{"subnet": allowed}])
        waits = self.services["crawler"]["depends_on"]["courtesy"]["condition"]
        self.assertEqual(waits, "service_healthy")

    def test_rules_lead_a_crawler_to_the_proxy_before_it_starts(self):
        names = ["courtesy-transparent", "redirect", "crawler-transparent"]
        proxy, redirect, crawler = (self.services[name] for name in names)
        self.assertEqual(proxy["networks"], ["outside"])
        for service in [redirect, crawler]:
            self.assertEqual(service["network_mode"], "service:courtesy-transparent")
        # A new start would be a network without rules.
        self.assertEqual([it.get("restart", "no") for it in [proxy, redirect, crawler]], ["no"] * 3)
        waits = crawler["depends_on"]
        self.assertEqual(waits["redirect"]["condition"], "service_completed_successfully")
        self.assertEqual(waits["courtesy-transparent"]["condition"], "service_healthy")
        self.assertEqual((redirect["user"], redirect["cap_add"]), ("0:0", ["NET_ADMIN"]))
        (user,) = of("Dockerfile", "USER")
        self.assertEqual(redirect["command"], ["apply", f"--uid={user.split(':')[0]}"])
        user, group = user.split(":")
        self.assertNotIn(crawler["user"].split(":")[0], ["0", user])
        self.assertEqual(crawler["user"].split(":")[1], group)
        self.assertEqual(crawler["volumes"], ["trust-transparent:/var/lib/courtesy/clients:ro"])
        self.assertEqual([name for name in crawler["environment"] if "http" in name.lower()], [])

    def test_its_crawler_is_the_one_that_is_tried(self):
        tried = read("tests/requirements.txt").splitlines()
        for line in read(f"{CRAWLER}/requirements.txt").splitlines():
            self.assertIn(line, tried)
