// A browser opens the page for people: it shows the API and asks no other host.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import chromium from "./chromium.mjs";

const base = process.env.ROAMCARD_URL;
let browser;

before(async () => {
  const executablePath = await chromium.executablePath();
  browser = await puppeteer.launch({ executablePath, args: chromium.args, headless: "shell" });
});
after(() => browser?.close());

test("the page shows the API and loads nothing from elsewhere", async () => {
  const page = await browser.newPage();
  const asked = [];
  const complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`${base}/docs`, { waitUntil: "networkidle0", timeout: 60_000 });
  await page.waitForFunction(() => document.body.innerText.includes("PAYMENT-REQUIRED"), { timeout: 60_000 });
  assert.ok(asked.includes(`${base}/openapi.json`));
  assert.deepEqual(asked.filter((url) => !url.startsWith(base) && !/^(data|blob):/.test(url)), []);
  assert.deepEqual(complaints, []);
});
