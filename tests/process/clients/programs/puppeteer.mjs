// Opens each URL in Debian's Chromium, driven by Puppeteer.
import puppeteer from "puppeteer-core";

const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium",
  // As root, and without a graphics card, it does not start otherwise.
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--no-first-run"],
});
try {
  for (const url of process.argv.slice(2)) {
    const page = await browser.newPage();
    const answer = await page.goto(url);
    const record = answer.headers()["courtesy-record"] ?? "";
    const text = await page.evaluate(() => document.body.innerText);
    console.log(`HTTP/1.1 ${answer.status()}\nCourtesy-Record: ${record}\n\n${text}`);
    await page.close();
  }
} finally {
  await browser.close();
}
