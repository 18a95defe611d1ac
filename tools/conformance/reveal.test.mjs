// A browser opens the page that shows a card of an issuer that shows cards on a page only: once, and nobody frames it.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";
import chromium from "./chromium.mjs";

const bin = process.env.ROAMCARD_BIN;
const run = promisify(execFile);
let browser;

before(async () => {
  const executablePath = await chromium.executablePath();
  browser = await puppeteer.launch({ executablePath, args: chromium.args, headless: "shell" });
});
after(() => browser?.close());

/** A development server that sells the cards of an issuer, and links to a card of it. */
async function cardOf(issuer, t) {
  const dir = await mkdtemp(join(tmpdir(), "reveal-"));
  await chmod(dir, 0o755); // PostgreSQL may run as another user, who has to get in
  const ready = join(dir, "ready.json");
  const args = ["--addr", "127.0.0.1:0", "--data", join(dir, "data"), "--ready-file", ready];
  const dev = spawn(bin, ["dev", "--issuer", issuer, ...args], {
    stdio: "ignore",
  });
  t.after(async () => {
    dev.kill();
    if (dev.exitCode === null) await once(dev, "exit");
    await rm(dir, { recursive: true, force: true });
  });
  const [desktop, window] = [join(dir, "xdg-open"), join(dir, "window")];
  await writeFile(desktop, `#!/bin/sh\nprintf %s "$1" >"${window}.new" && mv "${window}.new" "${window}"\n`);
  await chmod(desktop, 0o755);
  await until(() => readFile(ready));
  const { baseUrl, sandboxUrl } = JSON.parse(await readFile(ready, "utf8"));
  // Not the server that the other checks go by.
  const { ROAMCARD_URL: _, ...others } = process.env;
  const env = { ...others, HOME: dir, ROAMCARD_READY_FILE: ready, DISPLAY: ":0", PATH: `${dir}:${process.env.PATH}` };
  await run(bin, ["card", "buy", "--key", "one", "--yes", "--max", "60", "--wait"], { env });
  // What the browser is started with is a file that leads to the page; the command waits until a browser has come.
  const reveal = async (look) => {
    await rm(window, { force: true });
    const command = run(bin, ["card", "reveal", "--present", "browser", "--json"], { env });
    const [looked, { stdout }] = await Promise.all([until(() => readFile(window, "utf8")).then(look), command]);
    return { looked, told: JSON.parse(stdout) };
  };
  const link = async () => (await reveal(led)).looked;
  return { reveal, link, own: [baseUrl, sandboxUrl].map((url) => new URL(url).origin), baseUrl };
}

/** The page that a file leads to. */
async function led(file) {
  const [, action, secret] = /action="([^"]+)".* name="secret" value="([^"]+)"/s.exec(
    await readFile(new URL(file), "utf8"),
  );
  const body = new URLSearchParams({ secret });
  const answer = await new Promise((done, fail) =>
    request(action, { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" } }, done)
      .once("error", fail)
      .end(body.toString()),
  );
  answer.resume();
  assert.equal(answer.statusCode, 303);
  return answer.headers.location;
}

/** How much each of these shows in a frame of a page of another origin. */
async function framedElsewhere(t, ...addresses) {
  const html = addresses.map((address) => `<iframe src="${address.replaceAll("&", "&amp;")}"></iframe>`).join("");
  const thief = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
  t.after(() => thief.close());
  await once(thief.listen(0, "127.0.0.1"), "listening");
  const theirs = await browser.newPage();
  await theirs.goto(`http://127.0.0.1:${thief.address().port}/`, { waitUntil: "networkidle0" });
  const shown = [];
  for (const frame of theirs.frames().slice(1)) shown.push((await frame.$$("iframe, button, #number, #app")).length);
  await theirs.close();
  return shown;
}

/** What a read that fails until it is there gives. */
async function until(read) {
  for (let left = 600; ; left--) {
    try {
      return await read();
    } catch (error) {
      if (left === 0) throw error;
      await pause(200);
    }
  }
}

for (const [issuer, frames] of Object.entries({ lithic: 4, stripe: 3 }))
  test(`a card of ${issuer} is shown once, in the issuer's frames`, { timeout: 300_000 }, async (t) => {
    const { link, own, baseUrl } = await cardOf(issuer, t);
    const [late, address] = [await link(), await link()];
    assert.ok(address.startsWith(`${baseUrl}/reveal/`));

    // A page of another origin frames it: nothing is shown, and the link is not used.
    assert.deepEqual(await framedElsewhere(t, address), [0]);
    // Neither does it show the issuer's frames, whose addresses somebody has taken from a page.
    if (issuer === "lithic") {
      const taken = await (await fetch(await link(), { method: "POST" })).text();
      const urls = [...taken.matchAll(/<iframe src="([^"]+)"/g)].map(([, url]) => url.replaceAll("&amp;", "&"));
      assert.deepEqual(await framedElsewhere(t, ...urls), [0, 0, 0, 0]);
    }

    const page = await browser.newPage();
    const [asked, referred, complaints] = [[], [], []];
    page.on("request", (request) => {
      asked.push(request.url());
      if (request.headers().referer) referred.push(request.headers().referer);
    });
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    // Whoever loads the link ahead, as chat clients do, uses nothing.
    for (const headers of [{}, { "sec-purpose": "prefetch" }, { "sec-fetch-dest": "iframe" }])
      assert.ok(!/<iframe|name="unlock"/.test(await (await fetch(address, { headers })).text()));
    const offered = await page.goto(address, { waitUntil: "networkidle0" });
    assert.equal(offered.status(), 200);
    assert.equal(page.frames().length, 1);
    const [first] = await Promise.all([page.waitForNavigation({ waitUntil: "networkidle0" }), page.click("button")]);
    assert.equal(first.status(), 200);
    await page.waitForFunction((n) => document.querySelectorAll("iframe").length === n, { timeout: 60_000 }, frames);
    const shown = [];
    for (const frame of page.frames().slice(1)) {
      await frame.waitForSelector("#app");
      shown.push(await frame.$eval("#app", (element) => element.textContent));
    }
    assert.equal(shown.filter((text) => /^\d{16}$/.test(text)).length, 1, "one frame has the number");
    assert.equal(shown.filter((text) => /^\d{3}$/.test(text)).length, 1, "one frame has the code");
    assert.deepEqual(asked.filter((url) => !own.includes(new URL(url).origin)), []);
    assert.deepEqual(referred, [], "somebody is told the page's address");
    assert.deepEqual(complaints.filter((text) => !/favicon/.test(text)), []);
    assert.ok(!(await page.content()).includes(shown.find((text) => /^\d{16}$/.test(text))), "our page has the number");

    // The window forgets the card after a minute, and the link that nobody has opened has expired by then.
    if (issuer === "lithic") {
      const forgotten = await page.waitForNavigation({ timeout: 90_000, waitUntil: "networkidle0" });
      assert.equal(forgotten.status(), 410);
      assert.equal(page.frames().length, 1);
      assert.equal((await page.goto(late)).status(), 410);
      return;
    }
    const again = await page.reload({ waitUntil: "networkidle0" });
    assert.equal(again.status(), 410);
    assert.equal(page.frames().length, 1);
    assert.equal((await page.goto(address)).status(), 410);
  });

// A card that comes sealed is shown by a page of the buyer's own machine.
test("a sealed card is shown by the file, to the browser that presses", { timeout: 300_000 }, async (t) => {
  const { reveal } = await cardOf("sandbox", t);
  const { looked, told } = await reveal(async (file) => {
    assert.match(file, /^file:\/\/\//);
    const page = await browser.newPage();
    t.after(() => page.close());
    await page.goto(file, { waitUntil: "networkidle0" }); // its form posts itself
    const address = page.url();
    assert.ok(address.startsWith("http://127.0.0.1:") && !file.includes(new URL(address).host));
    const text = () => page.evaluate(() => document.body.innerText);
    assert.doesNotMatch(await text(), /\d{4} \d{4}/);
    assert.equal(await page.evaluate(() => document.cookie), "", "a script can read the cookie");
    // By its address the page shows nothing, to the same browser either.
    assert.equal((await fetch(address)).status, 405);
    assert.deepEqual(await framedElsewhere(t, address), [0]);
    const [shown] = await Promise.all([page.waitForNavigation(), page.click("button")]);
    assert.equal(shown.status(), 200);
    const seen = await text();
    assert.equal((await page.reload()).status(), 410);
    return seen;
  });
  assert.match(looked, /\d{4} \d{4} \d{4} \d{4}/);
  assert.deepEqual(told, { presented: true });
});
