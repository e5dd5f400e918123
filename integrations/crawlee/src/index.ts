/** Crawlee through courtesy, the proxy that makes a crawl obey robots.txt. */

export { courtesy, type CourtesyOptions } from "./crawler.js";
export { CourtesyProxyConfiguration } from "./proxy.js";
