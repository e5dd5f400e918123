// Opens each URL in Debian's Chromium, all in one session, and says what the pages show.
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
});
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: false });
  for (const url of process.argv.slice(2)) {
    const page = await context.newPage();
    const answer = await page.goto(url);
    const record = (await answer.headerValue("courtesy-record")) ?? "";
    console.log(`HTTP/1.1 ${answer.status()}\nCourtesy-Record: ${record}\n\n${await page.innerText("body")}`);
    await page.close();
  }
} finally {
  await browser.close();
}
