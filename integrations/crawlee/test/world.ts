/** A scripted site on loopback, and the proxy. */

import { Configuration, log, LogLevel } from "crawlee";
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

export const COURTESY = process.env["COURTESY"] ?? assert.fail("COURTESY names no program");
export const AGENT = "ExampleBot/1.0 (+https://bot.example/)";
export const isNightly = Boolean(process.env["COURTESY_TEST_NIGHTLY"]);

log.setLevel(LogLevel.OFF);

/** A configuration whose storages are those of one crawler. */
export const alone = () => new Configuration({ persistStorage: false });

/** Answers by a table of paths; what is not in it is a page. */
export class Site {
  requests: { at: number; path: string; agent: string | undefined }[] = [];
  scripts: Record<string, { status: number; headers: Record<string, string> }[]> = {};
  url = "";
  port = 0;

  static async start(
    test: TestContext,
    robots: string,
    certificate?: { cert: Buffer; key: Buffer },
    content = "",
  ): Promise<Site> {
    const site = new Site();
    const answer: Parameters<typeof createServer>[1] = (request, response) => {
      const path = request.url ?? "";
      site.requests.push({ at: performance.now(), path, agent: request.headers["user-agent"] });
      const { status, headers } = site.scripts[path]?.shift() ?? { status: 200, headers: {} };
      response.writeHead(status, { "content-type": "text/html", ...headers });
      response.end(path === "/robots.txt" ? robots : `<title>page</title>${content}`);
    };
    const server: Server = certificate ? createSecureServer(certificate, answer) : createServer(answer);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    site.port = (server.address() as AddressInfo).port;
    // Crawlee's HTTP/2 takes no address for a host.
    site.url = certificate ? `https://localhost:${site.port}` : `http://127.0.0.1:${site.port}`;
    test.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return site;
  }

  asked(path: string): number {
    return this.requests.filter((it) => it.path === path).length;
  }

  /** The starts of pages are so many seconds apart. The site notes one late, never early. */
  assertSpaced(secs: number): void {
    const starts = this.requests.filter((it) => it.path !== "/robots.txt").map((it) => it.at);
    const [first, last] = [Math.min(...starts), Math.max(...starts)];
    assert.ok(last - first >= secs * 1000 * (starts.length - 1) - 100, `${starts.length} in ${last - first} ms`);
  }
}

export function directory(test: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "crawlee-courtesy-"));
  test.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A certificate for localhost that signs itself: its file is `site.pem`. */
export function certificate(made: string): { cert: Buffer; key: Buffer } {
  const [cert, key] = [join(made, "site.pem"), join(made, "site.key")];
  execFileSync(
    "openssl",
    [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
      ...["-subj", "/CN=site", "-addext", "subjectAltName=DNS:localhost"],
      ...["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert],
    ],
    { stdio: "ignore" },
  );
  return { cert: readFileSync(cert), key: readFileSync(key) };
}

/** A proxy that stays for the test: its URL. */
export async function serve(test: TestContext, ...args: string[]): Promise<string> {
  const state = directory(test);
  const served: ChildProcess = spawn(
    COURTESY,
    ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--allow-private", ...args],
    {
      // The system's roots take longer to read than most tests.
      env: { COURTESY__STATE_DIR: state, COURTESY__TLS__ROOTS: "bundled", COURTESY__LOG__FORMAT: "json" },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  test.after(async () => {
    served.kill();
    if (served.exitCode === null) await once(served, "exit");
  });
  let said = "";
  for await (const line of createInterface(served.stderr ?? assert.fail())) {
    said += line;
    const address = line.includes('"listening"') ? line.match(/127\.0\.0\.1:\d+/) : null;
    if (address) {
      served.stderr?.resume();
      return `http://${address[0]}`;
    }
  }
  assert.fail(said);
}
