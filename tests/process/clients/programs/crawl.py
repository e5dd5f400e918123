"""Asks site.example for page after page by HTTP and HTTPS, of which each twentieth is disallowed, for as many
seconds as the setting SECONDS says; then says how many responses of each status came, and how many requests
failed."""
import itertools
import time
from collections import Counter

import scrapy


class Spider(scrapy.Spider):
    name = "crawl"
    handle_httpstatus_list = [403]
    numbers = itertools.count()
    seen = Counter()

    async def start(self):
        self.end = time.monotonic() + self.settings.getfloat("SECONDS")
        for _ in range(self.settings.getint("CONCURRENT_REQUESTS")):
            yield self.next()

    def next(self):
        number = next(self.numbers)
        scheme = ("http", "https")[number % 2]
        path = "page" if number % 20 else "private"
        url = f"{scheme}://site.example/{path}/{number}"
        return scrapy.Request(url, errback=self.failed, dont_filter=True)

    def parse(self, response):
        self.seen[response.status] += 1
        if time.monotonic() < self.end:
            yield self.next()

    def failed(self, failure):
        self.seen["failed"] += 1
        print(failure.value, flush=True)
        if time.monotonic() < self.end:
            yield self.next()

    def closed(self, reason):
        print(f"200: {self.seen[200]}, 403: {self.seen[403]}, failed: {self.seen['failed']}", flush=True)
