// Asks for each URL with superagent, through agents that it is given.
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";
import superagent from "superagent";

for (const url of process.argv.slice(2)) {
  const agent = url.startsWith("https:")
    ? new HttpsProxyAgent(process.env.HTTPS_PROXY)
    : new HttpProxyAgent(process.env.HTTP_PROXY);
  const answer = await superagent.get(url).agent(agent).set("user-agent", "node-superagent/test").buffer(true).parse(
    superagent.parse.text).ok(() => true);
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${answer.text}`);
}
