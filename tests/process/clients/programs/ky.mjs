// Asks for each URL with ky, which is made of Node's own fetch.
import ky from "ky";

for (const url of process.argv.slice(2)) {
  const answer = await ky(url, { throwHttpErrors: false, retry: 0 });
  const record = answer.headers.get("courtesy-record") ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${await answer.text()}`);
}
