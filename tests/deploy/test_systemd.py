"""The units, read as the service manager reads them, and the service run as they say."""

import re
import shutil
import signal
import socket
import subprocess
import time

from support import COURTESY, ROOT, Case, Served, read, tool, until

EXPOSURE_MAX = 20  # tenths


def directives(unit):
    """Of each directive the values, in their order."""
    found = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", read(f"systemd/{unit}"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def seconds(span):
    return float(re.fullmatch(r"(\d+)s", span)[1])


class Units(Case):
    def test_systemd_takes_them_as_they_are(self):
        for unit in ["courtesy.service", "courtesy.socket"]:
            text = read(f"systemd/{unit}").replace("/usr/bin/courtesy", str(COURTESY))
            (self.directory / unit).write_text(text)
        units = [self.directory / "courtesy.service", self.directory / "courtesy.socket"]
        said = self.succeed("systemd-analyze", "verify", "--man=no", *units)
        self.assertNotIn("courtesy", said)

    def test_the_exposure_is_below_two(self):
        shutil.copy(ROOT / "systemd/courtesy.service", self.directory)
        self.succeed(
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={EXPOSURE_MAX}",
            self.directory / "courtesy.service",
        )

    def test_the_bounds_fit_those_of_the_program(self):
        service, socket_unit = directives("courtesy.service"), directives("courtesy.socket")
        drain = re.search(r'^drain_timeout = "(\w+)"', read("config/courtesy.toml"), re.MULTILINE)[1]
        self.assertGreater(seconds(service["TimeoutStopSec"][0]), seconds(drain))
        listens = re.search(r'^proxy = \["(.*)"\]', read("config/courtesy.toml"), re.MULTILINE)[1]
        self.assertEqual(socket_unit["ListenStream"], [listens])
        # As sysexits.h has them: usage, permission, configuration. What is not there may come yet.
        self.assertEqual(service["RestartPreventExitStatus"], ["2 77 78"])


class Service(Case):
    """The service, started as the unit says, with this test in the manager's place."""

    def setUp(self):
        super().setUp()
        self.unit = directives("courtesy.service")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.directory / "notify"))
        self.manager.settimeout(20)
        for name in ["state", "credentials"]:
            (self.directory / name).mkdir(mode=0o700)
        self.environment = {
            "NOTIFY_SOCKET": str(self.directory / "notify"),
            "STATE_DIRECTORY": str(self.directory / "state"),
            "CREDENTIALS_DIRECTORY": str(self.directory / "credentials"),
            "WATCHDOG_USEC": str(int(seconds(self.unit["WatchdogSec"][0]) * 1e6)),
            "COURTESY__TLS__ROOTS": "bundled",
        }

    def start(self, *wrapped):
        (command,) = self.unit["ExecStart"]
        command = command.replace("/usr/bin/courtesy", str(COURTESY)).split()
        mask = int(self.unit["UMask"][0], 8)
        self.served = Served(self, self.environment, command=[*wrapped, *command], umask=mask)

    def hear(self):
        return dict(line.split("=", 1) for line in self.manager.recv(4096).decode().splitlines())

    def listening(self):
        """A free port; the program's own defaults may be taken on this machine."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            return "127.0.0.1:%d" % found.getsockname()[1]

    def test_it_starts_reloads_and_stops(self):
        self.environment |= {"COURTESY__LISTEN__PROXY": self.listening(), "COURTESY__LISTEN__ADMIN": "off"}
        self.assertEqual(self.unit["Type"], ["notify"])
        self.start()
        self.assertEqual(self.hear()["READY"], "1")
        state = self.directory / "state"
        self.assertTrue((state / "audit").is_dir() and (state / "ca/ca.key").is_file())
        open_to_others = [it for it in state.rglob("*") if it.is_file() and it.stat().st_mode & 0o077]
        self.assertEqual(open_to_others, [])

        reload = self.unit["ExecReload"][0].replace("$MAINPID", str(self.served.process.pid))
        self.succeed(*reload.split())
        self.assertEqual(set(self.hear()), {"RELOADING", "MONOTONIC_USEC"})
        self.assertEqual(self.hear()["READY"], "1")

        self.assertEqual(self.served.end(), 0)
        self.assertEqual(self.hear()["STOPPING"], "1")

    def test_signs_of_life_come_within_half_of_what_the_watchdog_waits(self):
        self.environment |= {"COURTESY__LISTEN__PROXY": self.listening(), "COURTESY__LISTEN__ADMIN": "off"}
        # A fifteenth of the unit's, so that it can be waited for.
        self.environment["WATCHDOG_USEC"] = "2000000"
        self.start()
        self.assertEqual(self.hear()["READY"], "1")
        for _ in range(3):
            began = time.monotonic()
            self.assertEqual(self.hear(), {"WATCHDOG": "1"})
            self.assertLess(time.monotonic() - began, 1.5)
        self.served.process.send_signal(signal.SIGSTOP)
        self.manager.settimeout(1.5)
        self.assertRaises(TimeoutError, self.hear)
        self.served.process.send_signal(signal.SIGCONT)

    def test_a_ca_that_is_handed_over_as_credentials_signs(self):
        self.environment |= {"COURTESY__LISTEN__PROXY": self.listening(), "COURTESY__LISTEN__ADMIN": "off"}
        names = [it.split(":")[0] for it in self.unit["LoadCredential"]]
        self.assertEqual(names, ["ca.crt", "ca.key"])
        certificate, key = (self.directory / "credentials" / name for name in names)
        self.succeed(
            *"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9".split(),
            *["-subj", "/CN=Ours", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
            *["-out", certificate, "-keyout", key],
        )
        self.start()
        self.assertEqual(self.hear()["READY"], "1")
        self.assertIn("CN=Ours", self.served.said())
        self.assertFalse((self.directory / "state/ca").exists())

    def test_the_socket_unit_hands_over_what_is_served(self):
        (name,) = directives("courtesy.socket")["FileDescriptorName"]
        address = self.listening()
        self.environment["COURTESY__LISTEN__ADMIN"] = "off"
        wrap = [tool("systemd-socket-activate"), "--listen", address, f"--fdname={name}"]
        wrap += [f"--setenv={variable}" for variable in self.environment]
        command = [*wrap, str(COURTESY), "serve"]
        with open(self.directory / "log", "wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        host, port = address.split(":")

        def is_served():
            try:
                with socket.create_connection((host, int(port)), timeout=20) as client:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    return client.recv(12) == b"HTTP/1.1 400"
            except ConnectionError:
                return False

        until("it is served", is_served)
        self.assertEqual(self.hear()["READY"], "1")
        self.assertIn(f"listening address={address}", (self.directory / "log").read_text())
