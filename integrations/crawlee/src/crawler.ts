import type { Configuration, HttpCrawler, HttpCrawlerOptions, IRequestManager, Request } from "@crawlee/http";
import { RequestState } from "@crawlee/http";
import type { IncomingMessage } from "node:http";

import { CourtesyProxyConfiguration } from "./proxy.js";
import { refusalOf } from "./refusal.js";

/** Beside the options of the crawler. */
export interface CourtesyOptions {
  /**
   * The `User-Agent`, by whose product token robots.txt is read, such as
   * `ExampleBot/1.0 (+https://bot.example/)`. Without it Crawlee sends that of a browser.
   */
  userAgent?: string;
}

/** The time until a CONNECT is tried again that had no turn: Crawlee does not tell its Retry-After. */
const CONNECT_AGAIN_SECS = 30;

/** The request is denied by policy. */
class Denied extends Error {}

/** The time of the request has not come. */
class PutOff extends Error {
  constructor(
    message: string,
    readonly secs: number,
  ) {
    super(message);
  }
}

interface Context {
  request: Request;
  session?: unknown;
  response: IncomingMessage;
}

/** What of a crawler is not public. */
interface Internals {
  postNavigationHooks: ((context: Context) => Promise<void>)[];
  _runRequestHandler(context: Context): Promise<void>;
  _requestFunctionErrorHandler(error: Error, context: Context, source: IRequestManager): Promise<void>;
  delayRequest(request: Request, source: IRequestManager): boolean;
  handleSkippedRequest(skipped: { url: string; reason: "robotsTxt" }): Promise<void>;
}

/** `HttpCrawler`, and those that are made of it. */
type CrawlerClass = new (options?: any, config?: Configuration) => HttpCrawler<any>;
type OptionsOf<Class extends CrawlerClass> = NonNullable<ConstructorParameters<Class>[0]>;

/**
 * A crawler whose requests go through courtesy:
 *
 * ```ts
 * const crawler = courtesy(CheerioCrawler, { userAgent: "ExampleBot/1.0 (+https://bot.example/)", requestHandler });
 * ```
 *
 * A denial finishes its request as skipped (`onSkippedRequest` with the reason `robotsTxt`), and what the
 * proxy refuses because its time has not come is requested again then: neither counts as a try, nor
 * against a session. What the site itself answers is treated as ever.
 */
export function courtesy<Class extends CrawlerClass>(
  Crawler: Class,
  { userAgent, ...options }: OptionsOf<Class> & CourtesyOptions,
  config?: Configuration,
): InstanceType<Class> {
  const all = {
    // It counts the time for which a request waits for its turn.
    navigationTimeoutSecs: 3600,
    // Requests that wait cost no processor, so that Crawlee would begin ever more.
    maxConcurrency: 16,
    ...options,
    proxyConfiguration: options.proxyConfiguration ?? new CourtesyProxyConfiguration(),
    preNavigationHooks: [...identity(userAgent), ...(options.preNavigationHooks ?? [])],
    // Crawlee would fetch the files itself, and not by the proxy.
    respectRobotsTxtFile: false,
  };
  const crawler = new Crawler(all, config) as InstanceType<Class>;
  attach(crawler as unknown as Internals & HttpCrawler<any>);
  return crawler;
}

function identity(userAgent: string | undefined): NonNullable<HttpCrawlerOptions["preNavigationHooks"]> {
  if (userAgent === undefined) return [];
  return [
    (_, options) => {
      options.headers = { ...options.headers, "user-agent": userAgent };
      options.useHeaderGenerator = false;
    },
  ];
}

function attach(crawler: Internals & HttpCrawler<any>): void {
  const putOff = new Set<string>();
  const original = {
    run: crawler._runRequestHandler.bind(crawler),
    fail: crawler._requestFunctionErrorHandler.bind(crawler),
    delay: crawler.delayRequest.bind(crawler),
  };

  // Before Crawlee's own, which is about the type of the content.
  crawler.postNavigationHooks.unshift(async ({ response }) => {
    const refusal = response && (await refusalOf(response));
    if (refusal?.isDenial) throw new Denied(refusal.why);
    if (refusal?.retryAfterSecs !== undefined) {
      response.destroy();
      throw new PutOff(refusal.why, refusal.retryAfterSecs);
    }
  });

  crawler._runRequestHandler = async (context) => {
    try {
      await original.run(context);
    } catch (error) {
      const refusal = ofConnect(error);
      if (!(refusal instanceof Denied)) throw refusal;
      // As Crawlee skips what its own reading of robots.txt disallows.
      const { request } = context;
      crawler.log.info(`Denied: ${request.url}: ${refusal.message}`);
      request.noRetry = true;
      request.state = RequestState.SKIPPED;
      await crawler.handleSkippedRequest({ url: request.url, reason: "robotsTxt" });
    }
  };

  crawler._requestFunctionErrorHandler = async (error, context, source) => {
    if (!(error instanceof PutOff)) return original.fail(error, context, source);
    const { request } = context;
    const id = request.id ?? request.uniqueKey;
    crawler.log.info(`Put off for ${error.secs} s: ${request.url}: ${error.message}`);
    // What is done with the session of a failed request is not done with this one.
    context.session = undefined;
    putOff.add(id);
    // Meanwhile the queue takes it for one under way.
    const again = async () => {
      putOff.delete(id);
      await source.reclaimRequest(request);
    };
    // The crawl keeps the process, and not the timer, which outlives one that is stopped.
    setTimeout(() => void again(), error.secs * 1000).unref();
  };

  // The queue hands it out once more if its lock ends before.
  crawler.delayRequest = (request, source) =>
    putOff.has(request.id ?? request.uniqueKey) || original.delay(request, source);
}

/** What the proxy said to a CONNECT, of which Crawlee has the status in the text of an error alone. */
function ofConnect(error: unknown): unknown {
  const said = error instanceof Error ? error.message.match(/proxy (?:server )?(?:rejected|responded).*?(\d{3})(.*)/is) : null;
  if (said?.[1] === "403") return new Denied(said[0]);
  if (said?.[1] === "429") return new PutOff(said[0], CONNECT_AGAIN_SECS);
  return error;
}
