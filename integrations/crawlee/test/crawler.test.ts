/** The real Crawlee with the program that COURTESY names. */

import { CheerioCrawler, HttpCrawler, type Request } from "crawlee";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { courtesy, CourtesyProxyConfiguration } from "../src/index.js";
import { AGENT, COURTESY, alone, certificate, directory, isNightly, serve, Site } from "./world.js";

const ROBOTS = "User-agent: *\nDisallow: /private/\n";
const paths = (count: number) => Array.from({ length: count }, (_, number) => `/${number}`);

/** What becomes of each path. */
async function crawl(
  proxyUrl: string,
  urls: string[],
  options: ConstructorParameters<typeof CheerioCrawler>[0] & { userAgent?: string } = {},
) {
  const came: string[] = [];
  const retries: number[] = [];
  const failed: string[] = [];
  const skipped: string[] = [];
  const path = (url: string) => new URL(url).pathname;
  const crawler = courtesy(
    CheerioCrawler,
    {
      userAgent: AGENT,
      proxyConfiguration: new CourtesyProxyConfiguration(proxyUrl),
      requestHandler: ({ request, $ }) => {
        came.push(`${path(request.url)} ${$("title").text()}`);
        retries.push(request.retryCount);
      },
      failedRequestHandler: ({ request }: { request: Request }) => void failed.push(path(request.url)),
      onSkippedRequest: ({ url, reason }) => void skipped.push(`${path(url)} ${reason}`),
      ...options,
    },
    alone(),
  );
  const statistics = await crawler.run(urls);
  const retired = crawler.sessionPool?.retiredSessionsCount;
  return { came: came.sort(), failed, skipped: skipped.sort(), retries, retired, statistics, crawler };
}

test("a denial finishes its request as skipped, and its session stays", async (test) => {
  const site = await Site.start(test, ROBOTS);
  const proxy = await serve(test);
  const urls = ["/a", "/private/1", "/private/2"].map((it) => site.url + it);
  // With the head of a browser the denial is a page; with that of a crawler it is JSON.
  for (const userAgent of [undefined, AGENT]) {
    const found = await crawl(proxy, urls, { userAgent });
    assert.deepEqual(found.came, ["/a page"]);
    assert.deepEqual(found.skipped, ["/private/1 robotsTxt", "/private/2 robotsTxt"]);
    assert.deepEqual([found.failed, found.retired], [[], 0]);
    assert.equal(found.statistics.requestsFailed, 0);
    assert.deepEqual(found.statistics.retryHistogram, [3]);
  }
  assert.equal(site.asked("/private/1"), 0);
  assert.equal(site.requests.at(-1)?.agent, AGENT);
});

test("a denial is logged with its rule", async (test) => {
  const site = await Site.start(test, 'User-agent: *\nDisallow: /a"b<&\n');
  const proxy = await serve(test);
  for (const userAgent of [undefined, AGENT]) {
    const said: string[] = [];
    const crawler = courtesy(
      HttpCrawler,
      { userAgent, proxyConfiguration: new CourtesyProxyConfiguration(proxy), requestHandler: () => assert.fail() },
      alone(),
    );
    test.mock.method(crawler.log, "info", (message: string) => said.push(message));
    const url = `${site.url}/a%22b%3C&c`;
    await crawler.run([url]);
    assert.ok(said.includes(`Denied: ${url}: line 2 "Disallow: /a"b<&"`), said.join("\n"));
  }
});

test("what the site answers itself is treated as ever, whatever it says that it is", async (test) => {
  const site = await Site.start(test, ROBOTS);
  const proxy = await serve(test);
  const headers = {
    "proxy-status": 'courtesy; error=http_request_denied; details="robots.txt line 1"',
    "courtesy-record": "01K0000000000000000000000",
    "retry-after": "1",
  };
  site.scripts["/a"] = [1, 2].map(() => ({ status: 403, headers }));
  const found = await crawl(proxy, [`${site.url}/a`], { maxRequestRetries: 1 });
  assert.deepEqual([found.failed, found.skipped], [["/a"], []]);
  assert.deepEqual([site.asked("/a"), found.retired], [2, 2]);
});

test("a 429 of the proxy costs no try, no session and no page", async (test) => {
  const site = await Site.start(test, "User-agent: *\nCrawl-delay: 0.5\n");
  // What would wait longer is refused with 429 at once.
  const proxy = await serve(test, "--max-wait", "300ms");
  const found = await crawl(proxy, paths(5).map((it) => site.url + it), { maxRequestRetries: 0 });
  assert.deepEqual(found.came, paths(5).map((it) => `${it} page`));
  assert.deepEqual([found.failed, found.retired], [[], 0]);
  assert.deepEqual(found.retries, [0, 0, 0, 0, 0]);
  assert.equal(site.requests.length, 6);
  site.assertSpaced(0.5);
});

test("what is put off for longer than the queue's lock is requested once", { skip: !isNightly }, async (test) => {
  const site = await Site.start(test, "User-agent: *\nCrawl-delay: 80\n");
  const proxy = await serve(test, "--max-wait", "300ms");
  const timeouts = { navigationTimeoutSecs: 5, requestHandlerTimeoutSecs: 5 };
  const found = await crawl(proxy, paths(2).map((it) => site.url + it), timeouts);
  assert.deepEqual(found.came, ["/0 page", "/1 page"]);
  assert.equal(site.requests.length, 3);
});

async function everyPage(test: Parameters<typeof serve>[0], secs: number) {
  const site = await Site.start(test, `User-agent: *\nCrawl-delay: ${secs}\n`);
  const proxy = await serve(test);
  const found = await crawl(proxy, paths(24).map((it) => site.url + it), { minConcurrency: 16 });
  assert.equal(found.came.length, 24);
  assert.deepEqual(found.statistics.retryHistogram, [24]);
  assert.equal(site.requests.length, 25);
  site.assertSpaced(secs);
}

test("every page of a site that asks for a delay comes", (test) => everyPage(test, 0.2));
test("every page comes at ten seconds", { skip: !isNightly }, (test) => everyPage(test, 10));

test("https is judged, and a CONNECT that is refused is a denial", async (test) => {
  const made = directory(test);
  const site = await Site.start(test, ROBOTS, certificate(made));
  const proxy = await serve(
    test,
    ...["--extra-root", `${made}/site.pem`, "--set", `egress.connect_ports=[${site.port}]`],
  );
  const urls = [`${site.url}/a`, `${site.url}/private/1`, "https://127.0.0.1:9/b"];
  const found = await crawl(proxy, urls);
  assert.deepEqual(found.came, ["/a page"]);
  assert.deepEqual(found.skipped, ["/b robotsTxt", "/private/1 robotsTxt"]);
  assert.deepEqual([found.failed, found.retired], [[], 0]);
});

test("the recipe of the guide prints what it shows", async (test) => {
  const links = ["/news/1", "/news/2", "/news/3", "/private/report"].map((it) => `<a href="${it}">${it}</a>`);
  const site = await Site.start(test, ROBOTS, undefined, links.join(""));
  const page = readFileSync(join(import.meta.dirname, "../../recipe.md"), "utf8");
  const [, program, , shown] = page.match(/```js\n(.*?)```.*?```text\n(\$.*?)\n(.*?)```/s) ?? assert.fail(page);
  // Beside this file, where the package finds itself by its name.
  const file = join(import.meta.dirname, "with_courtesy.mjs");
  writeFileSync(file, (program ?? "").replaceAll("https://example.com", site.url));
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, COURTESY__STATE_DIR: directory(test), COURTESY__TLS__ROOTS: "bundled" };
  const args = ["run", "--allow-private", "--proxy-loopback", "--summary", "none", "--", "node", file];
  const { stdout } = await promisify(execFile)(COURTESY, args, { env: { ...env, CRAWLEE_PERSIST_STORAGE: "false" } });
  assert.equal(stdout, shown);
});

test("without a proxy it says what to do, and a crawler without it is as before", async (test) => {
  const site = await Site.start(test, ROBOTS);
  delete process.env["COURTESY_PROXY"];
  assert.throws(() => courtesy(CheerioCrawler, {}), /COURTESY_PROXY is not set: start the crawler by `courtesy run/);
  process.env["COURTESY_PROXY"] = "http://127.0.0.1:3128";
  assert.equal(await new CourtesyProxyConfiguration().newUrl(), "http://127.0.0.1:3128");
  const came: string[] = [];
  const plain = new CheerioCrawler({ requestHandler: ({ request }) => void came.push(request.url) }, alone());
  await plain.run([`${site.url}/private/1`]);
  assert.deepEqual(came, [`${site.url}/private/1`]);
});
