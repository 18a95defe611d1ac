// People pay orders at their links, in a browser with a wallet: each story ends on the chain and in the books.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import {
  dev, hangsAfter, launch, orderOf, ownerAt, pause, press, read, says, shot, tabWith, transfers, walletOf,
} from "./paying.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const timeout = 2 * hangsAfter;
const still = { name: "prefers-reduced-motion", value: "reduce" };
let browser;

before(async () => {
  browser = await launch({ strict: true });
});
after(() => browser?.close());

const looks = [["light", 900], ["dark", 900], ["light", 360]];
let states = 0;

/**
 * Checks a state of the page: nothing that keeps people out, nothing from elsewhere, no complaint; and keeps pictures.
 * With QUICK it is looked at in one way, the next state in the next.
 */
async function looked(tab, notes, name) {
  assert.deepEqual(notes.complaints, [], name);
  assert.deepEqual(notes.asked.filter((url) => !/^(data|blob):/.test(url) && new URL(url).origin !== dev.baseUrl), []);
  for (const [scheme, width] of process.env.QUICK ? [looks[states++ % looks.length]] : looks) {
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, still]);
    await tab.setViewport({ width, height: 900 });
    const found = await tab.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
    const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.target).join(" ")}`);
    assert.deepEqual(violations, [], `axe, ${name}, ${scheme}, ${width} px`);
    assert.ok(
      await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      `${name} is wider than ${width} px`,
    );
    await shot(tab, `pay-${name}-${scheme}-${width}`);
  }
}

test("a link is paid with one signature, and the page follows it to the delivery", { timeout }, async (t) => {
  const owner = await ownerAt(1);
  const order = await orderOf(owner);
  const wallet = walletOf(owner.account);
  const before = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, [wallet]);
  const answer = await tab.goto(order.payable_url);
  assert.equal(answer.status(), 402);
  assert.match(answer.headers()["payment-required"], /^\S+$/);
  await says(tab, "Choose the wallet that pays");
  await looked(tab, notes, "open");
  await press(tab, "Test wallet");
  await says(tab, "USDC available");
  await looked(tab, notes, "connected");
  await tab.waitForFunction(() => document.activeElement !== document.body, { timeout });
  await press(tab, "Pay $");
  await says(tab, "The eSIM is ready to install.");
  await looked(tab, notes, "delivered");
  assert.equal(wallet.signatures(), 1);
  assert.equal(wallet.asked.includes("personal_sign"), false, "nobody signs in");
  assert.equal(await transfers(owner.account.address), before + 1);
  const delivered = await read(owner, order.orderId);
  assert.equal(delivered.status, "fulfilled");
  const saved = await tab.$eval("a[download]", (link) => (
    { name: link.download, text: link.textContent, href: link.href }
  ));
  assert.deepEqual(saved, {
    name: `receipt-${order.orderId}.jws`, text: "Signed receipt",
    href: `data:application/jose,${delivered.receipt}`,
  });

  // The link tells whoever opens it later that it is paid, here by the journal and elsewhere by the service.
  await tab.reload();
  await says(tab, "The eSIM is ready to install.");
  await tab.close();
  const another = await launch({ strict: true }); // this build of the browser has one profile
  t.after(() => another.close());
  const elsewhere = await another.newPage();
  await elsewhere.goto(order.payable_url);
  await says(elsewhere, "This order is paid");
  assert.equal(await transfers(owner.account.address), before + 1);
});

test("a tab that is closed after the signature is gone on with when it is opened again", { timeout }, async () => {
  const owner = await ownerAt(2);
  const order = await orderOf(owner);
  const wallet = walletOf(owner.account);
  const before = await transfers(owner.account.address);
  const { tab } = await tabWith(browser, [wallet]);
  // The payment leaves the page and reaches nobody; then the tab is gone.
  const cut = new Promise((done) => {
    tab.on("request", (request) => {
      if (request.headers()["payment-signature"]) return done(request.abort().catch(() => undefined));
      return request.continue();
    });
  });
  await tab.setRequestInterception(true);
  await tab.goto(order.payable_url);
  await press(tab, "Test wallet");
  await press(tab, "Pay $");
  await cut;
  await tab.close();
  assert.equal(await transfers(owner.account.address), before);

  const { tab: again, notes } = await tabWith(browser, [wallet]);
  await again.goto(order.payable_url);
  await says(again, "The eSIM is ready to install.");
  assert.deepEqual(notes.complaints, []);
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), before + 1);
  assert.equal((await read(owner, order.orderId)).status, "fulfilled");
  await again.close();
});

test("an answer that gets lost is asked for again with the same signature", { timeout }, async () => {
  const owner = await ownerAt(3);
  const order = await orderOf(owner);
  const wallet = walletOf(owner.account);
  const before = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, [wallet]);
  let sent = 0;
  let lost = true;
  await tab.setRequestInterception(true);
  tab.on("request", (request) => {
    if (!request.headers()["payment-signature"]) return request.continue();
    sent++;
    return lost ? request.abort() : request.continue();
  });
  await tab.goto(order.payable_url);
  await press(tab, "Test wallet");
  await press(tab, "Pay $");
  await says(tab, "The answer got lost");
  notes.complaints.length = 0; // what was cut is an error in the console
  await looked(tab, notes, "lost").catch((error) => {
    if (!/ERR_FAILED/.test(error.message)) throw error;
  });
  lost = false;
  await says(tab, "The eSIM is ready to install.");
  assert.ok(sent > 1);
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), before + 1);
  await tab.close();
});

test("two tabs of one order are one payment", { timeout }, async () => {
  const owner = await ownerAt(4);
  const order = await orderOf(owner);
  const before = await transfers(owner.account.address);
  let sign;
  const wallet = walletOf(owner.account, { hold: new Promise((done) => (sign = done)) });
  const tabs = [];
  for (let i = 0; i < 3; i++) {
    const { tab } = await tabWith(browser, [wallet]);
    await tab.goto(order.payable_url);
    tabs.push(tab);
  }
  // Two press the button; the third only looks on.
  for (const tab of tabs.slice(0, 2)) {
    await tab.bringToFront();
    await press(tab, "Test wallet");
    await press(tab, "Pay $");
    await says(tab, "Confirm the payment in your wallet");
  }
  sign();
  for (const tab of tabs) {
    await tab.bringToFront();
    await says(tab, "The eSIM is ready to install.");
  }
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), before + 1);
  for (const tab of tabs) await tab.close();
});

test("a wallet that refuses, the wrong one, and one without money are told before anything is signed",
  { timeout }, async () => {
  const [owner, other] = [await ownerAt(5), await ownerAt(6)];
  const order = await orderOf(owner);
  const wallets = [
    walletOf(owner.account, { name: "Mine", refuses: ["eth_signTypedData_v4"] }),
    walletOf(other.account, { name: "Theirs" }),
    walletOf(owner.account, { name: "Poor", answers: { eth_call: `0x${"0".repeat(64)}` } }),
    walletOf(owner.account, { name: "Elsewhere", chain: "0x1", known: ["0x1"] }),
    walletOf(owner.account, { name: "Stubborn", chain: "0x1", refuses: ["wallet_switchEthereumChain"] }),
  ];
  const { tab, notes } = await tabWith(browser, wallets);
  await tab.goto(order.payable_url);
  await says(tab, "Elsewhere");
  await looked(tab, notes, "wallets");

  await press(tab, "Theirs");
  await says(tab, "This is not the wallet of this order");
  await looked(tab, notes, "wrong-wallet");
  await press(tab, "Use another wallet");
  await press(tab, "Poor");
  await says(tab, "Not enough USDC");
  await looked(tab, notes, "poor");
  await press(tab, "Use another wallet");
  await press(tab, "Stubborn");
  await says(tab, "You declined in the wallet");
  await press(tab, "Use another wallet");
  await press(tab, "Mine");
  await press(tab, "Pay $");
  await says(tab, "Nothing was signed and nothing was paid.");
  await looked(tab, notes, "refused");
  assert.equal((await read(owner, order.orderId)).status, "payment_required");

  // One that does not know the chain is told it, and pays.
  await press(tab, "Use another wallet");
  await press(tab, "Elsewhere");
  await says(tab, "USDC available");
  assert.deepEqual(wallets[3].added.rpcUrls, [dev.rpcUrl]);
  await press(tab, "Pay $");
  await says(tab, "The eSIM is ready to install.");
  assert.equal((await read(owner, order.orderId)).status, "fulfilled");
  assert.deepEqual(wallets.map((wallet) => wallet.signatures()), [1, 0, 0, 1, 0]);
  await tab.close();
});

test("a sale that is paused, an order that expired, one that is none, and a service that is away are told",
  { timeout }, async (t) => {
  const owner = await ownerAt(7);
  const order = await orderOf(owner);
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  await pause("esim", true);
  t.after(() => pause("esim", false));
  // Switches take effect within a second.
  while ((await fetch(order.payable_url)).status !== 503) await new Promise((done) => setTimeout(done, 50));
  assert.equal((await tab.goto(order.payable_url)).status(), 503);
  await says(tab, "This cannot be paid right now");
  await looked(tab, notes, "paused");
  await pause("esim", false);

  assert.equal((await tab.goto(`${dev.baseUrl}/pay/ord_none`)).status(), 404);
  await says(tab, "There is no such order");
  await looked(tab, notes, "missing");

  // Half an hour passes: for the page, the service says so.
  let answers = (shown) => ({ ...shown, status: "expired", payableUrl: undefined, payable_url: undefined });
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    if (!/GetPayableOrder/.test(request.url())) return request.continue();
    const shown = answers && (await (await fetch(`${dev.baseUrl}/api/orders/${order.orderId}/payable`)).json());
    if (!answers) return request.abort();
    const body = JSON.stringify({ order: answers(shown) });
    return request.respond({ status: 200, contentType: "application/json", body });
  });
  await tab.goto(order.payable_url);
  await says(tab, "This link has expired");
  await looked(tab, notes, "expired");
  for (const [status, text] of [
    ["refunded", "The money went back"], ["refund_pending", "The money is coming back"],
    ["operator_review", "Somebody is looking at it"], ["provisioning", "We are delivering"],
  ]) {
    answers = (shown) => ({ ...shown, status });
    await tab.goto(order.payable_url);
    await says(tab, text);
    await looked(tab, notes, status.replace("_", "-"));
  }
  answers = undefined;
  await tab.goto(order.payable_url);
  await says(tab, "The service does not answer");
  await tab.close();
});

test("a payment in the block that is being built is shown as such, and decides nothing", { timeout }, async () => {
  const owner = await ownerAt(7);
  const order = await orderOf(owner);
  const wallet = walletOf(owner.account);
  const before = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, [wallet]);
  // The payment is held on its way to the service, while its link tells what a service with chain.preconfirmed tells.
  let arrive;
  const held = new Promise((done) => (arrive = done));
  let looks = 0;
  let paying = false;
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    if (request.headers()["payment-signature"]) {
      paying = true;
      await held;
      return request.continue();
    }
    if (!paying || !/GetPayableOrder/.test(request.url())) return request.continue();
    const shown = await (await fetch(`${dev.baseUrl}/api/orders/${order.orderId}/payable`)).json();
    const body = JSON.stringify({ order: { ...shown, status: "settling", preconfirmed: ++looks > 2 } });
    return request.respond({ status: 200, contentType: "application/json", body });
  });
  await tab.goto(order.payable_url);
  await press(tab, "Test wallet");
  await press(tab, "Pay $");
  await says(tab, "Payment signed. Waiting for it to arrive");
  const text = await says(tab, "The payment is in the block that is being built");
  assert.equal(looks, 3, "asked until it is there, and not again");
  assert.equal(text.includes("The eSIM is ready"), false);
  await looked(tab, notes, "preconfirmed");
  assert.equal((await read(owner, order.orderId)).status, "payment_required");
  assert.equal(await transfers(owner.account.address), before);
  arrive();
  const paid = await says(tab, "The eSIM is ready to install.");
  assert.equal(paid.includes("being built"), false);
  assert.equal(looks, 3);
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), before + 1);
  await tab.close();
});

test("hostile names are text", { timeout }, async () => {
  const owner = await ownerAt(7);
  const order = await orderOf(owner);
  const bait = `"><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>{{7*7}}`;
  const { tab, notes } = await tabWith(browser, [
    walletOf(owner.account, { name: bait, refuses: ["eth_requestAccounts"] }),
  ]);
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    if (!/GetPayableOrder/.test(request.url())) return request.continue();
    const shown = await (await fetch(`${dev.baseUrl}/api/orders/${order.orderId}/payable`)).json();
    const description = `Travel eSIM: ${bait} \u202e${"w".repeat(200)}`;
    return request.respond({
      status: 200, contentType: "application/json",
      body: JSON.stringify({ order: { ...shown, description, kind: bait } }),
    });
  });
  await tab.goto(order.payable_url);
  const text = await says(tab, "window.pwned=1");
  assert.ok(text.includes("{{7*7}}"));
  assert.equal(await tab.evaluate(() => window.pwned), undefined);
  assert.equal(await tab.evaluate(() => document.querySelectorAll("img[src=x], main script").length), 0);
  await looked(tab, notes, "hostile");
  await tab.close();
});

test("a page of another origin cannot frame it, and no other origin reads what it loads", { timeout }, async (t) => {
  const owner = await ownerAt(7);
  const order = await orderOf(owner);
  const html = `<iframe src="${order.payable_url}"></iframe>`;
  const thief = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
  t.after(() => thief.close());
  await once(thief.listen(0, "127.0.0.1"), "listening");
  const tab = await browser.newPage();
  tab.setDefaultTimeout(hangsAfter);
  await tab.goto(`http://127.0.0.1:${thief.address().port}/`, { waitUntil: "networkidle0" });
  const [, frame] = tab.frames();
  assert.equal((await frame.$$("#page")).length, 0);
  const document = await fetch(order.payable_url, { headers: { accept: "text/html", origin: "https://evil.example" } });
  const [, script] = /src="([^"]+\.js)"/.exec(await document.text());
  // The buyers' calls are open to all pages, which have nothing of a person's to send; these are not.
  const tries = await tab.evaluate(async (base, link, asset, token) => {
    const headers = {
      authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": "stolen",
    };
    const asked = [
      fetch(`${base}${asset}`), fetch(link, { credentials: "include" }), fetch(`${base}/api/admin/whoami`, { headers }),
      fetch(`${base}/api/admin/switches/esim`, {
        method: "POST", headers, body: JSON.stringify({ paused: true, reason: "stolen" }),
      }),
    ];
    return Promise.all(asked.map((each) => each.then(({ status }) => status, () => "refused")));
  }, dev.baseUrl, order.payable_url, script, dev.operatorToken);
  assert.deepEqual(tries, tries.map(() => "refused"));
  const asset = await fetch(`${dev.baseUrl}${script}`, { headers: { origin: "https://evil.example" } });
  assert.equal(asset.headers.get("access-control-allow-origin"), null);
  assert.match(asset.headers.get("cache-control"), /immutable/);
  assert.equal(asset.headers.get("content-encoding"), "gzip");
  await tab.close();
});

test("a browser that speaks German gets German, and the keyboard pays", { timeout }, async () => {
  const owner = await ownerAt(8);
  const order = await orderOf(owner);
  const wallet = walletOf(owner.account);
  const { tab, notes } = await tabWith(browser, [wallet], { language: "de-AT" });
  await tab.goto(order.payable_url);
  await says(tab, "Wähle die Wallet, die zahlt");
  assert.equal(await tab.evaluate(() => document.documentElement.lang), "de");
  await looked(tab, notes, "german");
  await tab.bringToFront();
  const focused = () => tab.evaluate(() => document.activeElement?.closest("button")?.innerText ?? "");
  const reach = async (text) => {
    for (let i = 0; i < 12 && !(await focused()).includes(text); i++) await tab.keyboard.press("Tab");
    assert.match(await focused(), new RegExp(text));
    await tab.keyboard.press("Enter");
  };
  await reach("Test wallet");
  await says(tab, "USDC verfügbar");
  await reach("bezahlen");
  await says(tab, "Die eSIM kann installiert werden.");
  assert.equal(wallet.signatures(), 1);
  await tab.close();
});
