// Walks through the console in Debian's Chromium: every page that is named, at each width, light and dark, on paper, by
// keyboard and without scripts. Prints what it found as JSON. SHOTS is a directory for pictures, where they are wanted.
import { chromium } from "playwright-core";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { get } from "node:http";

const [link, ...paths] = process.argv.slice(2);
// Of a running proxy: its address, and a URL that it denies.
const live = process.env.LIVE && JSON.parse(process.env.LIVE);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.SHOTS;
const base = new URL("/", link).href;
const found = { elsewhere: [], errors: [], violations: [], overflows: [], titles: {}, dialogs: 0, requests: {}, bytes: {} };

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
});

async function settled(page, path) {
  let count = 0;
  const counted = () => count++;
  page.on("request", counted);
  const response = await page.goto(new URL(path, base).href);
  page.off("request", counted);
  // A page that reads the log asks again by itself.
  await page.waitForFunction(() => !document.querySelector('meta[http-equiv="refresh"]'), null, { timeout: 60_000 });
  return { status: response.status(), count, bytes: (await page.content()).length };
}

function watch(page) {
  page.on("request", (request) => {
    if (!request.url().startsWith(base)) found.elsewhere.push(request.url());
  });
  page.on("dialog", (dialog) => { found.dialogs++; dialog.dismiss(); });
  page.on("pageerror", (error) => found.errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") found.errors.push(message.text()); });
}

// New records come to an open page, not under who reads it, and each once.
async function addedRows(own) {
  const page = await own.newPage();
  watch(page);
  const count = () => page.locator("table.rows tbody tr").count();
  const says = (words) => page.waitForFunction((words) => document.getElementById("live-state").textContent.includes(words), words);
  const denied = async () => {
    const [host, port] = live.proxy.split(":");
    await new Promise((done, failed) => get({ host, port, path: live.url, headers: { host: new URL(live.url).host } }, (it) => it.resume().on("end", done)).on("error", failed));
  };
  await page.goto(new URL("/records?live=1&event=denied", base).href);
  await says("as they come");
  const counts = [await count()];
  await denied();
  await page.waitForFunction((before) => document.querySelectorAll("table.rows tbody tr").length > before, counts[0]);
  counts.push(await count());
  const top = () => page.locator("table.rows tbody tr").first().innerText();
  const newest = await top();
  await page.locator("table.rows tbody a").first().focus();
  await denied();
  await says("Paused, 1 newer");
  counts.push(await count());
  const held = (await top()) === newest;
  await page.getByRole("button", { name: "Go on" }).click();
  await says("as they come");
  counts.push(await count());
  const shown = await page.locator("table.rows tbody").innerHTML();
  await page.reload();
  const again = await page.locator("table.rows tbody").innerHTML();
  const text = (html) => html.replace(/\s+/g, "");
  await own.close();
  return { counts, held, is_as_loaded: text(shown) === text(again) };
}

try {
  const context = await browser.newContext();
  const first = await context.newPage();
  watch(first);
  await first.goto(link);
  await first.waitForURL(base);
  await settled(first, "/");
  found.code_in_address = first.url().includes("code=");
  const again = await context.newPage();
  await again.goto(link);
  await again.waitForLoadState();
  await again.waitForFunction(() => document.title.includes("opens nothing"));
  found.second_use = await again.title();
  await again.close();
  const state = await context.storageState();
  for (const colorScheme of ["light", "dark"]) {
    const own = await browser.newContext({ colorScheme, storageState: state });
    const page = await own.newPage();
    watch(page);
    // The policy of the pages stays in force: axe comes by the debugging protocol.
    const session = await own.newCDPSession(page);
    for (const path of paths) {
      const name = path.replace(/[^a-z0-9]+/gi, "_").replace(/^_|_$/g, "").slice(0, 60) || "overview";
      for (const width of [1280, 768, 390, 320]) {
        await page.setViewportSize({ width, height: 900 });
        const { status, count, bytes } = await settled(page, path);
        const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        if (over > 0) found.overflows.push(`${path} at ${width}: ${over}`);
        if (width === 1280) {
          found.titles[path] = `${status} ${await page.title()}`;
          found.bytes[path] = bytes;
          found.requests[path] = count;
          await session.send("Runtime.evaluate", { expression: axe });
          const { result } = await session.send("Runtime.evaluate", {
            expression: "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((it) => JSON.stringify(it.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))])))",
            awaitPromise: true,
            returnByValue: true,
          });
          for (const violation of JSON.parse(result.value)) found.violations.push([path, colorScheme, ...violation]);
        }
        if (shots && width !== 320) await page.screenshot({ path: `${shots}/${name}_${width}_${colorScheme}.png`, fullPage: true });
      }
      if (shots && colorScheme === "light") await page.pdf({ path: `${shots}/${name}.pdf`, format: "A4" });
    }
    await own.close();
  }
  const plain = await browser.newContext({ javaScriptEnabled: false, storageState: state });
  const page = await plain.newPage();
  found.without_script = {};
  for (const path of paths) {
    await page.goto(new URL(path, base).href);
    found.without_script[path] = (await page.locator("h1").innerText()).trim();
  }
  await plain.close();
  // By keyboard alone: to the content, and from the list of records to one of them.
  const keys = await browser.newContext({ storageState: state });
  const board = await keys.newPage();
  await settled(board, "/records");
  await board.keyboard.press("Tab");
  found.first_focus = await board.evaluate("document.activeElement.textContent");
  for (let at = 0; at < 60; at++) {
    await board.keyboard.press("Tab");
    if (await board.evaluate("document.activeElement.matches('a[href^=\"/record?\"]')")) break;
  }
  await board.keyboard.press("Enter");
  await board.waitForURL(/\/record\?/);
  found.by_keyboard = await board.title();
  await keys.close();
  if (live) found.live = await addedRows(await browser.newContext({ storageState: state }));
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
