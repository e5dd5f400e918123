// Asks for each URL with axios.
import axios from "axios";

for (const url of process.argv.slice(2)) {
  const answer = await axios.get(url, { responseType: "text", validateStatus: () => true });
  const record = answer.headers["courtesy-record"] ?? "";
  console.log(`HTTP/1.1 ${answer.status}\nCourtesy-Record: ${record}\n\n${answer.data}`);
}
