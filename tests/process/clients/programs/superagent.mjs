// Asks for each URL with superagent, through agents that it is given; with --as-it-comes, through none.
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";
import superagent from "superagent";

const isPlain = process.argv[2] === "--as-it-comes";
const agentFor = (url) =>
  url.startsWith("https:")
    ? new HttpsProxyAgent(process.env.HTTPS_PROXY)
    : new HttpProxyAgent(process.env.HTTP_PROXY);
for (const url of process.argv.slice(isPlain ? 3 : 2)) {
  const request = isPlain ? superagent.get(url) : superagent.get(url).agent(agentFor(url));
  const answer = await request.set("user-agent", "node-superagent/test").buffer(true).parse(
    superagent.parse.text).ok(() => true);
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${answer.text}`);
}
