// Asks for each URL with got; with --agents, through agents that it is given.
import got from "got";
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";

let urls = process.argv.slice(2);
let agent;
if (urls[0] === "--agents") {
  urls = urls.slice(1);
  agent = {
    http: new HttpProxyAgent(process.env.HTTP_PROXY),
    https: new HttpsProxyAgent(process.env.HTTPS_PROXY),
  };
}
for (const url of urls) {
  const answer = await got(url, { agent, throwHttpErrors: false });
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/${answer.httpVersion} ${answer.statusCode}\nCourtesy-Record: ${record}\n\n${answer.body}`);
}
