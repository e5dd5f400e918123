// Asks for each URL with undici, through the agent that follows the variables; with --as-it-comes, through none.
import { Agent, EnvHttpProxyAgent, request } from "undici";

const isPlain = process.argv[2] === "--as-it-comes";
const dispatcher = isPlain ? new Agent() : new EnvHttpProxyAgent();
for (const url of process.argv.slice(isPlain ? 3 : 2)) {
  const answer = await request(url, { dispatcher, headers: { "user-agent": "undici" } });
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/1.1 ${answer.statusCode}\nCourtesy-Record: ${record}\n\n${await answer.body.text()}`);
}
await dispatcher.close();
