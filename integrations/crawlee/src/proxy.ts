import { ProxyConfiguration } from "@crawlee/http";

/** The proxy that `courtesy run` starts, or another one that runs already. */
export class CourtesyProxyConfiguration extends ProxyConfiguration {
  /** @param proxyUrl its URL; `COURTESY_PROXY`, which `courtesy run` sets, if none is given */
  constructor(proxyUrl: string | undefined = process.env["COURTESY_PROXY"]) {
    if (!proxyUrl) {
      throw new Error(
        "COURTESY_PROXY is not set: start the crawler by `courtesy run -- node …`, or set it to the URL of a running proxy",
      );
    }
    super({ proxyUrls: [proxyUrl] });
    // `courtesy run` makes Node trust its certificate authority. Without that, nothing can be verified on
    // the way to the proxy, which verifies the sites' certificates in any case.
    this.isManInTheMiddle = !process.env["NODE_EXTRA_CA_CERTS"];
  }
}
