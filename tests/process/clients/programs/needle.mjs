// Asks for each URL with needle.
import needle from "needle";

for (const url of process.argv.slice(2)) {
  const answer = await needle("get", url, { parse: false });
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/${answer.httpVersion} ${answer.statusCode}\nCourtesy-Record: ${record}\n\n${answer.body}`);
}
