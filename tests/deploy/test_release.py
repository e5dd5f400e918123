"""The action and the workflow of a release: what can be tried of them without the machines that run them."""

import json
import os
import re
import subprocess
import tarfile

import yaml
from support import COURTESY, ROOT, Case, cargo, read, tool

WORKFLOWS = [".github/workflows/ci.yml", ".github/workflows/release.yml"]
ACTION = yaml.safe_load(read("action.yml"))


class Action(Case):
    """Its steps, run as a runner does it, with a site on loopback."""

    def setUp(self):
        super().setUp()
        self.site = subprocess.Popen([ROOT / "packaging/try/inside/origin"], env={**os.environ, "PORT": "0"},
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.site.communicate)
        self.addCleanup(self.site.kill)
        self.url = f"http://127.0.0.1:{self.site.stdout.readline().strip()}"
        (self.directory / "courtesy/bin").mkdir(parents=True)
        (self.directory / "courtesy/bin/courtesy").symlink_to(COURTESY)

    def step(self, name, **environment):
        """The exit code, the output, and what the step has told the runner."""
        (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == name or step["name"] == name]
        outputs = self.directory / f"outputs-{name}"
        files = {"GITHUB_OUTPUT": outputs, "GITHUB_STEP_SUMMARY": self.directory / "summary.md",
                 "GITHUB_PATH": self.directory / "path"}
        outputs.write_text("")
        self.assertLessEqual(set(environment), set(step["env"]))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COURTESY_")}
        environment = {**dict.fromkeys(step["env"], ""), **environment, **files, "RUNNER_TEMP": self.directory,
                       "HOME": self.directory}
        done = subprocess.run([tool("bash"), "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                              cwd=self.directory, env={**inherited, **{k: str(v) for k, v in environment.items()}},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        told = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
        return done.returncode, done.stdout, told

    def run_step(self, paths, fail_on="bypassed", command=None, arguments="--allow-private --proxy-loopback"):
        command = command or "; ".join(f"curl -s -A ExampleBot {self.url}{path}" for path in paths)
        code, said, told = self.step("run", RUN=command, ARGUMENTS=arguments, FAIL_ON=fail_on)
        self.assertEqual(code, 0, said)
        return told, said

    def judged(self, told):
        code, said, _ = self.step("Judge the run", FAILED=told["failed"], CODE=told["code"])
        self.assertIn(f"::error::{told['failed']}\n", said)
        return code

    def test_denials_and_records_are_told(self):
        told, said = self.run_step(["/a", "/private/a"])
        self.assertEqual((told["code"], told["requests"], told["denied"], told["bypassed"], told["failed"]),
                         ("0", "2", "1", "0", ""), said)
        self.assertIn("127.0.0.1", said)
        self.assertIn("1 denied by Disallow: /private/", said)
        self.assertIn("| 2 | 1 | 1 | 0 | 0 | 0 |\n", (self.directory / "summary.md").read_text())
        directory = self.directory / told["directory"]
        self.assertEqual(sorted(it.name for it in directory.iterdir()), ["records.tar", "report.html", "summary.json"])
        self.assertEqual(json.loads((directory / "summary.json").read_text())["denied"], 1)
        with tarfile.open(directory / "records.tar") as records:
            self.assertIn("head.json", records.getnames())

    def test_a_run_without_a_denial_has_a_report_too(self):
        told, said = self.run_step(["/a"], fail_on="denied")
        self.assertEqual((told["denied"], told["failed"]), ("0", ""), said)
        self.assertTrue((self.directory / told["directory"] / "report.html").exists())

    def test_a_denial_fails_only_a_step_that_asks_for_it(self):
        told, _ = self.run_step(["/private/a"], fail_on="denied")
        self.assertEqual(told["failed"], "1 requests were denied")
        self.assertEqual(self.judged(told), 1)

    def test_a_crawler_that_goes_around_fails_unless_never(self):
        around = f"curl -s --noproxy '*' {self.url}/a"
        for fail_on, fails in [("bypassed", True), ("denied", True), ("never", False)]:
            told, said = self.run_step([], fail_on, command=around)
            self.assertEqual((told["requests"], told["failed"] != ""), ("0", fails), said)
        self.assertIn("no request came this way", self.run_step([], "denied", command=around)[0]["failed"])

    def test_the_commands_own_failure_is_the_steps(self):
        told, _ = self.run_step([], "never", command=f"curl -s -A ExampleBot {self.url}/a; exit 3")
        self.assertEqual((told["code"], told["failed"]), ("3", "the command ended with 3"))
        self.assertEqual(self.judged(told), 3)

    def test_wrong_settings_run_no_command(self):
        code, said, _ = self.step("run", RUN="touch ran", ARGUMENTS="--set pace.nothing=1", FAIL_ON="never")
        self.assertNotEqual(code, 0)
        self.assertIn("::error::courtesy ran no command", said)
        self.assertFalse((self.directory / "ran").exists())
        code, said, _ = self.step("run", RUN="touch ran", FAIL_ON="sometimes")
        self.assertEqual(code, 1)
        self.assertIn("fail-on is denied, bypassed or never, and not sometimes", said)

    def test_inputs_reach_the_shell_as_variables_alone(self):
        for step in ACTION["runs"]["steps"]:
            self.assertNotIn("${{", step.get("run", ""))

    def test_what_is_uploaded_has_no_key(self):
        (upload,) = [step for step in ACTION["runs"]["steps"] if "uses" in step]
        self.assertEqual(upload["with"]["path"], "${{ steps.run.outputs.directory }}")
        told, _ = self.run_step(["/private/a"])
        for path in (self.directory / told["directory"]).iterdir():
            self.assertNotIn(b"PRIVATE KEY", path.read_bytes())


class Workflows(Case):
    def test_what_may_write_is_pinned(self):
        for used in re.findall(r"uses: (\S+)", read("action.yml") + read(".github/workflows/release.yml")):
            self.assertRegex(used, r"@[0-9a-f]{40}$")

    def test_they_are_what_their_schemas_ask_for(self):
        self.succeed("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *(ROOT / it for it in WORKFLOWS))
        self.succeed("check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")

    def test_each_row_of_the_readme_is_made_by_a_release(self):
        table = re.search(r"\n## How to get it\n(.*?)\n## ", read("README.md"), re.DOTALL)[1]
        commands = re.findall(r"^\| [^|]+ \| `([^`]+)` \|", table, re.MULTILINE)
        self.assertGreater(len(commands), 3, table)
        workflow, release = read(".github/workflows/release.yml"), read("packaging/release")
        loop = re.search(r"for script in ([a-z ]+); do", release)[1].split()
        loop += re.findall(r"^packaging/([a-z]+) >", release, re.MULTILINE)
        for command in commands:
            program = command.split()[0]
            if program.startswith("packaging/"):
                self.assertIn(program.removeprefix("packaging/"), loop)
            elif program == "docker":
                self.assertIn("docker build ", workflow)
            else:
                self.assertEqual(program, "cargo", command)
        self.assertIn("packaging/release", workflow)
        for made in ["sha256sum -- *", "attest-build-provenance", "gh-action-pypi-publish", "npm publish", "dist/*", "--notes-file"]:
            self.assertIn(made, workflow)

    def test_both_architectures_are_built(self):
        jobs = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]
        runners = ["ubuntu-24.04", "ubuntu-24.04-arm"]
        self.assertEqual(jobs["build"]["strategy"]["matrix"]["runner"], runners)
        self.assertEqual([it["runner"] for it in jobs["image"]["strategy"]["matrix"]["include"]], runners)
        self.assertEqual(jobs["publish"]["needs"], ["build", "image"])

    def test_nothing_is_uploaded_but_by_a_tag(self):
        jobs = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]
        self.assertEqual(jobs["publish"]["if"], "github.ref_type == 'tag'")
        for step in jobs["image"]["steps"]:
            if "docker push" in step.get("run", "") or "login" in step.get("uses", ""):
                self.assertEqual(step["if"], "github.ref_type == 'tag'")
        self.assertEqual(yaml.safe_load(read(".github/workflows/release.yml"))["permissions"], {"contents": "read"})

    def test_the_notes_are_those_of_the_version(self):
        version = cargo()["package"]["version"]
        awk = re.search(r"^(awk -v version=.*) >", read("packaging/release"), re.MULTILINE)[1]
        notes = self.succeed("bash", "-c", f"version={version}; {awk}", cwd=ROOT)
        self.assertIn("### Added", notes)
        self.assertNotRegex(notes, "^## ")
