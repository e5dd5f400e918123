"""The way of a request to the proxy, and what becomes of what the proxy answers itself."""

from __future__ import annotations

import logging
import math
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.utils.asyncio import CallLaterResult, call_later, sleep

from .refusal import Refusal, waited

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger("scrapy_courtesy")

# Rules that have a count of their own, and hosts whose wait is known; of each the rest is counted together.
MOST_RULES = 100
MOST_HOSTS = 4096
# Requests that wait outside of the downloader for the time that the proxy gave.
MOST_PUT_OFF = 10_000
# Seconds until a CONNECT is tried again that had no turn: Scrapy does not tell its Retry-After.
CONNECT_AGAIN = 30

# Keys of Request.meta: the proxy that was set here, and the time before which it is not to be asked again.
OURS = "_courtesy_proxy"
DUE = "_courtesy_due"

_TUNNEL = re.compile(r"'status': (\d+), 'reason': b'([^']*)'")


class ProxyMiddleware:
    """Sends every request to the proxy, in time, with a timeout that the site's pace leaves room for."""

    def __init__(self, crawler: Crawler) -> None:
        from . import Courtesy

        addon = crawler.get_addon(Courtesy)
        assert addon, "the add-on adds its middlewares"
        self._proxy = addon.proxy
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ProxyMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if urlsplit(request.url).scheme not in ("http", "https"):
            return
        meta = request.meta
        # One that was kept for a later crawl (JOBDIR) has the proxy of the earlier one.
        if "proxy" in meta and not _is_ours(request):
            if not self._crawler.stats.get_value("courtesy/around"):
                logger.warning("%s goes around courtesy, by the proxy in its meta", request)
            self._crawler.stats.inc_value("courtesy/around")
            return
        # One that the engine downloads without its scheduler, or for which there was no room.
        if (due := meta.pop(DUE, None)) is not None:
            await sleep(max(0.0, due - time.time()))
        meta["proxy"] = self._proxy.url
        meta[OURS] = self._proxy.without_credentials
        refusals = self._crawler.get_downloader_middleware(RefusalMiddleware)
        if refusals and (longest := refusals.longest_wait(request)):
            meta["download_timeout"] = max(meta.get("download_timeout", 0), 60 + 2 * longest)


class RefusalMiddleware:
    """Tells the proxy's answers from the sites': a denial is ignored, one whose time has not come is put off.

    It stands next to the downloader, so that nothing of that is taken for a page, kept in a cache or tried
    again at once.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._rules: set[str] = set()
        self._hosts: set[str] = set()
        # By download slot, those that were used last at the end.
        self._longest: dict[str, float] = {}
        self._put_off: dict[Request, CallLaterResult] = {}
        crawler.signals.connect(self._request_scheduled, signals.request_scheduled)
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RefusalMiddleware:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if not _is_ours(request):
            return response
        self._note_wait(request, waited(response))
        refusal = Refusal.of(response)
        if refusal is None:
            return response
        if refusal.is_denial:
            raise self._denied(request, refusal.why)
        if refusal.retry_after is not None:
            return self._later(request, refusal.retry_after, refusal.why)
        return response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """A CONNECT that the proxy refuses."""
        # By its name: where Scrapy runs without Twisted's reactor, its module must not be imported.
        said = _TUNNEL.search(str(exception)) if type(exception).__name__ == "TunnelError" else None
        if said and _is_ours(request):
            if said[1] == "403":
                raise self._denied(request, said[2])
            if said[1] == "429":
                return self._later(request, CONNECT_AGAIN, said[2])
        return None

    def _denied(self, request: Request, why: str) -> IgnoreRequest:
        rule = f"{urlsplit(request.url).netloc} {why}"
        is_first = _add(self._rules, rule, MOST_RULES)
        logger.log(
            logging.INFO if is_first else logging.DEBUG, "Denied: %s: %s", request, why,
            extra={"spider": self._crawler.spider},
        )
        self._crawler.stats.inc_value("courtesy/denied")
        self._crawler.stats.inc_value(f"courtesy/denied/{rule if rule in self._rules else 'other'}")
        return IgnoreRequest(f"Denied by courtesy: {why}")

    def _later(self, request: Request, seconds: int, why: str) -> Request:
        host = urlsplit(request.url).netloc
        is_first = _add(self._hosts, host, MOST_HOSTS)
        logger.log(
            logging.INFO if is_first else logging.DEBUG, "Put off for %d s: %s: %s", seconds, request, why,
            extra={"spider": self._crawler.spider},
        )
        self._crawler.stats.inc_value("courtesy/put_off")
        again = request.copy()
        again.dont_filter = True
        again.meta[DUE] = time.time() + seconds
        return again

    def _request_scheduled(self, request: Request) -> None:
        """Keeps a request that was put off until its time, out of the downloader, where it would take the
        place of others."""
        if DUE not in request.meta or len(self._put_off) >= MOST_PUT_OFF:
            return
        seconds = max(0.0, request.meta.pop(DUE) - time.time())
        self._put_off[request] = call_later(seconds, self._again, request)
        raise IgnoreRequest

    def _again(self, request: Request) -> None:
        del self._put_off[request]
        self._crawler.engine.crawl(request)

    def _spider_idle(self) -> None:
        if self._put_off:
            raise DontCloseSpider

    def give_back(self) -> None:
        """Gives what is put off to the scheduler, which keeps it for a later crawl (JOBDIR)."""
        scheduler = self._crawler.engine.scheduler
        for request, call in self._put_off.items():
            call.cancel()
            if scheduler is not None:
                scheduler.enqueue_request(request)
        self._put_off.clear()

    def longest_wait(self, request: Request) -> float:
        """The longest wait of a request to the same site until now, in seconds."""
        return self._longest.get(self._crawler.engine.downloader.get_slot_key(request), 0.0)

    def _note_wait(self, request: Request, seconds: float) -> None:
        """Fits the slot of a site to its pace: of the requests that are under way to it one is to wait.

        More of them only take the places of requests to other sites.
        """
        downloader: Any = self._crawler.engine.downloader
        key = downloader.get_slot_key(request)
        slot = downloader.slots.get(key)
        if slot is None:
            return
        most = downloader.per_slot_settings.get(key, {}).get("concurrency", downloader.domain_concurrency)
        if not seconds:
            slot.concurrency = min(most, slot.concurrency + 1)
            return
        stats = self._crawler.stats
        waits = stats.get_value("courtesy/waited_seconds", 0.0) + seconds
        stats.set_value("courtesy/waited_seconds", round(waits, 3))
        self._longest[key] = max(seconds, self._longest.pop(key, 0.0))
        if len(self._longest) > MOST_HOSTS:
            del self._longest[next(iter(self._longest))]
        # Of those under way, as many are with the site as it has a share of their time (Little's law).
        under_way = len(slot.transferring) + 1
        latency = max(seconds, request.meta.get("download_latency") or seconds)
        with_site = math.ceil(under_way * (latency - seconds) / latency)
        slot.concurrency = min(most, max(with_site, 1) + 1)


class PutOffPipeline:
    """Acts when the spider closes, before the scheduler does: there is no signal for that."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PutOffPipeline:
        return cls(crawler)

    def close_spider(self) -> None:
        if refusals := self._crawler.get_downloader_middleware(RefusalMiddleware):
            refusals.give_back()


def _is_ours(request: Request) -> bool:
    """Whether a request goes by the proxy that was set here, and not by one of the spider's."""
    meta = request.meta
    return OURS in meta and meta.get("proxy") == meta[OURS]


def _add(known: set[str], key: str, most: int) -> bool:
    """Whether it is new, and there is room for it."""
    is_new = key not in known and len(known) < most
    if is_new:
        known.add(key)
    return is_new
