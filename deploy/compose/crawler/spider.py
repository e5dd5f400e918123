"""A crawler that knows nothing of robots.txt and of the proxy: it follows every link of one site. What the
proxy refuses is a 403 to it, and told."""

import os
from urllib.parse import urlsplit

import scrapy


class Spider(scrapy.Spider):
    name = "site"
    start_urls = [os.environ["START_URL"]]
    allowed_domains = [urlsplit(start_urls[0]).hostname]
    handle_httpstatus_list = [403]
    custom_settings = {
        "USER_AGENT": "ExampleBot/1.0",
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_VERIFY_CERTIFICATES": True,
        "TELNETCONSOLE_ENABLED": False,
        "CLOSESPIDER_PAGECOUNT": 100,
    }

    def parse(self, response):
        yield {"url": response.url, "status": response.status}
        if response.status == 200 and hasattr(response, "xpath"):
            yield from response.follow_all(xpath="//a")
