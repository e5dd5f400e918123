"""The metadata and the scripts of the packages; packaging/try installs one."""

import pathlib
import shutil
import subprocess

from support import ROOT, Case, cargo, read, tool

# Of the program, in bytes, so that it does not grow unseen: docs/develop/decisions/025-size-of-the-program.md.
SIZE_MAX = 27_000_000


class Packages(Case):
    def test_they_have_what_the_units_start(self):
        metadata = cargo()["package"]["metadata"]
        deb = {source: target for source, target, _ in metadata["deb"]["assets"]}
        rpm = {it["source"]: it["dest"] for it in metadata["generate-rpm"]["assets"]}
        self.assertEqual(set(deb), set(rpm))
        # dpkg-shlibdeps would ask for the C library of the machine that builds.
        self.assertEqual(metadata["deb"]["depends"], "libc6 (>= 2.17), ca-certificates, procps")
        self.assertEqual(metadata["deb"]["suggests"], "redis-server | valkey-server")
        for source in ["systemd/courtesy.service", "systemd/courtesy.socket"]:
            self.assertTrue(rpm[source].startswith("/usr/lib/systemd/system/"))
            self.assertEqual(deb[source], "usr/lib/systemd/system/")
        self.assertIn("ExecStart=/usr/bin/courtesy serve\n", read("systemd/courtesy.service"))
        self.assertIn("/usr/bin/courtesy", rpm.values())

    def test_the_deb_brings_a_profile_that_allows_user_namespaces(self):
        deb = {source: target for source, target, _ in cargo()["package"]["metadata"]["deb"]["assets"]}
        directory, profile = deb["packaging/apparmor"], read("packaging/apparmor")
        self.assertIn("profile courtesy /usr/bin/courtesy flags=(unconfined) {\n  userns,\n", profile)
        self.assertEqual(deb["target/packages/tree/usr/bin/courtesy"], "usr/bin/")
        self.assertIn(f"cp /{directory}apparmor /etc/apparmor.d/courtesy\n", read("packaging/debian/postinst"))
        self.assertIn("rm -f /etc/apparmor.d/courtesy\n", read("packaging/debian/prerm"))

    def test_all_that_is_shipped_names_the_same_licence(self):
        package = cargo()["package"]
        licence = package["license"]
        self.assertEqual(licence, "MIT OR Apache-2.0")
        self.assertEqual(package["metadata"]["generate-rpm"]["license"], licence)
        self.assertIn(f'org.opencontainers.image.licenses="{licence}"', read("Dockerfile"))
        for name in ["LICENSE-MIT", "LICENSE-APACHE"]:
            self.assertTrue((ROOT / name).exists())
            for script in ["packaging/common", "packaging/wheel", "packaging/npm", "Dockerfile", "README.md"]:
                self.assertIn(name, read(script))

    def test_their_scripts_are_sound(self):
        shells = ("build common compile glibc integrations licences named-by npm record release tarball wheel debian/postinst "
                  "debian/prerm debian/postrm try/all try/machine try/image try/inside/units")
        # What they take from try/common it does not see, and "a && b || fail" is meant.
        ignored = "SC1091,SC2154,SC2015"
        self.succeed("shellcheck", "-e", ignored, *(ROOT / "packaging" / it for it in shells.split()))
        self.succeed("shellcheck", "-s", "sh", *(ROOT / "packaging/rpm" / it for it in ["post", "preun", "postun"]))

    def test_what_an_installer_says_is_no_part_of_a_file_name(self):
        """On a machine without mmdebstrap, packaging/try installs it within a substitution of its output."""
        bin_directory, scripts = self.directory / "bin", self.directory / "packaging/try"
        bin_directory.mkdir()
        scripts.mkdir(parents=True)
        shutil.copy(ROOT / "packaging/try/common", scripts)
        for name in ["bash", "cat", "chmod", "cut", "dirname", "mkdir", "mv", "sha256sum"]:
            (bin_directory / name).symlink_to(tool(name))
        fakes = {
            "id": "echo 0",
            "apt-get": f"""
                echo "apt-get says much"
                [ "$1" = install ] || exit 0
                echo '#!/bin/bash
                echo "mmdebstrap says much"
                echo tar >"${{@: -1}}"' >{bin_directory}/mmdebstrap
                chmod +x {bin_directory}/mmdebstrap""",
        }
        for name, script in fakes.items():
            (bin_directory / name).write_text(f"#!/bin/bash\n{script}\n")
            (bin_directory / name).chmod(0o755)
        done = subprocess.run(
            [tool("bash"), "-c", f'. {scripts}/common; tar=$(base small gcc); printf %s "$tar"'],
            env={"PATH": str(bin_directory)}, capture_output=True, text=True,
        )
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, rf"\A{self.directory}/target/try/small-[0-9a-f]{{8}}\.tar\Z")
        self.assertEqual(pathlib.Path(done.stdout).read_text(), "tar\n")
        self.assertIn("installing mmdebstrap", done.stderr)

    def test_what_is_shipped_is_stripped_and_small(self):
        """A panic still names its file and line; a debug build has no size to hold."""
        self.assertEqual(cargo()["profile"]["release"]["strip"], "symbols")
        self.assertEqual(cargo()["profile"]["shipped"]["inherits"], "release")
        shipped = [ROOT / f"target/{it}/courtesy" for it in ["shipped", "portable", "packages/tree/usr/bin"]]
        found = [program for program in shipped if program.exists()]
        if not found:
            self.skipTest("nothing is shipped from here: packaging/compile or packaging/build")
        for program in found:
            self.assertLessEqual(program.stat().st_size, SIZE_MAX, program)
            sections = self.succeed("readelf", "--section-headers", "--wide", program)
            self.assertNotIn(" .symtab ", sections)
            self.assertNotIn(" .debug_", sections)
            self.assertIn(b"src/proxy/", program.read_bytes(), "panics name no place")
