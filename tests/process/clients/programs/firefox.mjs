// Opens each URL in Debian's Firefox, in the profile that is named first, driven by Puppeteer.
import puppeteer from "puppeteer-core";

const [profile, ...urls] = process.argv.slice(2);
const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: "/usr/bin/firefox-esr",
  userDataDir: profile,
  extraPrefsFirefox: {
    // As it comes: the system's settings, which are the variables where there is no desktop.
    "network.proxy.type": 5,
    // It leaves loopback out by itself.
    "network.proxy.allow_hijacking_localhost": true,
    "network.captive-portal-service.enabled": false,
    "network.connectivity-service.enabled": false,
    "app.normandy.enabled": false,
    "services.settings.server": "",
  },
});
try {
  for (const url of urls) {
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
