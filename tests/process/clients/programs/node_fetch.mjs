// Asks for each URL with the package node-fetch.
import fetch from "node-fetch";

for (const url of process.argv.slice(2)) {
  const answer = await fetch(url);
  const record = answer.headers.get("courtesy-record") ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${await answer.text()}`);
}
