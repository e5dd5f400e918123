"""The recorded profile, and the build by it; stand-ins for cargo and for the recording say what was asked of them."""

import os
import shutil
import subprocess

from support import COURTESY, ROOT, Case, read, tool

# Writes its arguments beside the program that it makes.
CARGO = """#!/bin/sh
out=$8/${6%.2.17}/shipped
mkdir -p "$out"
printf '%s\\n' "$*" "$CARGO_ENCODED_RUSTFLAGS" >"$out/courtesy"
echo 'what cargo says'
"""

# Says what symbols the program asks for.
READELF = """#!/bin/sh
echo "Name: GLIBC_2.2.5"
echo "Name: GLIBC_${NEWEST-2.17}"
"""

# As packaging/record leaves its directory.
RECORD = """#!/bin/sh
echo 'what the recording says'
mkdir -p "$COURTESY_RECORDING"
packaging/named-by >"$COURTESY_RECORDING/named-by"
"""


class Compile(Case):
    def setUp(self):
        super().setUp()
        self.root = self.directory / "a checkout"
        shutil.copytree(ROOT / "packaging", self.root / "packaging")
        (self.root / "src").mkdir()
        (self.root / "crates/robots").mkdir(parents=True)
        for name in ["Cargo.toml", "Cargo.lock", "crates/robots/Cargo.toml"]:
            shutil.copy(ROOT / name, self.root / name)
        for path, text in [(self.directory / "cargo", CARGO), (self.root / "packaging/record", RECORD),
                           (self.directory / "cargo-zigbuild", ""), (self.directory / "readelf", READELF)]:
            path.write_text(text)
            path.chmod(0o755)
        self.recording = self.root / "target/recording"

    def compile(self, *words, **environment):
        """Where the program is, the arguments of cargo, its flags, and whether a profile was recorded."""
        path = f"{self.directory}:{os.environ['PATH']}"
        environment = {"RUSTFLAGS": "", "CARGO_TARGET_DIR": "target", **environment}
        done = subprocess.run([self.root / "packaging/compile", *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": path, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.root / done.stdout.rstrip("\n")
        words, flags = program.read_text().splitlines()
        recorded = "what the recording says" in done.stderr
        return program.relative_to(self.root), words, flags.split("\x1f"), recorded

    def test_one_command_records_and_compiles(self):
        program, words, flags, recorded = self.compile()
        self.assertEqual(str(program), "target/shipped/courtesy")
        self.assertIn("build --profile shipped --locked --target ", words)
        self.assertIn(f"-Cprofile-use={self.recording}/courtesy.profdata", flags)
        self.assertTrue(recorded)

    def test_a_recording_is_used_again(self):
        self.compile()
        self.assertFalse(self.compile()[3])

    def test_no_profile_compiles_without_a_recording(self):
        program, words, flags, recorded = self.compile("--no-profile")
        self.assertEqual(str(program), "target/shipped/courtesy")
        self.assertIn("build --profile shipped --locked --target ", words)
        self.assertEqual(flags, [""])
        self.assertFalse(recorded)
        self.assertFalse(self.recording.exists())

    def test_portable_links_against_an_old_c_library(self):
        program, words, flags, recorded = self.compile("--portable")
        self.assertEqual(str(program), "target/portable/courtesy")
        self.assertRegex(words, r"^zigbuild --profile shipped --locked --target \S+-linux-gnu\.2\.17 ")
        self.assertIn(f"-Cprofile-use={self.recording}/courtesy.profdata", flags)
        self.assertTrue(recorded)
        flags = self.compile("--no-profile", "--portable", CARGO_HOME="/home/a/cargo")[2]
        self.assertEqual(flags, [f"--remap-path-prefix={self.root}=.", "--remap-path-prefix=/home/a/cargo=cargo"])

    def test_portable_is_held_against_what_it_asks_for(self):
        with self.assertRaisesRegex(AssertionError, "needs glibc 2.34, which is newer than 2.17"):
            self.compile("--portable", "--no-profile", NEWEST="2.34")

    def test_it_keeps_the_flags_of_the_environment(self):
        given = ["--remap-path-prefix=/a=b", "-Copt-level=2"]
        flags = self.compile(RUSTFLAGS=" ".join(given))[2]
        self.assertEqual(flags[:2], given)
        self.assertIn("-Cprofile-use", flags[2])
        self.assertEqual(self.compile("--no-profile", RUSTFLAGS=" ".join(given))[2], given)

    def test_another_directory_for_the_recording(self):
        elsewhere = self.directory / "elsewhere"
        flags = self.compile(COURTESY_RECORDING=str(elsewhere))[2]
        self.assertIn(f"-Cprofile-use={elsewhere}/courtesy.profdata", flags)

    def test_a_recording_of_anything_else_is_made_anew(self):
        self.compile()
        named_by = self.recording / "named-by"
        recorded = named_by.read_text().splitlines()
        kinds = [line.split()[0] for line in recorded]
        self.assertEqual(kinds, ["courtesy", "rustc", "target", "Cargo.lock", "dependencies", "modules"])
        for line in recorded:
            named_by.write_text("\n".join(it for it in recorded if it != line) + f"\n{line} once\n")
            self.assertTrue(self.compile()[3], line)

    def changed_after(self, path, text):
        self.compile()
        (self.root / path).write_text(text)
        return self.compile()[3]

    def test_a_change_of_what_is_linked_needs_another_recording(self):
        self.assertTrue(self.changed_after("Cargo.lock", read("Cargo.lock") + "\n"))

    def test_a_change_of_a_crates_features_needs_another_recording(self):
        before = read("Cargo.toml")
        after = before.replace('features = ["event", "fs",', 'features = ["event", "net", "fs",')
        self.assertNotEqual(before, after)
        self.assertTrue(self.changed_after("Cargo.toml", after))

    def test_another_module_needs_another_recording(self):
        self.assertTrue(self.changed_after("src/other.rs", ""))

    def test_a_change_of_what_only_tests_need_does_not(self):
        text = read("Cargo.toml") + '\n[dev-dependencies.other]\nversion = "1"\n'
        self.assertFalse(self.changed_after("Cargo.toml", text))


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


class Train(Case):
    """The loads of the recording, in small: what they ask of the program is not compiled, and changes with it."""

    def train(self, **environment):
        # The program takes a variable of these tests for a setting that does not exist.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COURTESY_")}
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        return subprocess.run([ROOT / "packaging/train", COURTESY], capture_output=True, text=True, timeout=300,
                              env={**inherited, "PATH": path, **environment})

    def test_it_comes_to_its_end(self):
        done = self.train()
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_that_cannot_come_to_its_end_names_site_and_reason(self):
        # As if the sites' own delays were kept.
        done = self.train(COURTESY__PACE__MAX_CRAWL_DELAY="1h", COURTESY__PACE__MAX_WAIT="1ms")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"packaging/train: http://127\.1\.0\.\d+:\d+/.*: 429, courtesy; error=.*"
                                      r"the robots\.txt asks for .* between two requests \(Crawl-delay, line \d+\)")


class Repository(Case):
    def test_the_profile_is_no_file_of_the_repository(self):
        files = self.succeed("git", "-C", ROOT, "ls-files").split()
        self.assertEqual([it for it in files if "profdata" in it], [])
        self.assertIn("/target", read(".gitignore").splitlines())
