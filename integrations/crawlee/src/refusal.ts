import type { IncomingMessage } from "node:http";

/** A response of the proxy in place of the site's. */
export interface Refusal {
  /** Whether policy forbids the request; otherwise it is its time or a failure. */
  isDenial: boolean;
  /** A rule, such as `line 2 "Disallow: /private/"`; or what the proxy says of the reason. */
  why: string;
  retryAfterSecs: number | undefined;
}

/** The longest problem that is read, in bytes: many times that of an ordinary one. */
const MOST_BYTES = 1 << 20;

/** A day. What has to wait longer is requested once in between. */
const MOST_SECS = 86_400;

/**
 * The refusal that a response is, if it is one. Its fields are those that no site can send, because the
 * proxy removes them. Its content is read then, and only then.
 */
export async function refusalOf(response: IncomingMessage): Promise<Refusal | undefined> {
  const status = single(response, "proxy-status");
  // RFC 9209 §2: the proxy's own responses are those that it gives an error.
  const said = status?.match(/^courtesy; error=([^;]+)(?:.*; details="([^"]*)")?/);
  if (!said) return undefined;
  const [, error, details] = said;
  // Without the id of a record, if that could not be written. A 407 is no decision on the request.
  const isDenied = error === "http_request_denied" && response.statusCode !== 407;
  const isDenial = single(response, "courtesy-record") !== undefined || isDenied;
  const retryAfter = single(response, "retry-after");
  const refusal = {
    isDenial,
    why: details ?? error ?? "refused",
    retryAfterSecs: retryAfter && /^\d{1,9}$/.test(retryAfter) ? Math.min(Number(retryAfter), MOST_SECS) : undefined,
  };
  if (isDenial) refusal.why = ruleIn(response, await text(response)) ?? refusal.why;
  return refusal;
}

function single(response: IncomingMessage, name: string): string | undefined {
  const value = response.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

async function text(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response) {
    const bytes = Buffer.from(chunk);
    chunks.push(bytes);
    length += bytes.length;
    if (length > MOST_BYTES) break;
  }
  return Buffer.concat(chunks).toString();
}

/** The deciding line and its rule. The response to a HEAD has no content, and text names no rule. */
function ruleIn(response: IncomingMessage, body: string): string | undefined {
  const contentType = single(response, "content-type") ?? "";
  let rule: { line?: unknown; directive?: unknown; pattern?: unknown } | undefined;
  if (contentType.startsWith("application/problem+json") && body) {
    rule = JSON.parse(body).rule;
  } else if (contentType.startsWith("text/html")) {
    // Rows of the page that is sent to clients that ask for HTML.
    const rows = body.matchAll(/<th>rule\.(\w+)<\/th><td><code>(.*?)<\/code>/gs);
    rule = Object.fromEntries([...rows].map(([, name, value]) => [name, unescaped(value ?? "")]));
  }
  return rule?.pattern === undefined ? undefined : `line ${rule.line} "${rule.directive}: ${rule.pattern}"`;
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };

function unescaped(html: string): string {
  return html.replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => ENTITIES[name] ?? "");
}
