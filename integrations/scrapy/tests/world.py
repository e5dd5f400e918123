"""A scripted site on loopback, spiders that are run by Scrapy's own command, and the proxy."""

from __future__ import annotations

import atexit
import datetime
import functools
import ipaddress
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

COURTESY = os.environ["COURTESY"]
# What must happen at all; only a failing test takes so long.
DEADLINE = 60

SPIDER = """
import json
import scrapy


class Test(scrapy.Spider):
    name = "test"
    custom_settings = {settings!r}
    start_urls = {urls!r}
    got = []
    failed = []
    reason = None

    async def start(self):
        for url in self.start_urls:
            yield scrapy.Request(url, callback=self.parse, errback=self.lost, dont_filter=True)

    def parse(self, response):
        self.got.append([response.url, response.status])

    def lost(self, failure):
        self.failed.append([failure.request.url, repr(failure.value)])
{body}
    def closed(self, reason):
        # Those of the add-on are complete when the spider closes.
        stats = {{name: value for name, value in self.crawler.stats.get_stats().items() if "time" not in name}}
        print(json.dumps({{"got": self.got, "failed": self.failed, "stats": stats, "reason": reason}}))
"""


class Site:
    """Answers by a table of paths; what is not in it is a page."""

    def __init__(self, robots: str = "", certificate: tuple[str, str] | None = None) -> None:
        self.requests: list[tuple[float, str]] = []
        # Of a path, what is answered first, second…; then the page.
        self.scripts: dict[str, list[tuple[int, dict[str, str]]]] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.requests.append((time.monotonic(), self.path))
                script = site.scripts.get(self.path)
                status, headers = script.pop(0) if script else (200, {})
                body = robots.encode() if self.path == "/robots.txt" else b"<title>page</title>"
                self.send_response(status)
                for name, value in {"Content-Type": "text/html", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def asked(self, path: str) -> int:
        return sum(it == path for _, it in self.requests)

    def starts(self) -> list[float]:
        return sorted(at for at, path in self.requests if path != "/robots.txt")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def certificate(directory: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "site")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    issued = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    files = directory / "site.pem", directory / "site.key"
    files[0].write_bytes(issued.public_bytes(serialization.Encoding.PEM))
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(*encoding))
    return str(files[0]), str(files[1])


class Crawled:
    """What a crawl came to."""

    def __init__(self, output: str, log: str, code: int) -> None:
        self.log, self.code = log, code
        lines = output.strip().splitlines()
        told = json.loads(lines[-1]) if lines else {"got": [], "failed": [], "stats": {}, "reason": None}
        self.pages = sorted(re.sub(r"^https?://[^/]*", "", url) for url, status in told["got"] if status == 200)
        self.got, self.failed, self.stats, self.reason = (told[it] for it in ("got", "failed", "stats", "reason"))


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="scrapy-courtesy-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def site(self, robots: str = "", **more: tuple[str, str]) -> Site:
        site = Site(robots, **more)
        self.addCleanup(site.close)
        return site

    def environment(self, **more: str) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "COURTESY__STATE_DIR": str(self.directory / "state"),
            # The system's take longer to read than most tests.
            "COURTESY__TLS__ROOTS": "bundled",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Of one that is killed a file stays.
            "TMPDIR": str(self.directory),
            **more,
        }

    def spider(self, urls: list[str], settings: dict[str, object], body: str = "") -> list[str]:
        """The command that runs a spider."""
        file = self.directory / "spider.py"
        file.write_text(SPIDER.format(urls=urls, settings=settings, body=body))
        return [sys.executable, "-m", "scrapy", "runspider", str(file)]

    def settings(self, **more: object) -> dict[str, object]:
        """Those of a spider with the add-on, and with the proxy of all tests."""
        return {**self.own(), "COURTESY_PROXY": shared_proxy(), **more}

    def own(self, *arguments: str, **more: object) -> dict[str, object]:
        """Those of a spider with the add-on, which starts a proxy with these arguments."""
        return {
            "ADDONS": {"scrapy_courtesy.Courtesy": 500},
            "COURTESY_PROGRAM": COURTESY,
            "COURTESY_ARGUMENTS": ["--allow-private", *arguments],
            "USER_AGENT": "ExampleBot/1.0 (+https://bot.example/)",
            "TELNETCONSOLE_ENABLED": False,
            **more,
        }

    def crawl(self, urls: list[str], settings: dict[str, object], body: str = "", **environment: str) -> Crawled:
        ended = subprocess.run(
            self.spider(urls, settings, body), cwd=self.directory, capture_output=True, text=True,
            env=self.environment(**environment), timeout=1200,
        )
        return Crawled(ended.stdout, ended.stderr, ended.returncode)

    def serve(self, *arguments: str) -> str:
        """A proxy that stays for the test: its URL."""
        served, url = serve(self.environment(), *arguments)
        self.addCleanup(end, served)
        return url

    def proxies(self) -> list[int]:
        """The processes of the program that keep state in the directory of this test."""
        wanted = f"COURTESY__STATE_DIR={self.directory / 'state'}".encode()
        found = []
        for process in Path("/proc").iterdir():
            try:
                is_ours = process.name.isdigit() and wanted in (process / "environ").read_bytes().split(b"\0")
                if is_ours and os.readlink(process / "exe") == os.path.realpath(COURTESY):
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def assert_no_proxy_is_left(self) -> None:
        end = time.monotonic() + DEADLINE
        while self.proxies():
            self.assertLess(time.monotonic(), end, f"left: {self.proxies()}")
            time.sleep(0.05)

    def assert_spaced(self, site: Site, seconds: float) -> None:
        starts = site.starts()
        # The site notes a request late, never early: sums of gaps are not shortened by that.
        self.assertGreaterEqual(starts[-1] - starts[0], seconds * (len(starts) - 1) - 0.1)


def serve(environment: dict[str, str], *arguments: str) -> tuple[subprocess.Popen, str]:
    served = subprocess.Popen(
        [COURTESY, "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--allow-private", *arguments],
        stderr=subprocess.PIPE, text=True, env={**environment, "COURTESY__LOG__FORMAT": "json"},
    )
    said = ""
    for line in served.stderr:
        said += line
        if '"listening"' in line:
            address = re.search(r"127\.0\.0\.1:\d+", line)[0]
            threading.Thread(target=served.stderr.read, daemon=True).start()
            return served, f"http://{address}"
    raise AssertionError(said)


def end(process: subprocess.Popen, number: int = signal.SIGTERM) -> None:
    process.send_signal(number)
    process.wait()
    if process.stderr:
        process.stderr.close()


@functools.cache
def shared_proxy() -> str:
    """One for the tests that are not about its start."""
    state = tempfile.TemporaryDirectory(prefix="scrapy-courtesy-")
    served, url = serve({"COURTESY__STATE_DIR": state.name, "COURTESY__TLS__ROOTS": "bundled"})
    atexit.register(state.cleanup)
    atexit.register(end, served)
    return url
