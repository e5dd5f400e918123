// Asks for each URL with Node's own http and https.
import http from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";

for (const url of process.argv.slice(2)) {
  const client = url.startsWith("https:") ? https : http;
  const answer = await new Promise((resolve, reject) =>
    client.get(url, { headers: { "user-agent": "node-http" } }, resolve).on("error", reject),
  );
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/${answer.httpVersion} ${answer.statusCode}\nCourtesy-Record: ${record}\n\n${await text(answer)}`);
}
