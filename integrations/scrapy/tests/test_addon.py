"""The add-on with the Scrapy that is installed and the program that COURTESY names."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from world import COURTESY, DEADLINE, Case, certificate, end

ROBOTS = "User-agent: *\nDisallow: /private/\n"
DENIED = "courtesy/denied"

# Left out of tests/run.
nightly = unittest.skipUnless(os.environ.get("COURTESY_TEST_NIGHTLY"), "nightly")


class Denials(Case):
    def test_a_denial_is_ignored_and_counted_with_its_rule(self) -> None:
        site = self.site(ROBOTS)
        urls = [f"{site.url}{path}" for path in ("/", "/private/1", "/private/2")]
        # That would be Scrapy's own; new projects have it.
        crawled = self.crawl(urls, self.settings(ROBOTSTXT_OBEY=True))
        rule = 'line 2 "Disallow: /private/"'
        self.assertEqual(crawled.pages, ["/"], crawled.log)
        self.assertEqual(crawled.stats[DENIED], 2)
        self.assertEqual(crawled.stats[f"{DENIED}/127.0.0.1:{site.port} {rule}"], 2, crawled.stats)
        self.assertNotIn("retry/count", crawled.stats)
        self.assertNotIn("robotstxt/request_count", crawled.stats)
        # The first of a rule.
        self.assertRegex(crawled.log, rf"INFO: Denied: <GET {site.url}/private/\d>: {re.escape(rule)}")
        self.assertEqual(
            sorted(crawled.failed),
            [[url, f"IgnoreRequest('Denied by courtesy: {rule}')"] for url in urls[1:]],
        )
        self.assertEqual([site.asked(path) for path in ("/robots.txt", "/private/1")], [1, 0])

    @nightly
    def test_the_rule_is_read_from_json_and_the_line_where_there_is_no_content(self) -> None:
        site = self.site("User-agent: *\nDisallow: /a\"b<&\n")
        crawled = self.crawl(
            [f"{site.url}/a%22b%3C&c"], self.settings(DEFAULT_REQUEST_HEADERS={"Accept": "*/*"}),
        )
        in_page = self.crawl([f"{site.url}/a%22b%3C&c"], self.settings())
        head = "\n    async def start(self):\n        yield scrapy.Request(self.start_urls[0], method='HEAD')\n"
        without_content = self.crawl([f"{site.url}/a%22b%3C&c"], self.settings(), head)
        key = f"{DENIED}/127.0.0.1:{site.port} line 2"
        for found in (crawled, in_page):
            self.assertIn(key + ' "Disallow: /a"b<&"', found.stats, found.log)
        self.assertIn(key, without_content.stats, without_content.log)

    @nightly
    def test_the_rules_that_have_a_count_are_bounded(self) -> None:
        site = self.site("User-agent: *\n" + "".join(f"Disallow: /{number}/\n" for number in range(120)))
        crawled = self.crawl([f"{site.url}/{number}/" for number in range(120)], self.settings())
        counts = {name: count for name, count in crawled.stats.items() if name.startswith(f"{DENIED}/")}
        self.assertEqual((len(counts), sum(counts.values())), (101, 120))
        self.assertEqual((counts[f"{DENIED}/other"], crawled.stats[DENIED]), (20, 120))

    @nightly
    def test_a_site_cannot_say_that_it_is_the_proxy(self) -> None:
        forged = {
            "Proxy-Status": 'courtesy; error=http_request_denied; details="robots.txt line 1"',
            "Courtesy-Record": "01K0000000000000000000000", "Courtesy-Waited": "7;by=hold",
            "Retry-After": "1",
        }
        sites = [self.site(), self.site(certificate=certificate(self.directory))]
        for site in sites:
            site.scripts["/denied"] = [(403, forged)]
        crawled = self.crawl(
            [f"{site.url}/denied" for site in sites],
            self.own(
                "--extra-root", str(self.directory / "site.pem"),
                "--set", f"egress.connect_ports=[{sites[1].port}]",
                HTTPERROR_ALLOW_ALL=True,
            ),
        )
        self.assertEqual([status for _, status in crawled.got], [403, 403], crawled.log)
        self.assertFalse([name for name in crawled.stats if name.startswith("courtesy/")], crawled.stats)

    @nightly
    def test_a_connect_that_is_refused_is_a_denial(self) -> None:
        crawled = self.crawl(["https://127.0.0.1:9/"], self.settings())
        self.assertEqual(crawled.stats[DENIED], 1, crawled.log)
        self.assertNotIn("retry/count", crawled.stats)

    @nightly
    def test_denials_are_not_kept_in_a_cache(self) -> None:
        site = self.site(ROBOTS)
        kept = self.settings(HTTPCACHE_ENABLED=True, HTTPCACHE_DIR=str(self.directory / "cache"))
        urls = [f"{site.url}/", f"{site.url}/private/1"]
        for wanted in (0, 1):
            crawled = self.crawl(urls, kept)
            self.assertEqual((crawled.pages, crawled.stats[DENIED]), (["/"], 1), crawled.log)
            self.assertEqual(crawled.stats.get("httpcache/hit", 0), wanted)


class Pace(Case):
    def test_every_page_of_a_site_that_asks_for_a_delay_comes(self) -> None:
        self.every_page(pages=24, delay=0.2)

    @nightly
    def test_every_page_comes_at_ten_seconds_with_sixteen_at_a_time(self) -> None:
        self.every_page(pages=24, delay=10)

    @nightly
    def test_every_page_comes_with_a_timeout_that_is_shorter_than_the_first_waits(self) -> None:
        self.every_page(pages=24, delay=5, DOWNLOAD_TIMEOUT=30)

    def every_page(self, pages: int, delay: float, **more: object) -> None:
        site = self.site(f"User-agent: *\nCrawl-delay: {delay}\n")
        urls = [f"{site.url}/{number}" for number in range(pages)]
        at_once = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
        note = "\n        self.most = self.crawler.engine.downloader.slots['127.0.0.1'].concurrency"
        note += "\n        self.crawler.stats.set_value('test/slot', self.most)\n"
        body = "\n    def parse(self, response):\n        self.got.append([response.url, response.status])" + note
        crawled = self.crawl(urls, self.settings(**at_once, **more), body)
        self.assertEqual(len(crawled.pages), pages, crawled.log)
        self.assertEqual(len(site.starts()), pages)
        self.assert_spaced(site, delay)
        if not more:
            self.assertNotIn("retry/count", crawled.stats)
        self.assertGreater(crawled.stats["courtesy/waited_seconds"], delay * (pages - 1) / 2)
        # One is with the site, one waits.
        self.assertLessEqual(crawled.stats["test/slot"], 3)


class PutOff(Case):
    def test_a_429_of_the_proxy_costs_no_retry_and_no_page(self) -> None:
        site = self.site("User-agent: *\nCrawl-delay: 0.5\n")
        urls = [f"{site.url}/{number}" for number in range(5)]
        # What would wait longer is refused with 429 at once.
        crawled = self.crawl(urls, self.own("--max-wait", "300ms", RETRY_TIMES=0))
        self.assertEqual(len(crawled.pages), 5, crawled.log)
        self.assertGreaterEqual(crawled.stats["courtesy/put_off"], 3)
        self.assertNotIn("retry/count", crawled.stats)
        self.assertNotIn("retry/max_reached", crawled.stats)
        self.assertEqual((crawled.failed, crawled.reason), ([], "finished"))
        self.assertEqual(len(site.starts()), 5)

    @nightly
    def test_what_is_put_off_takes_no_place_in_the_downloader(self) -> None:
        held, other = self.site(), self.site()
        held.scripts["/first"] = [(429, {"Retry-After": "15"})]
        urls = [f"{held.url}/first", *(f"{held.url}/{number}" for number in range(6))]
        urls += [f"{other.url}/{number}" for number in range(6)]
        crawled = self.crawl(
            urls,
            self.own(
                "--max-wait", "300ms", CONCURRENT_REQUESTS=1, RETRY_TIMES=1, SCHEDULER_START_MEMORY_QUEUE=
                "scrapy.squeues.FifoMemoryQueue",
            ),
        )
        self.assertEqual(len(crawled.got), 13, crawled.log)
        self.assertGreaterEqual(crawled.stats["courtesy/put_off"], 6)
        # All of the other site came while the first was at rest.
        rest_ends = held.starts()[1]
        self.assertLess(other.starts()[-1], rest_ends)
        # The site's own 429 is Scrapy's to try again.
        self.assertEqual(crawled.stats["retry/count"], 1)
        self.assertEqual(held.asked("/first"), 2)

    @nightly
    def test_a_download_without_the_scheduler_waits_as_well(self) -> None:
        site = self.site("User-agent: *\nCrawl-delay: 0.5\n")
        body = """
    async def start(self):
        import asyncio
        requests = [scrapy.Request(url) for url in self.start_urls]
        found = await asyncio.gather(*map(self.crawler.engine.download_async, requests))
        self.got = [[response.url, response.status] for response in found]
        return
        yield
"""
        urls = [f"{site.url}/{number}" for number in range(3)]
        crawled = self.crawl(urls, self.own("--max-wait", "300ms"), body)
        self.assertEqual(crawled.pages, ["/0", "/1", "/2"], crawled.log)
        self.assertLess(crawled.stats["courtesy/put_off"], 9)


    @nightly
    def test_what_is_put_off_is_kept_for_a_later_crawl(self) -> None:
        site = self.site("User-agent: *\nCrawl-delay: 3600\n")
        settings = self.own("--max-wait", "300ms", JOBDIR=str(self.directory / "job"), CLOSESPIDER_TIMEOUT=2)
        first = self.crawl([f"{site.url}/{number}" for number in range(3)], settings)
        self.assertEqual((len(first.pages), first.stats["courtesy/put_off"]), (1, 2), first.log)
        second = self.crawl([], settings)
        self.assertIn("Resuming crawl (2 requests scheduled)", second.log)
        self.assertEqual(second.stats["scheduler/dequeued"], 2, second.log)


class Proxies(Case):
    def test_https_is_judged_and_verified(self) -> None:
        site = self.site(ROBOTS, certificate=certificate(self.directory))
        given = self.own(
            "--extra-root", str(self.directory / "site.pem"), "--set", f"egress.connect_ports=[{site.port}]"
        )
        crawled = self.crawl([f"{site.url}/", f"{site.url}/private/1"], given)
        self.assertEqual((crawled.pages, crawled.stats[DENIED]), (["/"], 1), crawled.log)
        # It is on: the site's own certificate is not trusted.
        around = "\n    async def start(self):\n"
        around += "        yield scrapy.Request(self.start_urls[0], meta={'proxy': None}, errback=self.lost)\n"
        crawled = self.crawl([f"{site.url}/"], {**given, "RETRY_ENABLED": False}, around)
        self.assertEqual(crawled.pages, [], crawled.log)
        self.assertEqual(crawled.stats["courtesy/around"], 1)
        self.assertIn("goes around courtesy", crawled.log)

    @nightly
    def test_the_proxy_ends_with_the_crawl_and_its_records_stay(self) -> None:
        site = self.site(ROBOTS)
        crawled = self.crawl([f"{site.url}/private/1"], self.own())
        self.assertEqual(crawled.stats[DENIED], 1, crawled.log)
        self.assertEqual(self.proxies(), [])
        self.assertIn("[scrapy_courtesy] INFO: 1 request to 1 host", crawled.log)
        told = subprocess.run(
            [COURTESY, "audit", "query", "--run", "last", "--format", "jsonl"],
            capture_output=True, text=True, env=self.environment(),
        )
        self.assertIn("/private/1", told.stdout, told.stderr)

    def test_a_proxy_that_is_named_is_used_and_stays(self) -> None:
        site = self.site(ROBOTS)
        proxy = self.serve()
        urls = [f"{site.url}/", f"{site.url}/private/1"]
        missing = {**self.own(), "COURTESY_PROGRAM": "/nonexistent"}
        by_variable = self.crawl(urls, missing, COURTESY_PROXY=proxy)
        by_setting = self.crawl(urls, {**missing, "COURTESY_PROXY": proxy}, COURTESY_PROXY="http://127.0.0.1:1")
        for crawled in (by_variable, by_setting):
            self.assertEqual((crawled.pages, crawled.stats[DENIED]), (["/"], 1), crawled.log)
        self.assertEqual(len(self.proxies()), 1)
        # One file for both crawls of this state directory.
        self.assertEqual(site.asked("/robots.txt"), 1)

    @nightly
    def test_under_courtesy_run_its_proxy_is_used(self) -> None:
        site = self.site(ROBOTS)
        command = self.spider([f"{site.url}/private/1"], {**self.own(), "COURTESY_PROGRAM": "/nonexistent"})
        ended = subprocess.run(
            [COURTESY, "run", "--allow-private", "--", *command],
            capture_output=True, text=True, env=self.environment(), cwd=self.directory, timeout=120,
        )
        self.assertIn("courtesy: 1 request to 1 host", ended.stderr)
        self.assertIn("denied", ended.stderr)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    @nightly
    def test_a_user_is_told_to_the_proxy(self) -> None:
        site = self.site(ROBOTS, certificate=certificate(self.directory))
        plain = self.site(ROBOTS)
        users = self.directory / "users.toml"
        subprocess.run(
            [COURTESY, "users", "add", "ada", "--file", str(users)], input="open: sesame\n", text=True,
            check=True, capture_output=True, env=self.environment(),
        )
        proxy = self.serve(
            "--set", f"clients.users_file={users}", "--extra-root", str(self.directory / "site.pem"),
            "--set", f"egress.connect_ports=[{site.port}]",
        )
        named = proxy.replace("http://", "http://ada:open%3A%20sesame@")
        crawled = self.crawl([f"{site.url}/", f"{plain.url}/"], self.own(COURTESY_PROXY=named))
        self.assertEqual(crawled.pages, ["/", "/"], crawled.log)
        crawled = self.crawl([f"{plain.url}/"], self.own(COURTESY_PROXY=proxy))
        self.assertIn("asks for a user: COURTESY_PROXY=http://NAME:PASSWORD@HOST:PORT", crawled.log)
        self.assertEqual(plain.asked("/"), 1)

    @nightly
    def test_two_crawls_of_one_process_have_a_proxy_each(self) -> None:
        sites, roots = [], b""
        for _ in range(2):
            sites.append(self.site(ROBOTS, certificate=certificate(self.directory)))
            roots += (self.directory / "site.pem").read_bytes()
        (self.directory / "all.pem").write_bytes(roots)
        self.spider([], {})
        program = """
import sys
from scrapy.crawler import AsyncCrawlerProcess
from spider import Test
process = AsyncCrawlerProcess({"LOG_LEVEL": "INFO"})
for name, settings in %r:
    process.crawl(type(name, (Test,), {"name": name, "custom_settings": settings, "got": [], "failed": [],
                                       "start_urls": [settings["URL"], settings["URL"] + "private/1"]}))
process.start()
"""
        crawls = []
        for number, site in enumerate(sites):
            # Each has a state of its own, and so a certificate authority.
            own = self.own(
                "--state-dir", str(self.directory / f"state{number}"), "--extra-root", str(self.directory / "all.pem"),
                "--set", f"egress.connect_ports=[{site.port}]", URL=f"{site.url}/",
            )
            crawls.append((f"of{number}", own))
        (self.directory / "two.py").write_text(program % crawls)
        ended = subprocess.run(
            [sys.executable, "two.py"], cwd=self.directory, capture_output=True, text=True, timeout=120,
            env=self.environment(),
        )
        told = [json.loads(line) for line in ended.stdout.splitlines()]
        self.assertEqual(sorted(it["got"] for it in told), sorted([[f"{site.url}/", 200]] for site in sites), ended.stderr)
        self.assertEqual([it["stats"][DENIED] for it in told], [1, 1], ended.stderr)
        self.assertNotIn("SSL_CERT_FILE is set", ended.stderr)
        self.assert_no_proxy_is_left()

    def test_without_a_proxy_nothing_is_crawled_and_the_reason_is_said(self) -> None:
        site = self.site()
        for changed, said in [
            ({"COURTESY_PROGRAM": "/nonexistent/courtesy"}, "cannot start '/nonexistent/courtesy' (No such file"),
            ({"COURTESY_ARGUMENTS": ["--set", "pace.delai=1s"]}, "did you mean pace.delay?"),
            ({"COURTESY_PROXY": "http://127.0.0.1:1"}, "the proxy http://127.0.0.1:1 does not answer"),
            ({"COURTESY_PROXY": site.url}, f"the proxy {site.url} is not courtesy"),
            ({"COURTESY_PROXY": "socks5://127.0.0.1:1"}, "is no http://HOST:PORT"),
        ]:
            crawled = self.crawl([f"{site.url}/page"], {**self.own(), **changed})
            self.assertIn(said, crawled.log)
            self.assertNotEqual(crawled.code, 0, crawled.log)
            self.assertEqual(self.proxies(), [])
        self.assertEqual(site.asked("/page"), 0)

    def test_without_the_add_on_scrapy_is_as_before(self) -> None:
        site = self.site(ROBOTS)
        settings = {**self.own(), "ADDONS": {}}
        crawled = self.crawl([f"{site.url}/private/1"], settings, COURTESY_PROXY="http://127.0.0.1:1")
        self.assertEqual(crawled.pages, ["/private/1"], crawled.log)
        self.assertFalse([name for name in crawled.stats if name.startswith("courtesy/")])

    @nightly
    def test_a_crawl_that_goes_on_later_has_the_proxy_of_then(self) -> None:
        site = self.site()
        site.scripts["/1"] = [(503, {})]
        stop = "\n    def parse(self, response):\n        self.got.append([response.url, response.status])\n"
        stop += "        if response.url.endswith('/0'):\n            raise scrapy.exceptions.CloseSpider('enough')\n"
        settings = self.own(
            JOBDIR=str(self.directory / "job"), CONCURRENT_REQUESTS=1, RETRY_PRIORITY_ADJUST=-9,
            HTTPERROR_ALLOW_ALL=True,
        )
        urls = [f"{site.url}/{number}" for number in (1, 0, 2)]
        first = self.crawl(urls, settings, stop)
        self.assertEqual(first.reason, "enough", first.log)
        second = self.crawl([], settings)
        self.assertEqual(sorted(first.pages + second.pages), ["/0", "/1", "/2"], second.log)
        self.assertNotIn("courtesy/around", second.stats)


class Ends(Case):
    def test_a_spider_that_raises_leaves_no_process(self) -> None:
        site = self.site()
        raising = "\n    def {name}(self, *_, **__):\n        raise RuntimeError('of the test')\n"
        for body in (
            raising.format(name="parse"),
            "\n    async def start(self):\n        raise RuntimeError('of the test')\n        yield\n",
            "\n    def __init__(self):\n        raise RuntimeError('of the test')\n",
        ):
            crawled = self.crawl([f"{site.url}/"], self.own(), body)
            self.assertIn("of the test", crawled.log)
            self.assert_no_proxy_is_left()
        # After the proxy has been started, and before the spider is open.
        broken = self.own(EXTENSIONS={"nonexistent.Extension": 1})
        self.crawl([f"{site.url}/"], broken)
        self.assert_no_proxy_is_left()

    def test_scrapy_that_is_killed_leaves_no_process(self) -> None:
        site = self.site("User-agent: *\nCrawl-delay: 3600\n")
        command = self.spider([f"{site.url}/1", f"{site.url}/2"], self.own())
        with open(self.directory / "log", "w") as log:
            scrapy = subprocess.Popen(command, env=self.environment(), cwd=self.directory, stderr=log)
        until = time.monotonic() + DEADLINE
        while site.asked("/1") + site.asked("/2") == 0:
            self.assertLess(time.monotonic(), until, (self.directory / "log").read_text())
            time.sleep(0.05)
        self.assertEqual(len(self.proxies()), 1)
        end(scrapy, signal.SIGKILL)
        self.assert_no_proxy_is_left()

    @nightly
    def test_control_c_lets_what_is_under_way_finish(self) -> None:
        site = self.site("User-agent: *\nCrawl-delay: 2\n")
        command = self.spider([f"{site.url}/1", f"{site.url}/2"], self.own())
        scrapy = subprocess.Popen(
            command, env=self.environment(), cwd=self.directory, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )
        until = time.monotonic() + DEADLINE
        while site.asked("/1") + site.asked("/2") == 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        os.killpg(scrapy.pid, signal.SIGINT)
        _, log = scrapy.communicate(timeout=60)
        self.assertEqual(site.asked("/1") + site.asked("/2"), 2, log)
        self.assert_no_proxy_is_left()


if __name__ == "__main__":
    unittest.main()
