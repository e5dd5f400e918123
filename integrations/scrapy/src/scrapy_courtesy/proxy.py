"""The proxy of a crawl: one that runs already, or one that lives as long as the crawl."""

from __future__ import annotations

import atexit
import http.client
import logging
import os
import ssl
import subprocess
import tempfile
import threading
from base64 import b64encode
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

logger = logging.getLogger("scrapy_courtesy")

# Seconds. A proxy starts, answers and ends in less than one.
PATIENCE = 30

# Tells the proxy's address, and stays as long as its standard input. That ends with this process
# however it ends, and the proxy with it.
STAY = 'echo "$http_proxy"; exec cat >/dev/null'

# Where systems keep their certificate authorities, if Python does not know it.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class CourtesyError(Exception):
    """There is no proxy to send the crawl through."""


class Proxy:
    """A courtesy proxy by its URL, with its process if it was started here."""

    def __init__(self, url: str, program: Program | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise CourtesyError(f"COURTESY_PROXY: {url!r} is no http://HOST:PORT")
        self.url = url
        host = parts.netloc.rpartition("@")[2]
        self.without_credentials = f"http://{host}"
        self._address = (parts.hostname, parts.port or 80)
        self._user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
        self._program = program

    @classmethod
    def of(cls, settings: BaseSettings) -> Proxy:
        """The proxy that the settings or the environment name, or else one that is started."""
        url = settings.get("COURTESY_PROXY") or os.environ.get("COURTESY_PROXY")
        program = None
        if not url:
            program = Program(settings.get("COURTESY_PROGRAM") or "courtesy", settings.getlist("COURTESY_ARGUMENTS"))
            url = program.url
        try:
            proxy = cls(url, program)
            authority = proxy._authority()
            if file := settings.get("COURTESY_CA"):
                authority = Path(file).read_bytes()
            if authority:
                trust(authority)
        except BaseException:
            if program:
                program.close()
            raise
        return proxy

    def _authority(self) -> bytes | None:
        """The certificate authority of the proxy, which has none if it intercepts no HTTPS."""
        host, port = self._address
        headers = {}
        if self._user:
            headers["Proxy-Authorization"] = "Basic " + b64encode(self._user.encode()).decode()
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        try:
            connection.request("GET", "http://courtesy.internal/ca.pem", headers=headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise CourtesyError(f"the proxy {self.without_credentials} does not answer: {error}") from error
        finally:
            connection.close()
        if not (response.getheader("Proxy-Status") or "").startswith("courtesy"):
            raise CourtesyError(f"the proxy {self.without_credentials} is not courtesy")
        if response.status == 407:
            raise CourtesyError(
                f"the proxy {self.without_credentials} asks for a user: COURTESY_PROXY=http://NAME:PASSWORD@HOST:PORT"
            )
        if response.status not in (200, 404):
            raise CourtesyError(
                f"the proxy {self.without_credentials} refuses: {response.status} {response.reason}"
            )
        return body if response.status == 200 else None

    def close(self) -> None:
        """Ends the proxy, if it was started here."""
        if self._program:
            self._program.close()


class Program:
    """A running ``courtesy run``: its proxy is on a port of its own, and its records are those of a run."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        environment = dict(os.environ)
        # What leads clients to a proxy is not for the proxy.
        if _trusted and environment.get("SSL_CERT_FILE") == str(_trusted):
            environment.pop("SSL_CERT_FILE")
            environment |= _replaced
        try:
            self._process = subprocess.Popen(
                # The add-on leaves out no host, and so not those on loopback.
                [program, "run", "--proxy-loopback", *arguments, "--", "sh", "-c", STAY],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                text=True,
                errors="replace",
                # Control-C is for Scrapy, which lets requests under way finish.
                start_new_session=True,
            )
        except OSError as error:
            raise CourtesyError(
                f"cannot start {program!r} ({error.strerror}): install courtesy, or name the program by"
                " COURTESY_PROGRAM, or a running proxy by COURTESY_PROXY"
            ) from error
        self._said: deque[str] = deque(maxlen=20)
        self._log = threading.Thread(target=self._pass_on, args=(self._process.stderr,), daemon=True)
        self._log.start()
        too_late = threading.Timer(PATIENCE, self._process.kill)
        too_late.start()
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        too_late.cancel()
        if not self.url:
            self.close()
            raise CourtesyError("\n".join(["courtesy did not start:", *self._said]))

    def _pass_on(self, lines: IO[str]) -> None:
        for line in lines:
            self._said.append(line.rstrip())
            logger.info("%s", line.rstrip().removeprefix("courtesy: "))

    def close(self) -> None:
        """Ends it, and returns when it has said its summary."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        # A process that this one forked may hold the other end still.
        for end in (self._process.terminate, self._process.kill, None):
            try:
                self._process.wait(PATIENCE)
                break
            except subprocess.TimeoutExpired:
                if end:
                    end()
        self._log.join(PATIENCE)
        self._process.stdout.close()


_trusted: Path | None = None
# What was in the place of its name before.
_replaced: dict[str, str] = {}
_trusting = threading.Lock()


def trust(authority: bytes) -> None:
    """Makes TLS in this process trust a certificate authority (PEM), beside those of the system.

    Scrapy has no setting for that; whatever uses OpenSSL's defaults follows ``SSL_CERT_FILE``. There is
    one file for all crawls of the process.
    """
    global _trusted
    with _trusting:
        if _trusted is None:
            known = ssl.get_default_verify_paths().cafile
            files = [known] if known else [file for file in SYSTEM_BUNDLES if os.path.exists(file)]
            roots = Path(files[0]).read_bytes() if files else b""
            descriptor, name = tempfile.mkstemp(prefix="courtesy-", suffix=".pem")
            with os.fdopen(descriptor, "wb") as bundle:
                bundle.write(roots + b"\n")
            _trusted = Path(name)
            atexit.register(_trusted.unlink, missing_ok=True)
            _replaced.update({it: os.environ[it] for it in ("SSL_CERT_FILE",) if it in os.environ})
            os.environ["SSL_CERT_FILE"] = name
        if authority not in _trusted.read_bytes():
            with _trusted.open("ab") as bundle:
                bundle.write(authority + b"\n")
