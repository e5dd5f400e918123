"""A Scrapy add-on that sends a crawl through courtesy, the proxy that makes it obey robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import run_in_thread

from .middlewares import ProxyMiddleware, PutOffPipeline, RefusalMiddleware
from .proxy import CourtesyError, Proxy

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

__all__ = ["Courtesy", "CourtesyError"]


class Courtesy:
    """The add-on: ``ADDONS = {"scrapy_courtesy.Courtesy": 500}``."""

    proxy: Proxy

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Courtesy:
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Finds or starts the proxy and leads the crawl to it.

        Raises :exc:`CourtesyError` where there is none: a crawl without the proxy would obey nothing.
        """
        self.proxy = Proxy.of(settings)
        self._crawler.signals.connect(self._spider_closed, signals.spider_closed)
        # New projects have it on, in their settings. The proxy decides, and records what it denies.
        settings.set("ROBOTSTXT_OBEY", False, priority="cmdline")
        # The proxy gives up on a site that does not answer. A request that waits for its turn is to stay.
        settings.set("DOWNLOAD_TIMEOUT", 3600, priority="addon")
        # The proxy verifies the sites' certificates, and nobody else is to take its place.
        settings.set("DOWNLOAD_VERIFY_CERTIFICATES", True, priority="addon")
        for middleware, order in ((ProxyMiddleware, 740), (RefusalMiddleware, 950)):
            settings.setdefault_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", middleware, order)
        settings.setdefault_in_component_priority_dict("ITEM_PIPELINES", PutOffPipeline, 0)

    async def _spider_closed(self) -> None:
        await run_in_thread(self.proxy.close)
