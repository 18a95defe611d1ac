// The page of a card: a file that only the user can read leads one browser to it, once.
import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { request } from "node:http";
import { dirname } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Secret } from "roamcard";
import { pagePresenter } from "roamcard/node";
import { look } from "roamcard/testing";

const code = "LPA:1$smdp.example$MATCH-1";
const esim = () =>
  new Secret({
    lpa: code, iccid: "8901234567890123456", smdpAddress: "smdp.example", matchingId: "MATCH-1",
    qrPng: "data:image/png;base64,AAAA",
  });

/** Shows an eSIM to a visitor, who is done when it returns. */
async function shown(visit, present = (presenter) => presenter.presentEsim(esim())) {
  let folder;
  const open = async (url) => {
    folder = dirname(fileURLToPath(url));
    const html = await readFile(fileURLToPath(url), "utf8");
    const [, base, secret] = /action="([^"]+)\/".* name="secret" value="([^"]+)"/s.exec(html);
    await visit(visitor(base, secret), { url, secret, html });
  };
  const result = await present(pagePresenter({ open, timeoutMs: 500 }));
  await assert.rejects(stat(folder), { code: "ENOENT" });
  return result;
}

const fromFile = { origin: "null", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" };
const fromPage = { "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };

function visitor(base, secret) {
  const ask = (method, path, form = {}, headers = {}) =>
    new Promise((done, fail) => {
      const body = new URLSearchParams(form).toString();
      const all = { "content-type": "application/x-www-form-urlencoded", "content-length": body.length, ...headers };
      request(base + path, { method, headers: all }, async (answer) => {
        let text = "";
        for await (const chunk of answer) text += chunk;
        const cookie = answer.headers["set-cookie"]?.[0];
        const token = /name="token" value="([^"]+)"/.exec(text)?.[1];
        done({ status: answer.statusCode, headers: answer.headers, text, cookie, token, shows: text.includes(code) });
      })
        .once("error", fail)
        .end(body);
    });
  const cookieOf = ({ cookie }) => cookie.split(";")[0];
  return {
    base, ask, cookieOf,
    opens: () => ask("POST", "/", { secret }, fromFile),
    presses: (opened) =>
      ask("POST", "/show", { token: opened.token }, { ...fromPage, origin: base, cookie: cookieOf(opened) }),
  };
}

test("the page's secret is in a file of the user only", async () => {
  const result = await shown(async ({ opens, presses }, { url, secret, html }) => {
    const path = fileURLToPath(url);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal((await stat(dirname(path))).mode & 0o777, 0o700);
    assert.ok(secret.length > 40 && !url.includes(secret) && !html.includes(code));
    assert.ok((await presses(await opens())).shows);
  });
  assert.deepEqual(result, { presented: true });
  let seen;
  const open = async (url) => {
    seen = await look(url);
  };
  assert.deepEqual(await pagePresenter({ open }).presentEsim(esim()), { presented: true });
  assert.ok(seen.html.includes(code));
});

test("the page shows nothing to who has its address only", async () => {
  const result = await shown(async ({ base, ask, opens }, { secret }) => {
    const port = base.split(":").at(-1);
    for (const [name, ...asked] of [
      ["a look", "GET", "/"],
      ["a look at the button", "GET", "/show"],
      ["a look with it all", "GET", `/?secret=${secret}`],
      ["no secret", "POST", "/", {}, fromFile],
      ["an empty secret", "POST", "/", { secret: "" }, fromFile],
      ["a wrong secret", "POST", "/", { secret: `${secret}x` }, fromFile],
      ["in its address", "POST", `/?secret=${secret}`, {}, fromFile],
      ["the button first", "POST", "/show", { token: "" }, { ...fromPage, cookie: "roamcard=" }],
      ["another name", "POST", "/", { secret }, { ...fromFile, host: "rebound.example" }],
      ["the name of loopback", "POST", "/", { secret }, { ...fromFile, host: `localhost:${port}` }],
      ["without its port", "POST", "/", { secret }, { ...fromFile, host: "127.0.0.1" }],
      ["a page elsewhere", "POST", "/", { secret }, { ...fromFile, origin: "https://evil.example" }],
      ["another port", "POST", "/", { secret }, { ...fromFile, "sec-fetch-site": "same-site" }],
      ["a frame", "POST", "/", { secret }, { ...fromFile, "sec-fetch-dest": "iframe" }],
      ["a script", "POST", "/", { secret }, { ...fromFile, "sec-fetch-mode": "no-cors" }],
      ["ahead of time", "POST", "/", { secret }, { ...fromFile, "sec-purpose": "prefetch" }],
    ]) {
      const { status, cookie, token, shows } = await ask(...asked);
      assert.ok(status >= 400 && !cookie && !token && !shows, `${name}: ${status}`);
    }
    // None of that has used the secret up, and nothing is seen before the button is pressed.
    const opened = await opens();
    assert.ok(opened.status === 200 && opened.cookie && opened.token && !opened.shows);
  });
  assert.deepEqual(result, { presented: false, reason: "not_pressed" });
  assert.deepEqual(await shown(() => undefined), { presented: false, reason: "timeout" });
});

test("the page is bound to one browser", async () => {
  const result = await shown(async ({ base, ask, opens, presses, cookieOf }) => {
    const opened = await opens();
    assert.match(opened.cookie, /HttpOnly; SameSite=Strict/);
    assert.equal(opened.headers["cache-control"], "no-store");
    assert.equal(opened.headers["x-frame-options"], "DENY");
    assert.match(opened.headers["content-security-policy"], /^default-src 'none'.*frame-ancestors 'none'/);
    const { token } = opened;
    const own = { ...fromPage, origin: base, cookie: cookieOf(opened) };
    for (const [name, form, headers] of [
      ["no cookie", { token }, { ...own, cookie: "" }],
      ["another cookie", { token }, { ...own, cookie: `${own.cookie}x` }],
      ["no button", {}, own],
      ["another button", { token: `${token}x` }, own],
      ["from elsewhere", { token }, { ...own, "sec-fetch-site": "cross-site" }],
      ["from a file", { token }, { ...own, origin: "null" }],
      ["in a frame", { token }, { ...own, "sec-fetch-dest": "iframe" }],
    ]) {
      const { status, shows } = await ask("POST", "/show", form, headers);
      assert.ok(status === 403 && !shows, `${name}: ${status}`);
    }
    assert.ok((await presses(opened)).shows);
    const again = await presses(opened);
    assert.ok(again.status === 410 && !again.shows);
  });
  assert.deepEqual(result, { presented: true });
});

test("a page that was opened twice is not called shown", async () => {
  const elsewhere = { presented: false, reason: "opened_elsewhere" };
  const before = await shown(async ({ opens, presses }) => {
    const thief = await opens();
    const person = await opens();
    assert.ok(person.status === 410 && !person.cookie);
    const pressed = await presses(thief);
    assert.ok(pressed.status === 410 && !pressed.shows);
  });
  assert.deepEqual(before, elsewhere);
  const after = await shown(async ({ opens, presses }) => {
    assert.ok((await presses(await opens())).shows);
    assert.match((await opens()).text, /freeze the card/);
  });
  assert.deepEqual(after, elsewhere);
});

test("a page of the service's is opened through the file", async () => {
  const page = "http://127.0.0.1:1/reveal/secret";
  const reasons = [];
  for (const times of [0, 1, 2]) {
    const visit = async ({ opens }, { url, html }) => {
      assert.ok(!`${url}${html}`.includes("reveal"));
      for (let i = 0; i < times; i++) assert.equal((await opens()).headers.location, i === 0 ? page : undefined);
    };
    const result = await shown(visit, (presenter) => presenter.openPage(page));
    assert.equal(result.presented, false);
    reasons.push(result.reason);
  }
  assert.deepEqual(reasons, ["timeout", "opened_in_browser", "opened_elsewhere"]);
});
