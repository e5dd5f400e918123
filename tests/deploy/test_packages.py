"""The metadata and the scripts of the packages; packaging/try installs one."""

from support import ROOT, Case, cargo, read


class Packages(Case):
    def test_they_have_what_the_units_start(self):
        metadata = cargo()["package"]["metadata"]
        deb = {source: target for source, target, _ in metadata["deb"]["assets"]}
        rpm = {it["source"]: it["dest"] for it in metadata["generate-rpm"]["assets"]}
        self.assertEqual(set(deb), set(rpm))
        for source in ["systemd/courtesy.service", "systemd/courtesy.socket"]:
            self.assertTrue(rpm[source].startswith("/usr/lib/systemd/system/"))
            self.assertEqual(deb[source], "usr/lib/systemd/system/")
        self.assertIn("ExecStart=/usr/bin/courtesy serve\n", read("systemd/courtesy.service"))
        self.assertIn("/usr/bin/courtesy", rpm.values())

    def test_their_scripts_are_sound(self):
        shells = ("build compile licences named-by record debian/postinst debian/prerm debian/postrm "
                  "try/machine try/image try/inside/units")
        # What they take from try/common it does not see, and "a && b || fail" is meant.
        ignored = "SC1091,SC2154,SC2015"
        self.succeed("shellcheck", "-e", ignored, *(ROOT / "packaging" / it for it in shells.split()))
        self.succeed("shellcheck", "-s", "sh", *(ROOT / "packaging/rpm" / it for it in ["post", "preun", "postun"]))
