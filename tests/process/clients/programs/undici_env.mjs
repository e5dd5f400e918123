// Asks for each URL with undici, through the agent that follows the variables.
import { EnvHttpProxyAgent, request } from "undici";

const dispatcher = new EnvHttpProxyAgent();
for (const url of process.argv.slice(2)) {
  const answer = await request(url, { dispatcher, headers: { "user-agent": "undici" } });
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/1.1 ${answer.statusCode}\nCourtesy-Record: ${record}\n\n${await answer.body.text()}`);
}
await dispatcher.close();
