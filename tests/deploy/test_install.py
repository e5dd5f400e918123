"""What people install: tarball, wheel, npm packages, made of a stand-in for the program and installed; packaging/try/all
does it with the program that is shipped."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from support import COURTESY, ROOT, Case, cargo, tool, until

VERSION = cargo()["package"]["version"]
MACHINE = os.uname().machine
CPU = {"x86_64": "x64", "aarch64": "arm64"}[MACHINE]
# Of what the stand-in needs nothing is said by the real one.
READELF = "#!/bin/sh\necho 'Name: GLIBC_2.2.5'\necho 'Name: GLIBC_2.17'\n"


class Checkout:
    """A checkout with a target directory of its own, and a program that starts the one under test."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        for entry in ROOT.iterdir():
            if entry.name != "target":
                (self.root / entry.name).symlink_to(entry)
        (self.root / "target").mkdir()
        subprocess.run([ROOT / "tests/setup-python.sh", "wheel"], check=True)
        (self.root / "target/wheel-python").symlink_to(ROOT / "target/wheel-python")
        self.program = self.script("program", f'#!/bin/sh\nexec "{COURTESY}" "$@"\n')
        self.script("bin/readelf", READELF)

    def script(self, name, text):
        path = self.root / "target" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def make(self, script):
        """What packaging/SCRIPT makes of the stand-in, by name."""
        path = f"{self.root}/target/bin:{os.environ['PATH']}"
        done = subprocess.run([self.root / "packaging" / script, self.program], capture_output=True, text=True, timeout=180,
                              env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": "1700000000"})
        assert done.returncode == 0, done.stderr
        return {name: self.root / name for name in done.stdout.split()}


class Installed(Case):
    @classmethod
    def setUpClass(cls):
        cls.checkout = Checkout()
        cls.addClassCleanup(shutil.rmtree, cls.checkout.root)

    def twice(self, script):
        """What it makes, which is the same each time."""
        before = {name: path.read_bytes() for name, path in self.checkout.make(script).items()}
        # As of another day, and of a user with other habits.
        os.utime(ROOT / "README.md")
        made = self.checkout.make(script)
        self.assertEqual(before, {name: path.read_bytes() for name, path in made.items()})
        return list(made.values())


class Tarball(Installed):
    def test_it_is_laid_out_to_be_unpacked_in_usr_local(self):
        (path,) = self.twice("tarball")
        name = f"courtesy-{VERSION}-{MACHINE}-linux"
        self.assertEqual(path.name, f"{name}.tar.gz")
        with tarfile.open(path) as tar:
            self.assertEqual({(it.uid, it.gid, it.mtime) for it in tar}, {(0, 0, 1700000000)})
            names = tar.getnames()
            self.assertEqual(names, sorted(names))
            tar.extractall(self.directory)
        unpacked = self.directory / name
        self.assertEqual((unpacked / "bin/courtesy").stat().st_mode & 0o777, 0o755)
        for file in ["share/man/man1/courtesy-run.1.gz", "share/bash-completion/completions/courtesy",
                     "share/fish/vendor_completions.d/courtesy.fish", "share/zsh/site-functions/_courtesy",
                     "share/doc/courtesy/README.md", "share/doc/courtesy/LICENSE-APACHE", "share/doc/courtesy/licences.txt",
                     "share/courtesy/config.toml"]:
            self.assertGreater((unpacked / file).stat().st_size, 100, file)
        self.assertIn("ExecStart=/usr/local/bin/courtesy serve\n",
                      (unpacked / "lib/systemd/system/courtesy.service").read_text())
        self.assertIn("profile courtesy /usr/local/bin/courtesy ", (unpacked / "share/courtesy/apparmor").read_text())

    def test_the_licences_name_no_path_of_the_machine(self):
        done = self.succeed(ROOT / "packaging/licences")
        self.assertNotIn("(/", done.split("\n----")[0])
        self.assertIn("rustls v", done)


class Wheel(Installed):
    def test_it_is_installed_without_a_network(self):
        (path,) = self.twice("wheel")
        platform = f"manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}"
        self.assertEqual(path.name, f"courtesy_proxy-{VERSION}-py3-none-{platform}.whl")
        with zipfile.ZipFile(path) as wheel:
            told, text = wheel.read(f"courtesy_proxy-{VERSION}.dist-info/METADATA").decode().split("\n\n", 1)
        package = cargo()["package"]
        for line in [f"Version: {VERSION}", f"Summary: {package['description']}",
                     f"License-Expression: {package['license']}", "License-File: licences.txt"]:
            self.assertIn(line, told.splitlines())
        self.assertTrue(text.startswith("# courtesy\n"))
        self.assertNotRegex(text, r"\]\((?!https?:)", "it leads to a file that is not there")

        self.succeed(sys.executable, "-m", "venv", self.directory / "venv")
        venv = self.directory / "venv"
        self.succeed(venv / "bin/pip", "install", "--quiet", "--no-index", path)
        self.assertIn(VERSION, self.succeed(venv / "bin/courtesy", "--version"))
        self.assertTrue((venv / "share/man/man1/courtesy.1.gz").exists())
        self.assertTrue((venv / "share/bash-completion/completions/courtesy").exists())


class Npm(Installed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.packages = [path for path in cls.checkout.make("npm").values()]
        cls.modules = cls.checkout.root / "target/installed"
        cls.modules.mkdir()
        done = subprocess.run([tool("npm"), "install", "--silent", "--offline", "--no-audit", "--no-fund", *cls.packages],
                              cwd=cls.modules, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr

    def start(self, *words, modules=None, node="", **others):
        """The program as npm starts it, with options of Node's."""
        launcher = (modules or self.modules) / "node_modules/.bin/courtesy-proxy"
        # The program takes a variable of these tests for a setting that does not exist.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COURTESY_")}
        environment = {**inherited, "HOME": str(self.directory), "NODE_OPTIONS": node}
        return subprocess.Popen([launcher, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment, **others)

    def run_shell(self, script):
        """What the shell says under `courtesy run`, and the exit code."""
        process = self.start("run", "--summary", "none", "--", "sh", "-c", script)
        return process.communicate(timeout=60), process.returncode

    def test_the_program_is_an_optional_dependency(self):
        names = [f"courtesy-proxy-{VERSION}.tgz", f"courtesy-proxy-linux-{CPU}-{VERSION}.tgz"]
        self.assertEqual([path.name for path in self.packages], names)
        manifest = json.loads((self.modules / "node_modules/courtesy-proxy/package.json").read_text())
        self.assertEqual(manifest["optionalDependencies"],
                         {f"courtesy-proxy-linux-{cpu}": VERSION for cpu in ["arm64", "x64"]})
        manifest = json.loads((self.modules / f"node_modules/courtesy-proxy-linux-{CPU}/package.json").read_text())
        self.assertEqual((manifest["os"], manifest["cpu"], manifest["license"]),
                         (["linux"], [CPU], cargo()["package"]["license"]))

    def test_output_and_exit_code_are_the_programs(self):
        process = self.start("--version")
        self.assertEqual(process.communicate(timeout=60), (f"courtesy {VERSION}\n", ""))
        self.assertEqual(self.run_shell("echo said; exit 42"), (("said\n", ""), 42))
        self.assertEqual(self.run_shell("kill -KILL $$")[1], 128 + signal.SIGKILL)

    def test_signals_are_passed_on(self):
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
            ready = self.directory / f"ready-{number}"
            script = f"trap 'exit 7' {signal.Signals(number).name[3:]}; touch {ready}; while :; do sleep 0.1; done"
            process = self.start("run", "--summary", "none", "--", "bash", "-c", script, start_new_session=True)
            try:
                until("the command runs", ready.exists)
                process.send_signal(number)
                said = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 7, said)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()

    def test_a_platform_without_a_package_is_named(self):
        modules = self.directory / "without"
        shutil.copytree(self.modules, modules, symlinks=True)
        shutil.rmtree(modules / f"node_modules/courtesy-proxy-linux-{CPU}")
        elsewhere = self.directory / "elsewhere.cjs"
        for node_options, platform, told in [
            ("", "linux", f"the package courtesy-proxy-linux-{CPU} is missing. npm installs it as an optional dependency"),
            (f"--require {elsewhere}", "darwin", "courtesy runs on Linux, and this is darwin"),
            (f"--require {elsewhere}", "linux-mips", "there is no package for linux-mips"),
        ]:
            system, _, cpu = platform.partition("-")
            elsewhere.write_text(f"Object.defineProperty(process, 'platform', {{ value: '{system}' }});\n"
                                 f"Object.defineProperty(process, 'arch', {{ value: '{cpu or CPU}' }});\n")
            process = self.start("--version", modules=modules, node=node_options)
            said = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 69, said)
            self.assertIn(told, said[1])


class Portable(Case):
    def test_it_asks_for_nothing_newer_than_glibc_2_17(self):
        program = ROOT / "target/portable/courtesy"
        if not program.exists():
            self.skipTest("nothing is shipped from here: packaging/compile --portable")
        told = self.succeed("readelf", "--version-info", "--wide", program)
        versions = {tuple(map(int, word[len("GLIBC_"):].split("."))) for word in told.split() if word.startswith("GLIBC_")}
        self.assertLessEqual(max(versions), (2, 17))
        self.assertEqual(self.succeed(ROOT / "packaging/glibc", program), "2.17\n")
        self.assertNotIn(b"/.cargo/registry/", program.read_bytes())
