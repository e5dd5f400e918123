// Asks for each URL with the fetch of this Node, which undici's agent leads through the proxy.
import { ProxyAgent, fetch, setGlobalDispatcher } from "undici";

setGlobalDispatcher(new ProxyAgent(process.env.HTTPS_PROXY));
for (const url of process.argv.slice(2)) {
  const answer = await fetch(url);
  const record = answer.headers.get("courtesy-record") ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${await answer.text()}`);
}
