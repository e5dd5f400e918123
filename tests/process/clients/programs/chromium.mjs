// Opens each URL in Debian's Chromium, all in one session, and says what the pages show.
import { chromium } from "playwright-core";

const urls = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: [
    // As root, and without a graphics card, it does not start otherwise.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    // It has requests of its own, which would come by the proxy, too.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    // What it asks for all the same, it asks the site for: this machine may have no network.
    `--component-updater=url-source=${new URL("/update", urls[0])}`,
  ],
});
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: false });
  for (const url of urls) {
    const page = await context.newPage();
    const answer = await page.goto(url);
    const record = (await answer.headerValue("courtesy-record")) ?? "";
    console.log(`HTTP/1.1 ${answer.status()}\nCourtesy-Record: ${record}\n\n${await page.innerText("body")}`);
    await page.close();
  }
} finally {
  await browser.close();
}
