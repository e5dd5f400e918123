"""What the proxy says of a response, by fields that no site can send: it removes them."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.http import Response

# A day. What has to wait longer is requested once in between.
MOST_SECONDS = 86_400

# RFC 9209 §2: the proxy's own responses are those that it gives an error.
_PROXY_STATUS = re.compile(r'courtesy; error=([^;]+)(?:.*; details="([^"]*)")?')
# A row of the page that is sent to clients that ask for HTML.
_ROW = re.compile(r"<th>(rule\.\w+|reason)</th><td><code>(.*?)</code>", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]+)?")
_LINE = re.compile(r"robots\.txt line (\d+)")


@dataclass(frozen=True)
class Refusal:
    """A response of the proxy in place of the site's."""

    is_denial: bool
    """Whether policy forbids the request; otherwise it is its time or a failure."""
    why: str
    """A rule, such as ``line 2 "Disallow: /private/"``; or the title of the problem."""
    retry_after: int | None
    """Seconds."""

    @classmethod
    def of(cls, response: Response) -> Refusal | None:
        """The refusal that a response is, if it is one."""
        status = _text(response, "Proxy-Status")
        said = _PROXY_STATUS.match(status) if status else None
        if not said:
            return None
        error, details = said.groups()
        retry_after = _text(response, "Retry-After")
        # Without the id of a record, if that could not be written. A 407 is no decision on the request.
        is_denied = error == "http_request_denied" and response.status != 407
        is_denial = "Courtesy-Record" in response.headers or is_denied
        return cls(
            is_denial=is_denial,
            why=_rule(response, details) if is_denial else details or error,
            retry_after=min(int(retry_after), MOST_SECONDS) if retry_after and re.fullmatch("[0-9]{1,9}", retry_after) else None,
        )


def waited(response: Response) -> float:
    """The seconds that the proxy kept the request for its turn."""
    said = _NUMBER.match(_text(response, "Courtesy-Waited") or "")
    return float(said[0]) if said else 0.0


def _text(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None


def _rule(response: Response, details: str | None) -> str:
    """The deciding line and its rule. The response to a HEAD has no content, and text names no rule."""
    members: dict[str, object] = {}
    content_type = _text(response, "Content-Type") or ""
    if content_type.startswith("application/problem+json") and response.body:
        # A body that Scrapy has cut (DOWNLOAD_MAXSIZE) is no JSON.
        with suppress(ValueError):
            rule = json.loads(response.body).get("rule") or {}
            members = {f"rule.{name}": value for name, value in rule.items()}
    elif content_type.startswith("text/html"):
        page = response.body.decode(errors="replace")
        members = {name: html.unescape(value) for name, value in _ROW.findall(page)}
    if "rule.pattern" in members:
        return f'line {members["rule.line"]} "{members["rule.directive"]}: {members["rule.pattern"]}"'
    line = _LINE.match(details or "")
    return f"line {line[1]}" if line else details or "denied"
