// Crawls each URL with Crawlee's HttpCrawler, through the proxy of the environment; with --as-it-comes, through none.
import { Configuration, HttpCrawler, ProxyConfiguration, log } from "@crawlee/http";

log.setLevel(log.LEVELS.OFF);
const configuration = new Configuration({ persistStorage: false });
const isPlain = process.argv[2] === "--as-it-comes";
const proxyConfiguration = isPlain
  ? undefined
  : new ProxyConfiguration({ proxyUrls: [process.env.HTTPS_PROXY] });
for (const url of process.argv.slice(isPlain ? 3 : 2)) {
  const crawler = new HttpCrawler(
    {
      proxyConfiguration,
      maxRequestRetries: 0,
      ignoreHttpErrorStatusCodes: [403],
      additionalMimeTypes: ["*/*"],
      retryOnBlocked: false,
      sessionPoolOptions: { blockedStatusCodes: [] },
      requestHandler({ response, body }) {
        const record = response.headers["courtesy-record"] ?? "";
        console.log(`HTTP/${response.httpVersion} ${response.statusCode}\nCourtesy-Record: ${record}\n\n${body}`);
      },
      failedRequestHandler({ request }, error) {
        console.error(`${request.url}: ${error.message}`);
      },
    },
    configuration,
  );
  await crawler.run([{ url, uniqueKey: `${url} ${Math.random()}` }]);
}
