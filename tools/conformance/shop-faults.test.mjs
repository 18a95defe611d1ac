// What goes wrong while people buy: closed tabs, killed services, refusals, strangers' texts, other people's orders.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { dataFolder, removeFolder, startDev, startDevnet } from "../../clients/typescript/test/support/dev.mjs";
import { dev, launch, orderOf, ownerAt, pause, press, read, tabWith, transfers, walletOf } from "./paying.mjs";
import { connect, go, looked, push, says, signIn } from "./shopping.mjs";

const timeout = 300_000;
const home = `${dev.baseUrl}/`;
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const pays = (request) => request.headers()["payment-signature"] !== undefined;

/** Opens the plan of a country and presses its button. */
async function buyPlan(tab, at = home) {
  await tab.goto(`${at}#esims/FR`);
  await connect(tab);
  await push(tab, "Buy France 500 MB");
  await push(tab, "Pay $");
}

test("a tab that is closed between signature and answer, and opened again, is one transfer", { timeout }, async () => {
  const owner = await ownerAt(11);
  const wallet = walletOf(owner.account);
  const began = await transfers(owner.account.address);
  const { tab } = await tabWith(browser, [wallet]);
  await tab.setRequestInterception(true);
  const cut = new Promise((done) => {
    tab.on("request", (request) => {
      if (pays(request)) return done(request.abort().catch(() => undefined));
      return request.continue();
    });
  });
  await buyPlan(tab);
  await cut;
  await tab.close();
  assert.equal(await transfers(owner.account.address), began);

  const { tab: again, notes } = await tabWith(browser, []);
  await again.goto(home);
  await says(again, "An earlier payment has arrived.");
  await says(again, "The eSIM is ready to install.");
  await looked(again, notes, "resumed");
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), began + 1);
  await again.reload();
  await says(again, "A virtual card, paid in USDC");
  assert.equal(await transfers(owner.account.address), began + 1);
  await again.close();
});

test("an answer that gets lost is asked for again with the same signature", { timeout }, async () => {
  const owner = await ownerAt(12);
  const wallet = walletOf(owner.account);
  const began = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, [wallet]);
  let [sent, lost] = [0, true];
  await tab.setRequestInterception(true);
  tab.on("request", (request) => {
    if (pays(request)) sent++;
    return pays(request) && lost ? request.abort() : request.continue();
  });
  await buyPlan(tab);
  await says(tab, "The answer got lost");
  notes.complaints.length = 0; // what was cut is an error in the console
  lost = false;
  await says(tab, "The eSIM is ready to install.");
  assert.ok(sent > 1);
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(owner.account.address), began + 1);
  await tab.close();
});

test("a payment goes on when its wallet is locked or shows another account", { timeout }, async () => {
  const [owner, other] = [await ownerAt(12), await ownerAt(13)];
  const wallet = walletOf(owner.account);
  const [began, others] = [await transfers(owner.account.address), await transfers(other.account.address)];
  const { tab } = await tabWith(browser, [wallet]);
  let lost = true;
  await tab.setRequestInterception(true);
  tab.on("request", (request) => (pays(request) && lost ? request.abort() : request.continue()));
  const changed = () => tab.evaluate(() => window.__emit("accountsChanged", []));
  await buyPlan(tab);
  await says(tab, "Payment signed. Waiting");
  wallet.locked = true;
  await changed();
  await says(tab, "Connect wallet");
  lost = false;
  await says(tab, "The eSIM is ready to install.");
  assert.equal(await transfers(owner.account.address), began + 1);

  [wallet.locked, lost] = [false, true];
  await tab.goto("about:blank");
  await buyPlan(tab);
  await says(tab, "The answer got lost");
  wallet.account = other.account;
  await changed();
  await tab.waitForFunction((a) => document.querySelector(".chip").innerText.includes(a), {},
    other.account.address.slice(0, 6));
  await push(tab, "Close");
  await says(tab, "An earlier payment is asked about again. You cannot pay twice.");
  lost = false;
  await says(tab, "An earlier payment has arrived.");
  assert.equal(wallet.signatures(), 2);
  assert.equal(await transfers(owner.account.address), began + 2);
  assert.equal(await transfers(other.account.address), others);
  await tab.close();
});

test("another price than the one that was shown is shown before it is signed", { timeout }, async () => {
  const owner = await ownerAt(12);
  const wallet = walletOf(owner.account);
  const { tab, notes } = await tabWith(browser, [wallet]);
  let earlier = true;
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    if (!earlier || !/ListEsimPlans/.test(request.url())) return request.continue();
    const { plans } = await (await fetch(`${dev.baseUrl}/api/esim/plans`)).json();
    const cheap = plans.map((plan) => ({ ...plan, priceUsdCents: 20, amount: "200000" }));
    return request.respond({ contentType: "application/json", body: JSON.stringify({ plans: cheap }) });
  });
  await tab.goto(`${home}#esims/FR`);
  await connect(tab);
  await push(tab, "Buy France 500 MB");
  earlier = false;
  await push(tab, "Pay $0.20");
  await says(tab, "The price has changed");
  await looked(tab, notes, "price-changed");
  assert.equal(wallet.signatures(), 0);
  await push(tab, "Pay $0.50");
  await says(tab, "The eSIM is ready to install.");
  assert.equal(wallet.signatures(), 1);
  await tab.close();
});

test("a wallet that was given up changes nothing when it answers", { timeout }, async () => {
  const [owner, other] = [await ownerAt(12), await ownerAt(13)];
  const order = await orderOf(owner);
  for (const at of [`${home}#card`, order.payable_url]) {
    let answer;
    const late = walletOf(owner.account, { name: "Late", opens: new Promise((done) => (answer = done)) });
    const { tab } = await tabWith(browser, [late, walletOf(other.account)]);
    await tab.goto(at);
    if (at !== order.payable_url) await push(tab, "Connect wallet");
    await push(tab, "Late");
    await push(tab, "Cancel");
    await push(tab, "Test wallet");
    const shown = other.account.address.slice(0, 6);
    await says(tab, shown);
    answer();
    await new Promise((done) => setTimeout(done, 500));
    await says(tab, shown);
    assert.deepEqual(late.asked, ["eth_requestAccounts"]);
    await tab.close();
  }
});

test("an order that the list does not show is opened by its address", { timeout }, async () => {
  const owner = await ownerAt(17);
  const { orderId } = await orderOf(owner);
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  await tab.goto(`${home}#orders`);
  await connect(tab);
  await signIn(tab);
  await tab.waitForSelector("main select");
  await tab.select("main select", "card_topup");
  await says(tab, "There are no orders yet.");
  await go(tab, `#orders/${orderId}`);
  await says(tab, orderId);
  await go(tab, "#card");
  await says(tab, "A virtual card, paid in USDC");
  assert.deepEqual(notes.complaints, []);
  await tab.close();
});

test("a service that is killed while the page waits delivers when it is started again", { timeout }, async (t) => {
  const folder = await dataFolder();
  t.after(() => removeFolder(folder));
  const devnet = await startDevnet(folder);
  t.after(() => devnet.stop());
  let server = await startDev(folder, "--rpc-url", devnet.rpcUrl);
  t.after(() => server.kill());
  const own = await launch();
  t.after(() => own.close());
  const { privateKey } = server.wallets[0];
  const { privateKeyToAccount } = await import("viem/accounts");
  const account = privateKeyToAccount(privateKey);
  const wallet = walletOf(account, { node: server.rpcUrl });
  const { tab } = await tabWith(own, [wallet]);
  await tab.setRequestInterception(true);
  const killed = new Promise((done) => {
    tab.on("request", async (request) => {
      await request.continue();
      // The service has the payment when it dies, or does not: the page cannot know.
      if (pays(request)) setTimeout(() => done(server.kill()), 60);
    });
  });
  await buyPlan(tab, `${server.baseUrl}/`);
  await killed;
  await says(tab, "The answer got lost");
  server = await startDev(folder, "--rpc-url", devnet.rpcUrl, "--addr", new URL(server.baseUrl).host);
  await says(tab, "The eSIM is ready to install.");
  assert.equal(wallet.signatures(), 1);
  assert.equal(await transfers(account.address, server), 1);
});

test("a wallet that refuses, one without money and one elsewhere sign nothing", { timeout }, async () => {
  const [owner, other] = [await ownerAt(13), await ownerAt(14)];
  const wallets = [
    walletOf(owner.account, { name: "Mine", refuses: ["eth_signTypedData_v4", "personal_sign"] }),
    walletOf(owner.account, { name: "Poor", answers: { eth_call: `0x${"0".repeat(64)}` } }),
    walletOf(other.account, { name: "Stubborn", chain: "0x1", refuses: ["wallet_switchEthereumChain"] }),
    walletOf(other.account, { name: "Closed", refuses: ["eth_requestAccounts"] }),
    walletOf(other.account, { name: "Elsewhere", chain: "0x1", known: ["0x1"] }),
  ];
  const began = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, wallets);
  const another = async (name) => {
    await tab.goto("about:blank");
    await tab.goto(`${home}#esims/FR`);
    await push(tab, "Connect wallet");
    await push(tab, name);
  };
  await another("Closed");
  await says(tab, "You declined in the wallet");
  await looked(tab, notes, "wallet-refused");
  await another("Stubborn");
  await says(tab, "You declined in the wallet");
  await another("Poor");
  await push(tab, "Buy France 500 MB");
  await says(tab, "Not enough USDC");
  await looked(tab, notes, "poor");
  await another("Mine");
  await push(tab, "Buy France 500 MB");
  await push(tab, "Pay $");
  await says(tab, "Nothing was signed and nothing was paid.");
  await looked(tab, notes, "payment-refused");
  await push(tab, "Close");
  await go(tab, "#orders");
  await push(tab, "Sign in");
  await says(tab, "You declined in the wallet");
  await looked(tab, notes, "sign-in-refused");
  assert.equal(await transfers(owner.account.address), began);
  // One that does not know the chain is told it, and pays.
  await another("Elsewhere");
  await push(tab, "Buy France 500 MB");
  await push(tab, "Pay $");
  await says(tab, "The eSIM is ready to install.");
  assert.deepEqual(wallets[4].added.rpcUrls, [dev.rpcUrl]);
  assert.deepEqual(wallets.map((wallet) => wallet.signatures()), [1, 0, 0, 0, 1]);
  await tab.close();
});

test("a sale that is paused and a service that is away are told", { timeout }, async (t) => {
  const owner = await ownerAt(15);
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  for (const product of ["esim", "card_issue"]) {
    await pause(product, true);
    t.after(() => pause(product, false));
  }
  const config = async () => (await fetch(`${dev.baseUrl}/api/config`)).json();
  for (let c = await config(); !c.card.issuePaused || !c.esim.purchasePaused; c = await config())
    await new Promise((done) => setTimeout(done, 50));
  await tab.goto(home);
  await says(tab, "Not sold right now");
  await looked(tab, notes, "card-paused");
  await go(tab, "#esims");
  await says(tab, "Not sold right now");
  await looked(tab, notes, "esims-paused");
  for (const product of ["esim", "card_issue"]) await pause(product, false);
  // The page looks again by itself.
  await go(tab, "#card");
  await tab.waitForFunction(() => !document.body.innerText.includes("Not sold right now"), { timeout: 60_000 });

  await tab.setOfflineMode(true);
  await says(tab, "The service does not answer");
  notes.complaints.length = 0;
  await tab.setOfflineMode(false);
  await tab.waitForFunction(() => !document.body.innerText.includes("does not answer"), { timeout: 60_000 });
  await tab.close();
});

test("texts of strangers are text", { timeout }, async () => {
  const owner = await ownerAt(16);
  const bait = `"><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>{{7*7}}`;
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    const json = (status, body) =>
      request.respond({ status, contentType: "application/json", body: JSON.stringify(body) });
    if (/ListEsimPlans/.test(request.url())) {
      const { plans } = await (await fetch(`${dev.baseUrl}/api/esim/plans?countryCode=FR`)).json();
      const name = `${bait}\u202e${"w".repeat(200)}`;
      return json(200, { plans: plans.map((plan) => ({ ...plan, name, fairUse: bait })) });
    }
    if (/PurchaseEsim/.test(request.url())) {
      const debug = { status: 409, code: bait, title: bait, detail: bait, requestId: bait };
      return json(409, { code: "failed_precondition", message: bait, details: [{
        type: "roamcard.v1.Problem", debug, value: Buffer.from(problemOf(bait)).toString("base64").replace(/=+$/, ""),
      }] });
    }
    return request.continue();
  });
  await tab.goto(`${home}#esims/FR`);
  assert.ok((await says(tab, "window.pwned=1")).includes("{{7*7}}"));
  await looked(tab, notes, "hostile-plans");
  await connect(tab);
  await push(tab, "Buy");
  await push(tab, "Pay $");
  await says(tab, "This is not possible");
  await looked(tab, notes, "hostile-problem");
  const hashes = ["#esims/%3Cimg%20src=x%3E", "#orders/%3Cscript%3E", "#esims/%", "#<img src=x onerror=alert(1)>"];
  for (const hash of hashes) {
    await go(tab, hash);
    await new Promise((done) => setTimeout(done, 300));
  }
  assert.equal(await tab.evaluate(() => window.pwned), undefined);
  assert.equal(await tab.evaluate(() => document.querySelectorAll("img[src=x], main script").length), 0);
  await tab.close();
});

/** A Problem with a status, and a text in its other members, as protobuf writes it. */
function problemOf(text) {
  const bytes = Buffer.from(text);
  const member = (number) => [Buffer.from([(number << 3) | 2, bytes.length]), bytes];
  return Buffer.concat([...member(1), ...member(2), Buffer.from([3 << 3, 0x99, 0x03]), ...member(4), ...member(5)]);
}

test("no page of another origin frames it, and orders of others show nothing", { timeout }, async (t) => {
  const thief = createServer((_, response) =>
    response.setHeader("content-type", "text/html").end(`<iframe src="${home}"></iframe>`));
  t.after(() => thief.close());
  await once(thief.listen(0, "127.0.0.1"), "listening");
  const framing = await browser.newPage();
  await framing.goto(`http://127.0.0.1:${thief.address().port}/`, { waitUntil: "networkidle0" });
  assert.equal((await framing.frames()[1].$$("#page")).length, 0);
  await framing.close();

  const [owner, stranger] = [await ownerAt(17), await ownerAt(18)];
  const order = await orderOf(owner);
  const { tab, notes } = await tabWith(browser, [walletOf(stranger.account)]);
  await tab.goto(`${home}#orders/${order.orderId}`);
  await connect(tab);
  await signIn(tab);
  const said = await says(tab, "There is no such order");
  assert.ok(!said.includes(owner.account.address.slice(2, 10)) && !said.includes("$0."), said);
  await looked(tab, notes, "not-yours");
  await tab.close();
});

test("orders are live by one stream, and one is paid from its link", { timeout }, async () => {
  const owner = await ownerAt(17);
  const order = await orderOf(owner);
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  const [open, most] = [new Set(), { streams: 0 }];
  tab.on("request", (request) => {
    if (!/\/WatchOrders?$/.test(request.url())) return;
    open.add(request);
    most.streams = Math.max(most.streams, open.size);
  });
  for (const over of ["requestfinished", "requestfailed"]) tab.on(over, (request) => open.delete(request));
  await tab.goto(`${home}#orders`);
  await says(tab, "Connect the wallet that paid");
  await looked(tab, notes, "gate");
  await connect(tab);
  await signIn(tab);
  await says(tab, "To be paid");
  await looked(tab, notes, "orders-payable");
  const { tab: payer } = await tabWith(browser, [walletOf(owner.account)]);
  await payer.goto(order.payable_url);
  await press(payer, "Test wallet");
  await press(payer, "Pay $");
  await says(payer, "The eSIM is ready to install.");
  await payer.close();
  await tab.bringToFront();
  const line = `a[href="#orders/${order.orderId}"]`;
  const delivered = (at) => document.querySelector(at)?.closest("li")?.innerText.includes("Delivered");
  await tab.waitForFunction(delivered, {}, line);
  assert.equal((await read(owner, order.orderId)).status, "fulfilled");
  assert.ok(most.streams >= 1 && most.streams <= 2, `${most.streams} streams`);
  assert.equal(await tab.$eval(line, (a) => a.closest("li").querySelectorAll("a[href^='/pay/']").length), 0);
  await tab.close();
});

test("a browser that speaks German gets German, and the keyboard buys", { timeout }, async () => {
  const owner = await ownerAt(18);
  const wallet = walletOf(owner.account);
  const { tab, notes } = await tabWith(browser, [wallet], { language: "de-AT" });
  await tab.goto(`${home}#esims/FR`);
  await says(tab, "Frankreich");
  assert.equal(await tab.evaluate(() => document.documentElement.lang), "de");
  await looked(tab, notes, "german");
  await tab.bringToFront();
  const focused = () =>
    tab.evaluate(() => {
      const at = document.activeElement?.closest("a, button");
      return at?.getAttribute("aria-label") ?? at?.innerText ?? "";
    });
  const reach = async (text) => {
    for (let i = 0; i < 40 && !(await focused()).includes(text); i++) await tab.keyboard.press("Tab");
    assert.match(await focused(), new RegExp(text));
    await tab.keyboard.press("Enter");
  };
  await reach("France 500 MB");
  await says(tab, "Prüfen und bezahlen");
  await reach("Wallet verbinden");
  await reach("Test wallet");
  await says(tab, "USDC verfügbar");
  await reach("bezahlen");
  await says(tab, "Die eSIM kann installiert werden.");
  assert.equal(wallet.signatures(), 1);
  await tab.close();
});
