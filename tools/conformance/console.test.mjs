// Operators run the service in a browser: each story ends on the chain and in the books.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { dev, launch, ownerAt, press, says } from "./paying.mjs";
import {
  admin, atConsole, confirm, goTo, held, inReview, looked, minted, operating, places, planAbove, pressIn, second, sent,
  settledPage, signIn, until,
} from "./operating.mjs";

const timeout = 240_000;
let browser;
let orders;

before(async () => {
  browser = await launch({ strict: true });
  orders = await inReview([10, 11, 12, 13], "console");
}, { timeout });
after(() => browser?.close());

/** Everything that a page could keep a token in. */
const kept = (tab) =>
  tab.evaluate(async () => ({
    local: JSON.stringify({ ...localStorage }), session: JSON.stringify({ ...sessionStorage }), cookie: document.cookie,
    url: location.href, databases: (await indexedDB.databases()).length, caches: (await caches.keys()).length,
    workers: (await navigator.serviceWorker?.getRegistrations())?.length ?? 0, state: JSON.stringify(history.state),
    html: document.documentElement.outerHTML,
    fields: [...document.querySelectorAll("input, textarea")].map((each) => each.value).join(),
  }));

/** Rows of a table, as text. */
const rows = (tab) => tab.$$eval("[data-row]", (all) => all.map((each) => each.innerText));

test("an operator signs in with a token that is nowhere but in the page's memory", { timeout }, async () => {
  const { tab, notes, answer } = await atConsole(browser);
  const headers = answer.headers();
  assert.match(headers["content-security-policy"], /frame-ancestors 'none'.*trusted-types 'none'/);
  // The page itself is everybody's, and is asked for again each time.
  assert.equal(headers["cache-control"], "no-cache");
  await looked(tab, notes, "sign-in");
  await signIn(tab, `rco_${"0".repeat(64)}`);
  await says(tab, "The token is not accepted");
  const others = notes.complaints.filter((each) => !/status of 401/.test(each));
  await looked(tab, { ...notes, complaints: others }, "wrong-token");
  notes.complaints.length = 0;
  await signIn(tab);
  await says(tab, "Unmatched transfers");
  for (const place of places) {
    await goTo(tab, `#/${place}`);
    for (const [where, text] of Object.entries(await kept(tab)))
      assert.equal(String(text).includes(dev.operatorToken), false, `${where}, at ${place}`);
  }
  const state = await kept(tab);
  assert.deepEqual([state.local, state.session, state.cookie, state.databases, state.caches, state.workers],
    ["{}", "{}", "", 0, 0, 0]);
  assert.ok(notes.asked.every((url) => !url.includes(dev.operatorToken)), "no address has the token");

  // Going back to a page that was left is signing in again.
  await tab.goto("about:blank");
  await tab.goBack();
  await tab.waitForSelector("input.secret");
  assert.equal((await kept(tab)).html.includes(dev.operatorToken), false);
  await signIn(tab);
  await says(tab, "Unmatched transfers");
  await press(tab, "Sign out");
  await says(tab, "You have signed out.");
  await looked(tab, notes, "signed-out");
  await tab.close();
  if (process.env.ROAMCARD_LOG) {
    const log = (await readFile(process.env.ROAMCARD_LOG, "utf8")).split("\n")
      .filter((line) => !/Operator token/.test(line));
    assert.equal(log.some((line) => line.includes(dev.operatorToken)), false, "the token is in the log");
  }
});

test("a page that nobody is at drops the token", { timeout }, async () => {
  // A quarter of an hour passes in two seconds.
  const hurried = () => {
    const real = window.setTimeout;
    window.setTimeout = (run, ms, ...rest) => real(run, ms === 900_000 ? 2_000 : ms, ...rest);
  };
  const { tab, notes } = await operating(browser, { before: hurried });
  await says(tab, "There was no activity for 15 minutes.");
  assert.equal((await kept(tab)).html.includes(orders[0].order.orderId), false, "what was shown is gone");
  await looked(tab, notes, "idle");
  await tab.close();
});

test("an order in review is refunded, on chain and in the books", { timeout }, async () => {
  const [{ owner, order, price }] = orders;
  const before = await held(owner.account.address);
  const { tab, notes } = await operating(browser);
  await says(tab, order.orderId);
  const listed = await rows(tab);
  const mine = orders.map((each) => listed.findIndex((row) => row.includes(each.order.orderId)));
  assert.ok(mine.every((at, i) => at >= 0 && (i === 0 || at > mine[i - 1])), `not oldest first: ${mine}`);
  assert.match(listed[mine[0]], /\S/, "what blocks it");
  await looked(tab, notes, "queue");
  await tab.click(`a[href="#/orders/${order.orderId}"]`);
  for (const part of ["Timeline", "Payments", "Provider", "Postings", "Audit trail", "Being delivered"]) {
    await says(tab, part);
  }
  await looked(tab, notes, "order");
  await press(tab, "Refund");
  await says(tab, `go from the treasury to ${owner.account.address}`);
  await says(tab, "The treasury has");
  await looked(tab, notes, "refund");
  await confirm(tab, "the supplier knows nothing of it, ticket 17");
  await says(tab, "The refund is ordered.");
  await says(tab, "Refunded");
  assert.equal(await held(owner.account.address), before + price);
  const { timeline } = await admin(`orders/${order.orderId}`);
  const [decided] = timeline.filter(({ actor }) => actor === "operator:dev");
  assert.deepEqual([decided.to, decided.reason], ["refund_pending", "the supplier knows nothing of it, ticket 17"]);
  const { postings, audit } = await admin(`orders/${order.orderId}/review`);
  assert.ok(postings.some(({ kind }) => kind === "refunded"), JSON.stringify(postings));
  assert.equal(audit.filter(({ action }) => action === "order.decide").length, 1);
  await until("refunded", () => admin(`orders/${order.orderId}`), (shown) => shown.order.status === "refunded");
  await press(tab, "Refresh");
  await looked(tab, notes, "order-refunded");
  await tab.close();
});

test("a refund above the limit goes out when a second operator approves it", { timeout }, async () => {
  // The server's operators.second_approver_above is 600 cents.
  const [{ owner, order, price }] = await inReview([14], "second", await planAbove(600));
  const before = await held(owner.account.address);
  const [ann, bob, eve] = await Promise.all(
    [["ann", "treasurer"], ["bob", "treasurer"], ["eve", "viewer"]].map(([name, role]) => minted(name, role)),
  );
  const first = await operating(browser, { token: ann });
  await goTo(first.tab, `#/orders/${order.orderId}`);
  await press(first.tab, "Refund");
  await confirm(first.tab, "the supplier knows nothing of it");
  await says(first.tab, "It waits for a second operator.");
  await says(first.tab, "ann asked for order.refund");
  await looked(first.tab, first.notes, "order-waits");
  await goTo(first.tab, "#/approvals");
  await says(first.tab, "You asked for it");
  assert.equal((await admin(`orders/${order.orderId}`)).order.status, "operator_review");
  await first.tab.close();

  const viewer = await operating(browser, { token: eve });
  await goTo(viewer.tab, "#/approvals");
  await says(viewer.tab, "Approve");
  assert.deepEqual(await viewer.tab.$$eval(".row-acts .act", (all) => all.map((each) => [each.disabled, each.title])),
    [0, 1].map(() => [true, "Your role does not allow this."]));
  await looked(viewer.tab, viewer.notes, "approvals-of-a-viewer");
  await viewer.tab.close();
  assert.equal(await held(owner.account.address), before, "nobody with the role has approved");

  const sibling = await operating(browser, { token: bob });
  await goTo(sibling.tab, "#/approvals");
  await press(sibling.tab, "Approve");
  await confirm(sibling.tab, "seen");
  await says(sibling.tab, "nobody may have minted the tokens of both");
  await sibling.tab.close();

  const other = await operating(browser, { token: second.token });
  await goTo(other.tab, "#/approvals");
  await looked(other.tab, other.notes, "approvals");
  await press(other.tab, "Approve");
  await says(other.tab, "ann asked for order.refund");
  await confirm(other.tab, "seen, ticket 18");
  await says(other.tab, "Approved.");
  await until("refunded", () => admin(`orders/${order.orderId}`), (shown) => shown.order.status === "refunded");
  assert.equal(await held(owner.account.address), before + price);
  const [decided] = (await admin("approvals?status=approved")).approvals;
  assert.deepEqual([decided.requestedBy, decided.decidedBy, decided.subject], ["ann", second.name, order.orderId]);
  await other.tab.close();
});

test("a decision about what has changed meanwhile is refused", { timeout }, async () => {
  const { order } = orders[1];
  const { tab, notes } = await operating(browser);
  // The page does not hear of the change.
  await tab.setRequestInterception(true);
  let deaf = false;
  tab.on("request", (request) => (deaf && /\/summary/.test(request.url()) ? request.abort() : request.continue()));
  await goTo(tab, `#/orders/${order.orderId}`);
  await says(tab, "Delivered by hand");
  await settledPage(tab);
  deaf = true;
  const { order: seen } = await admin(`orders/${order.orderId}/review`);
  await admin(`orders/${order.orderId}/decide`,
    { action: "refund", reason: "another operator was first", version: seen.version });
  await until("refunded", () => admin(`orders/${order.orderId}`), (shown) => shown.order.status === "refunded");
  await press(tab, "Delivered by hand");
  await confirm(tab, "the buyer has it");
  await says(tab, "It has changed since you read it");
  notes.complaints.length = 0; // what was cut and refused are errors in the browser's console
  await looked(tab, notes, "stale").catch((error) => {
    if (!/ERR_FAILED/.test(error.message)) throw error;
  });
  deaf = false;
  await press(tab, "Read it again");
  await says(tab, "Refunded");
  assert.equal((await admin(`orders/${order.orderId}`)).order.status, "refunded");
  await tab.close();
});

test("the console is live, and watching leaves no audit record", { timeout }, async () => {
  const { order } = orders[2];
  const { tab } = await operating(browser);
  await goTo(tab, `#/orders/${order.orderId}`);
  await says(tab, "Deliver again");
  await settledPage(tab);
  const all = async () => {
    const { records } = await admin(`audit?subject=${order.orderId}&pageSize=100`);
    return records.filter(({ action }) => action !== "audit.list").length;
  };
  const before = await all();
  const polls = [];
  tab.on("request", (request) => polls.push(new URL(request.url()).pathname));
  await until("two polls", async () => polls.length, (n) => n >= 2);
  assert.deepEqual([...new Set(polls)], ["/api/admin/summary"]);
  assert.equal(await all(), before, "a poll is audited");
  // Another operator decides; nobody touches this page.
  await admin(`orders/${order.orderId}/decide`, { action: "refund", reason: "there is no trace of it" });
  await says(tab, "Refunded");
  assert.ok((await all()) <= before + 7, "a change is read more than once a rest");
  await tab.close();
});

test("a transfer for no order is resolved, next to its payer's orders", { timeout }, async () => {
  const payer = orders[0].owner.account.address;
  const { transaction } = await sent(payer, 1_230_000n);
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/books");
  await says(tab, "Compare now");
  await until("found", async () => {
    await press(tab, "Compare now");
    await says(tab, "The books were compared.");
    return (await admin("transfers")).transfers;
  }, (open) => open.some((each) => each.transaction === transaction));
  await settledPage(tab);
  await says(tab, "Comparisons");
  await says(tab, "Differed");
  const [newest] = (await admin("reconciliations")).reconciliations;
  assert.deepEqual([newest.outcome, newest.unread], ["differed", undefined]);
  assert.equal(newest.open, newest.sums.reduce((sum, { open }) => sum + open, 0));
  await says(tab, `${newest.checked.orders} orders, ${newest.checked.transfers} transfers`);
  await tab.evaluate(() => document.querySelector("[data-row] details > summary").click());
  await looked(tab, notes, "books");
  await goTo(tab, "#/books?outcome=agreed");
  await settledPage(tab);
  const agreed = (await rows(tab)).filter((row) => /orders, \d+ transfers/.test(row));
  assert.ok(agreed.every((row) => row.includes("Agreed")), agreed.join("\n"));
  await goTo(tab, "#/findings");
  await says(tab, "transfer_unmatched");
  await looked(tab, notes, "findings");
  await goTo(tab, "#/transfers");
  await says(tab, "1.23 USDC");
  await press(tab, "Orders of the payer");
  await says(tab, orders[0].order.orderId);
  await looked(tab, notes, "transfers");
  await tab.evaluate(() => [...document.querySelectorAll("[data-row] button")]
    .find((b) => b.innerText === "Resolve").click());
  await says(tab, "arrived from");
  await tab.evaluate(() => [...document.querySelectorAll("dialog input[type=radio]")][1].click());
  await looked(tab, notes, "resolve-transfer");
  await confirm(tab, "nobody claims it");
  await says(tab, "Resolved.");
  const { transfers } = await admin("transfers?status=resolved");
  const mine = transfers.find((each) => each.transaction === transaction);
  assert.deepEqual([mine.resolution, mine.reason, mine.operator, mine.from],
    ["donation", "nobody claims it", "dev", payer]);
  assert.equal((await admin("transfers")).transfers.some((each) => each.transaction === transaction), false);
  const report = await admin("reconcile", {});
  assert.equal(report.findings.some(({ subject }) => subject.startsWith(transaction)), false);
  await tab.close();
});

test("a sale is paused and opened, and every place is there for everybody", { timeout }, async () => {
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/switches");
  await says(tab, "Travel eSIM");
  await pressIn(tab, "More eSIM data", "Pause");
  await says(tab, "It is no longer sold");
  await looked(tab, notes, "pause");
  await confirm(tab, "the supplier is slow");
  await says(tab, "The switch is set.");
  const paused = async () => (await admin("switches")).switches.find(({ product }) => product === "esim_topup").paused;
  assert.equal(await paused(), true);
  await looked(tab, notes, "switches");
  await pressIn(tab, "More eSIM data", "Resume");
  await confirm(tab, "it is quick again");
  await until("open", paused, (now) => now === false);
  const opened = (each) => !["orders", "switches", "transfers", "findings", "books"].includes(each);
  for (const place of places.filter(opened)) {
    await goTo(tab, `#/${place}`);
    await looked(tab, notes, place);
  }
  await tab.close();
});

test("the audit trail is selected, turned over and exported, and runs in no spreadsheet", { timeout }, async () => {
  for (const front of ["", "  ", "\u00a0"])
    await admin("switches/esim_topup", { paused: false, reason: `${front}=HYPERLINK("http://evil.example")` });
  const { tab } = await operating(browser);
  await tab.evaluate(() => {
    URL.createObjectURL = (blob) => (blob.text().then((text) => (window.__saved = text)), "blob:none");
    HTMLAnchorElement.prototype.click = () => undefined;
  });
  await goTo(tab, "#/audit?action=order.decide");
  await says(tab, "another operator was first");
  await goTo(tab, "#/audit");
  await says(tab, "HYPERLINK");
  const first = await rows(tab);
  await press(tab, "Next");
  await says(tab, "Page 2");
  await settledPage(tab);
  assert.notDeepEqual(await rows(tab), first);
  await goTo(tab, "#/audit?action=switch.set");
  await says(tab, "it is quick again");
  await press(tab, "Export CSV");
  await tab.waitForFunction(() => window.__saved);
  const saved = await tab.evaluate(() => window.__saved);
  assert.match(saved, /^id,at,actor,action,subject,reason,before,after\r\n/);
  for (const front of ["", "  ", "\u00a0"])
    assert.ok(saved.includes(`,"'${front}=HYPERLINK(""http`), `what begins with ${JSON.stringify(front)} runs`);
  assert.ok(saved.trim().split("\r\n").slice(1).every((line) => line.includes(",dev,switch.set,")));
  await tab.close();
});

test("a search finds orders by their id, their wallet, their transaction and their request", { timeout }, async () => {
  const { order, owner } = orders[0];
  const { payments } = await admin(`orders/${order.orderId}`);
  const { tab, notes } = await operating(browser);
  const search = async (text) => {
    await tab.keyboard.press("Escape");
    await tab.evaluate(() => document.activeElement.blur());
    await tab.keyboard.press("/");
    await tab.keyboard.type(text);
    await tab.keyboard.press("Enter");
  };
  await search(owner.account.address);
  await says(tab, "Orders of the wallet");
  await says(tab, order.orderId);
  await search(payments[0].transaction);
  await says(tab, "Orders of the transaction");
  await until("one order", () => rows(tab), (found) => found.length === 1 && found[0].includes(order.orderId));
  // What the answer that sold the order calls its request, and what a client of somebody else's may call one.
  const { timeline } = await admin(`orders/${order.orderId}`);
  const { requestId } = timeline.find(({ actor }) => actor === "buyer");
  assert.equal(requestId, orders[0].requestId);
  await search(requestId);
  await says(tab, "Orders of the request");
  await until("one order", () => rows(tab), (found) => found.length === 1 && found[0].includes(order.orderId));
  await looked(tab, notes, "request");
  await search("of-nobody_4.2");
  await until("none", () => rows(tab), (found) => found.length === 0);
  await search(order.orderId);
  await says(tab, "Timeline");
  assert.ok(await tab.$(`button[title="${requestId}"]`), "the timeline names the request");
  for (const nothing of ["nothing of the kind", "0x12", "<b>bold</b>", "x".repeat(65)]) {
    await search(nothing);
    await says(tab, "This is not an order, wallet, transaction or request.");
    await tab.evaluate(() => (document.querySelector("#search").value = ""));
  }
  await tab.close();
});

test("a keyboard alone signs in, finds, decides and signs out; German is spoken", { timeout }, async () => {
  const { order } = orders[3];
  const { tab, notes } = await operating(browser, { language: "de-AT" });
  await says(tab, "In Prüfung");
  assert.equal(await tab.evaluate(() => document.documentElement.lang), "de");
  await looked(tab, notes, "german");
  const focused = () => tab.evaluate(() => document.activeElement?.innerText ?? "");
  await tab.keyboard.press("?");
  await says(tab, "Diese Tastenkürzel");
  await looked(tab, notes, "shortcuts");
  await tab.keyboard.press("Escape");
  await tab.waitForFunction(() => document.activeElement !== document.body, { timeout });
  await tab.waitForFunction(() => !document.querySelector("dialog"));
  await until("the row", async () => {
    await tab.keyboard.press("j");
    return focused();
  }, (text) => text === order.orderId, 20_000);
  const outline = await tab.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, "none", "the focus is seen");
  await tab.keyboard.press("Enter");
  await says(tab, "Noch einmal liefern");
  await settledPage(tab);
  await tab.evaluate(() => document.activeElement.blur());
  await tab.keyboard.press("d");
  assert.equal(await focused(), "Erstatten");
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("Tab");
  assert.equal(await focused(), "Von Hand geliefert");
  await tab.keyboard.press("Enter");
  await tab.waitForSelector("dialog[open] textarea");
  assert.equal(await tab.evaluate(() => document.activeElement.tagName), "TEXTAREA");
  await tab.keyboard.type("der Käufer hat einen Code bekommen");
  await tab.keyboard.down("Control");
  await tab.keyboard.press("Enter");
  await tab.keyboard.up("Control");
  await says(tab, "Die Bestellung ist erfüllt.");
  await until("fulfilled", () => admin(`orders/${order.orderId}`), (shown) => shown.order.status === "fulfilled");
  await tab.keyboard.press("g");
  await tab.keyboard.press("a");
  await says(tab, "Wer was getan hat.");
  await until("the way out", async () => {
    await tab.keyboard.press("Tab");
    return focused();
  }, (text) => text === "Abmelden", 60_000);
  await tab.keyboard.press("Enter");
  await says(tab, "Du hast dich abgemeldet.");
  await tab.close();
});

test("no other origin frames it, calls it or reads it, and each origin serves its own only", { timeout }, async (t) => {
  const html = `<iframe src="${dev.consoleUrl}"></iframe>`;
  const thief = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
  t.after(() => thief.close());
  await once(thief.listen(0, "127.0.0.1"), "listening");
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${thief.address().port}/`, { waitUntil: "networkidle0" });
  const [, frame] = tab.frames();
  assert.equal((await frame.$$("#page, input")).length, 0, "it is framed");
  // Even who knew the token could not call from a page of another origin.
  const tries = await tab.evaluate(async (url, token) => {
    const headers = {
      authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": "stolen",
    };
    const body = JSON.stringify({ paused: true, reason: "stolen" });
    const asked = [
      fetch(`${url}/api/admin/whoami`, { headers }), fetch(`${url}/api/admin/whoami`),
      fetch(`${url}/api/admin/switches/esim`, { method: "POST", headers, body }), fetch(`${url}/`),
      fetch(`${url}/roamcard.v1.OperatorService/WhoAmI`, { method: "POST", headers, body: "{}" }),
      fetch(`${url}/api/admin/switches/esim`, { method: "POST", mode: "no-cors", body })
        .then(() => Promise.reject(new Error("opaque"))),
    ];
    return Promise.all(asked.map((each) => each.then(({ status }) => status, () => "refused")));
  }, dev.consoleUrl, dev.operatorToken);
  // The last is sent, as a form would be, without the token.
  assert.deepEqual(tries, tries.map(() => "refused"));
  const { switches } = await admin("switches");
  assert.ok(switches.every(({ reason }) => reason !== "stolen"));
  await tab.close();

  const owner = await ownerAt(10);
  for (const path of [
    "/api/config", "/api/card/purchase", "/api/orders", "/api/esim/plans", "/pay/ord_x", "/status",
    "/openapi.json", "/mcp",
    "/livez", "/health", "/docs", "/roamcard.v1.OrderService/GetOrder", "/api/admin/activity",
  ]) {
    const answer = await fetch(`${dev.consoleUrl}${path}`, { headers: { ...owner.session, accept: "text/html" } });
    assert.equal(answer.status, 404, `the console serves ${path}`);
  }
  const page = await (await fetch(dev.consoleUrl)).text();
  const assets = [...page.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)].map(([, path]) => path);
  assert.equal(assets.length, 2);
  for (const path of assets) {
    assert.equal((await fetch(`${dev.consoleUrl}${path}`)).status, 200);
    assert.equal((await fetch(`${dev.baseUrl}${path}`)).status, 404, `the buyers' origin serves ${path}`);
  }
  const shop = await (await fetch(`${dev.baseUrl}/pay/ord_none`, { headers: { accept: "text/html" } })).text();
  for (const [, path] of shop.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g))
    assert.equal((await fetch(`${dev.consoleUrl}${path}`)).status, 404, `the console's origin serves ${path}`);
  const home = await (await fetch(dev.baseUrl, { headers: { accept: "text/html" } })).text();
  assert.equal(home.includes("/ui/assets/console"), false);
});
