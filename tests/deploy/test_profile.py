"""The recorded profile, and the build by it; a stand-in for cargo says what it was asked for."""

import os
import shutil
import subprocess

from support import ROOT, Case, cargo, read, tool

# Puts what it was told beside the program that it makes.
CARGO = """#!/bin/sh
out=$7/$5/release
mkdir -p "$out"
printf '%s\\n' "$*" "$CARGO_ENCODED_RUSTFLAGS" >"$out/courtesy"
echo 'what cargo says'
"""


class Compile(Case):
    def setUp(self):
        super().setUp()
        self.root = self.directory / "a checkout"
        shutil.copytree(ROOT / "packaging", self.root / "packaging")
        for name in ["Cargo.toml", "Cargo.lock"]:
            shutil.copy(ROOT / name, self.root)
        (self.directory / "cargo").write_text(CARGO)
        (self.directory / "cargo").chmod(0o755)
        self.profile = self.root / "packaging/courtesy.profile"
        # As if it had been recorded with the compiler that is here.
        self.profile.write_text(self.succeed(self.root / "packaging/named-by"))

    def compile(self, **environment):
        """Where the program is, what cargo was told, with which flags, and what was said of it."""
        path = f"{self.directory}:{os.environ['PATH']}"
        done = subprocess.run([self.root / "packaging/compile"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": path, "CARGO_TARGET_DIR": "target", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.root / done.stdout.rstrip("\n")
        words, flags = program.read_text().splitlines()
        return program.relative_to(self.root), words, flags.split("\x1f"), done.stderr.removesuffix("what cargo says\n")

    def test_it_says_where_the_program_is_that_was_made_by_the_profile(self):
        program, words, flags, said = self.compile(RUSTFLAGS="")
        self.assertEqual(str(program), "target/profiled/courtesy")
        self.assertIn("build --release --locked --target ", words)
        self.assertIn(f"-Cprofile-use={self.root}/packaging/courtesy.profdata", flags)
        self.assertEqual(said, "")

    def test_it_keeps_the_flags_that_there_are(self):
        flags = self.compile(RUSTFLAGS="--remap-path-prefix=/a=b -Copt-level=2")[2]
        self.assertEqual(flags[:2], ["--remap-path-prefix=/a=b", "-Copt-level=2"])
        self.assertIn("-Cprofile-use", flags[2])

    def test_it_warns_of_what_is_another_than_when_the_profile_was_recorded(self):
        recorded = self.profile.read_text().splitlines()
        kinds = [line.split()[0] for line in recorded]
        self.assertEqual(kinds, ["courtesy", "rustc", "target", "Cargo.lock", "dependencies"])
        for line in recorded:
            self.profile.write_text("\n".join(it for it in recorded if it != line) + f"\n{line} once\n")
            said = self.compile()[3]
            self.assertEqual([it.strip() for it in said.splitlines() if it.startswith("    ")], [line])
            self.assertIn("packaging/record", said)

    def test_it_warns_after_a_change_of_what_is_linked(self):
        (self.root / "Cargo.lock").write_text(read("Cargo.lock") + "\n")
        self.assertIn("    Cargo.lock ", self.compile()[3])

    def test_it_warns_after_a_change_of_what_is_asked_of_a_crate(self):
        before = read("Cargo.toml")
        after = before.replace('features = ["event", "fs",', 'features = ["event", "net", "fs",')
        self.assertNotEqual(before, after)
        (self.root / "Cargo.toml").write_text(after)
        self.assertIn("    dependencies ", self.compile()[3])

    def test_it_says_nothing_of_a_change_of_what_only_tests_need(self):
        (self.root / "Cargo.toml").write_text(read("Cargo.toml") + '\n[dev-dependencies.other]\nversion = "1"\n')
        self.assertEqual(self.compile()[3], "")


class Record(Case):
    def record(self, *there):
        """What it says where of the tools that it does not find at once only these are there."""
        (self.directory / "rustc").write_text("#!/bin/sh\necho 'host: a machine'\n")
        (self.directory / "rustc").chmod(0o755)
        for name in ["bash", "dirname", "realpath", "sed", "sort"]:
            (self.directory / name).symlink_to(tool(name))
        for name in there:
            (self.directory / name).symlink_to(tool("false"))
        done = subprocess.run([ROOT / "packaging/record"], capture_output=True, text=True, timeout=60,
                              env={"PATH": str(self.directory), "CARGO_TARGET_DIR": str(self.directory)})
        self.assertEqual(done.returncode, 69, done.stderr)
        return done.stderr

    def test_it_says_what_to_install_before_it_builds(self):
        self.assertIn("curl is missing: apt-get install", self.record())

    def test_it_says_who_reads_what_was_counted(self):
        said = self.record("curl", "ip", "nginx", "openssl", "python3", "unshare")
        self.assertIn("llvm-profdata is missing: rustup component add llvm-tools", said)


class Profile(Case):
    def setUp(self):
        super().setUp()
        self.made = dict(line.split(" ", 1) for line in read("packaging/courtesy.profile").splitlines())
        self.counts = (ROOT / "packaging/courtesy.profdata").read_bytes()

    def test_it_is_that_of_this_version_and_of_the_compiler_of_its_image(self):
        """The names of functions hang on both."""
        package = cargo()["package"]
        self.assertEqual(self.made["courtesy"], package["version"], "record it anew: packaging/record")
        self.assertEqual(self.made["rustc"].split(".")[:2], package["rust-version"].split("."))

    def test_it_knows_the_whole_program(self):
        """Of each larger module and of what requests go through something ran when it was recorded."""
        self.assertEqual(self.counts[:8], b"\xfflprofi\x81")
        modules = [it.name for it in (ROOT / "src").iterdir() if it.is_dir()]
        self.assertGreater(len(modules), 12)
        for module in modules:
            self.assertTrue(f"8courtesy{len(module)}{module}".encode() in self.counts, module)
        for crate in ["hyper", "h2", "http", "tokio", "rustls", "redb", "zlib_rs", "serde_json", "url"]:
            self.assertTrue(f"_ZN{len(crate)}{crate}".encode() in self.counts, crate)
