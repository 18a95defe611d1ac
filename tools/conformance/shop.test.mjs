// People buy in the shop and use what they own, in a browser with a wallet: each story ends on chain and in the books.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { dev, launch, ownerAt, tabWith, transfers, walletOf } from "./paying.mjs";
import { connect, fill, go, looked, push, says, scanned, signIn } from "./shopping.mjs";

const timeout = 300_000;
const home = `${dev.baseUrl}/`;
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** What an owner reads of the service, past the page. */
async function api({ session }, path) {
  const answer = await fetch(`${dev.baseUrl}${path}`, { headers: session });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

/** The text of a page with what closed shadow roots hold, as a debugger sees it and no script does. */
async function pierced(tab) {
  const client = await tab.createCDPSession();
  const { root } = await client.send("DOM.getDocument", { depth: -1, pierce: true });
  await client.detach();
  const texts = [];
  const walk = (node) => {
    if (node.nodeType === 3) texts.push(node.nodeValue);
    for (const each of [...(node.children ?? []), ...(node.shadowRoots ?? [])]) walk(each);
  };
  walk(root);
  return texts.join("\n");
}

async function until(what, read) {
  for (let i = 0; i < 240; i++) {
    const found = await read();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 250));
  }
  throw new Error(`${what} does not come`);
}

const number = /\d{4} \d{4} \d{4} \d{4}/;

test("a card is bought, topped up, frozen and shown", { timeout }, async () => {
  const owner = await ownerAt(9);
  const wallet = walletOf(owner.account);
  const [{ address }, began] = [owner.account, await transfers(owner.account.address)];
  const { tab, notes } = await tabWith(browser, [wallet]);
  // The minute after which a number is hidden passes in three seconds.
  await tab.evaluateOnNewDocument(() => {
    const real = window.setTimeout;
    window.setTimeout = (act, ms, ...more) => real(act, ms === 60_000 ? 3_000 : ms, ...more);
  });
  const answer = await tab.goto(home);
  assert.deepEqual([answer.status(), answer.headers()["content-type"]], [200, "text/html; charset=utf-8"]);
  await says(tab, "A virtual card, paid in USDC");
  await looked(tab, notes, "card-offer");
  await push(tab, "Buy a card for $25.00");
  await says(tab, "Issue fee");
  await looked(tab, notes, "card-terms");
  await push(tab, "Connect wallet");
  await says(tab, "Connecting signs nothing");
  await looked(tab, notes, "wallets");
  await push(tab, "Test wallet");
  await says(tab, "USDC available");
  assert.equal(wallet.signatures(), 0);
  await push(tab, "Pay $25.00");
  await says(tab, "Sign in to follow it");
  await looked(tab, notes, "card-paid");
  assert.equal(wallet.asked.includes("personal_sign"), false, "nobody has signed in yet");
  await push(tab, "Sign in to follow it");
  await says(tab, "The card is active.");
  await push(tab, "To your card");
  await says(tab, "$15.00");
  await looked(tab, notes, "card");
  assert.equal(await transfers(address), began + 1);

  await fill(tab, "Amount in US dollars", "10");
  assert.equal(await tab.$eval("form .second", (button) => button.disabled), true);
  await fill(tab, "Amount in US dollars", "50.50");
  await says(tab, "$49.49");
  await push(tab, "Continue");
  await says(tab, "Load fee, 2%");
  await looked(tab, notes, "topup-terms");
  await push(tab, "Pay $50.50");
  await says(tab, "The credit is on the card.");
  await push(tab, "To your card");
  await says(tab, "$64.49");
  assert.equal(await transfers(address), began + 2);
  const [card] = (await api(owner, "/api/cards")).cards;
  assert.equal((await api(owner, `/api/cards/${card.id}/balance`)).availableUsdCents, 6449);

  await push(tab, "Show the number");
  const shown = await until("the number", async () => number.exec(await pierced(tab)));
  assert.ok(shown[0].endsWith(card.last4));
  assert.ok(!(await tab.evaluate(() => document.documentElement.outerHTML)).match(number), "a script reads the number");
  await says(tab, "The number is hidden again.");
  assert.equal(number.test(await pierced(tab)), false);

  await push(tab, "Freeze");
  await says(tab, "Purchases are declined");
  await looked(tab, notes, "frozen");
  assert.equal((await api(owner, "/api/cards")).cards[0].status, "FROZEN");
  await push(tab, "Unfreeze");
  await says(tab, "$64.49");

  await push(tab, "Limits");
  await fill(tab, "Most for one purchase", "12.50");
  await push(tab, "Save");
  await says(tab, "Saved.");
  assert.equal((await api(owner, `/api/cards/${card.id}/limits`)).perTransactionUsdCents, 1250);
  await push(tab, "Transactions");
  await says(tab, "There are none yet.");
  await push(tab, "Billing address");
  await says(tab, "3-D Secure");
  await looked(tab, notes, "card-parts");

  // A person who leaves the page leaves no number behind.
  await push(tab, "Show the number");
  await until("the number", async () => number.exec(await pierced(tab)));
  await tab.evaluate(() => dispatchEvent(new PageTransitionEvent("pagehide")));
  assert.equal(number.test(await pierced(tab)), false);
  assert.equal(wallet.signatures(), 2);
  // Others before this story may have bought eSIMs with the wallet.
  const bought = (await api(owner, "/api/orders")).orders.filter(({ kind }) => kind.startsWith("card"));
  const kinds = bought.map(({ kind, status }) => `${kind} ${status}`);
  assert.deepEqual(kinds, ["card_topup fulfilled", "card_issue fulfilled"]);
  await tab.close();
});

test("a signature that a wallet never gives is given up, and asked for again", { timeout }, async () => {
  const owner = await ownerAt(9);
  const wallet = walletOf(owner.account);
  const never = new Promise(() => undefined);
  const asked = () => wallet.asked.filter((method) => method === "personal_sign").length;
  const { tab, notes } = await tabWith(browser, [wallet]);
  await tab.goto(`${home}#card`);
  await connect(tab);
  wallet.silent = never;
  await push(tab, "Sign in");
  await until("the wallet", async () => asked() === 1);
  await push(tab, "Cancel");
  await says(tab, "Sign in");
  await looked(tab, notes, "sign-in-given-up");
  wallet.silent = undefined;
  await signIn(tab);
  assert.equal(asked(), 2);
  wallet.silent = never;
  await push(tab, "Show the number");
  await until("the wallet", async () => asked() === 3);
  await push(tab, "Cancel");
  await tab.waitForFunction(() => ![...document.querySelectorAll("button")].some((b) => b.innerText === "Cancel"));
  wallet.silent = undefined;
  await push(tab, "Show the number");
  await until("the number", async () => number.exec(await pierced(tab)));
  assert.equal(asked(), 4);
  await tab.close();
});

test("a card that was used shows it, page by page", { timeout }, async () => {
  const owner = await ownerAt(9);
  const [card] = (await api(owner, "/api/cards")).cards;
  const all = Array.from({ length: 25 }, (_, i) => ({
    id: crypto.randomUUID(), at: "2026-11-20T10:00:00Z", kind: i % 5 ? "purchase" : "refund", amountUsdCents: 100 + i,
    status: i % 3 ? "completed" : "declined", merchant: { name: `<b>Shop ${i}</b>` },
    ...(i % 3 ? {} : { declineReason: "limit_exceeded" }),
  }));
  const { tab, notes } = await tabWith(browser, [walletOf(owner.account)]);
  await tab.setRequestInterception(true);
  tab.on("request", (request) => {
    if (!/ListCardTransactions/.test(request.url())) return request.continue();
    const { pageSize = 10, pageToken = "0" } = requested(request);
    const [from, to] = [Number(pageToken), Number(pageToken) + pageSize];
    const more = to < all.length ? { nextPageToken: String(to) } : {};
    return request.respond({
      contentType: "application/json",
      body: JSON.stringify({ cardId: card.id, currency: "USD", transactions: all.slice(from, to), ...more }),
    });
  });
  await tab.goto(home);
  await connect(tab);
  await signIn(tab);
  await push(tab, "Transactions");
  await says(tab, "<b>Shop 9</b>");
  await push(tab, "Show more");
  await says(tab, "<b>Shop 19</b>");
  await push(tab, "Show more");
  assert.ok((await says(tab, "<b>Shop 24</b>")).includes("over your limit"));
  assert.equal(await tab.$$eval("details b", (found) => found.length), 0);
  await looked(tab, notes, "transactions");
  await tab.close();
});

/** The message of a request over Connect: in the body, or in the address of a GET. */
function requested(request) {
  const text = request.postData() ?? new URL(request.url()).searchParams.get("message") ?? "{}";
  return JSON.parse(text);
}

test("an eSIM is found, bought, scanned, topped up and followed; another one is given back", { timeout }, async () => {
  const owner = await ownerAt(10);
  const wallet = walletOf(owner.account);
  const began = await transfers(owner.account.address);
  const { tab, notes } = await tabWith(browser, [wallet]);
  await tab.goto(`${home}#esims`);
  await says(tab, "France");
  await looked(tab, notes, "countries");
  await fill(tab, "Country or plan", "türk");
  await says(tab, "Türkiye");
  await fill(tab, "Country or plan", "Xyzzy");
  await says(tab, "Nothing fits.");
  await fill(tab, "Country or plan", "japan");
  await push(tab, "Japan");
  await says(tab, "per GB");
  await says(tab, "Unlimited");
  await looked(tab, notes, "plans");
  await go(tab, "#esims/regions");
  await fill(tab, "Country or plan", "");
  await says(tab, "Europe 1 GB, 7 days");
  await looked(tab, notes, "regions");
  await go(tab, "#esims/FR");
  await connect(tab);
  await push(tab, "Buy France 500 MB");
  await says(tab, "before it is installed");
  await looked(tab, notes, "esim-terms");
  await push(tab, "Pay $0.50");
  await says(tab, "The eSIM is ready to install.");
  const lpa = await scanned(tab);
  await looked(tab, notes, "esim-code");
  const [order] = (await api(owner, "/api/orders?kind=esim")).orders;
  assert.deepEqual([order.status, order.delivery.planName], ["fulfilled", "France 500 MB, 1 day"]);
  const credentials = await api(owner, `/api/esim/orders/${order.orderId}/credentials`);
  assert.equal(lpa, credentials.lpa, "what a phone scans");
  assert.equal(wallet.asked.includes("personal_sign"), false, "nobody signs in for an eSIM");
  const inner = await pierced(tab);
  for (const text of ["Install on this iPhone", "Install on this Android", credentials.smdpAddress, credentials.iccid])
    assert.ok(inner.includes(text), text);
  assert.equal(await transfers(owner.account.address), began + 1);

  await push(tab, "To your orders");
  await signIn(tab);
  await push(tab, "Travel eSIM");
  await says(tab, "0 B of 500 MB used");
  await push(tab, "Add data");
  await push(tab, "Buy France 1 GB");
  await push(tab, "Pay $");
  await says(tab, "The data is on the eSIM.");
  await push(tab, "To your orders");
  await says(tab, "More eSIM data");
  await looked(tab, notes, "orders");
  assert.equal(await transfers(owner.account.address), began + 2);
  await go(tab, `#orders/${order.orderId}`);
  await says(tab, "1.5 GB used");
  await looked(tab, notes, "esim");
  await push(tab, "Give it back");
  await push(tab, "Yes, give it back");
  await says(tab, "This is not possible");

  // Another one, to which nothing was added, goes back and its price comes back.
  await go(tab, "#esims/FR");
  await push(tab, "Buy France 1 GB");
  await push(tab, "Pay $");
  await says(tab, "The eSIM is ready to install.");
  await push(tab, "To your orders");
  const [second] = (await api(owner, "/api/orders?kind=esim")).orders;
  await go(tab, `#orders/${second.orderId}`);
  await says(tab, "An eSIM that was never installed");
  await push(tab, "Give it back");
  await push(tab, "Yes, give it back");
  const profile = () => api(owner, `/api/esim/orders/${second.orderId}/profile`);
  await until("the refund", async () => (await profile()).cancellation?.status === "refunded");
  await push(tab, "Refresh");
  await says(tab, "Taken back and refunded.");
  await looked(tab, notes, "esim-given-back");
  await tab.close();
});
