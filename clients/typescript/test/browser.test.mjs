// The client in a browser: its journal is in IndexedDB, outlives the page, and is shared by the tabs. The browser is
// the one of tools/conformance, where that is installed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hangsAfter, newKey } from "./support/api.mjs";
import { assertSameBytes, behindProxy } from "./support/behind.mjs";
import { launch, missing, placeOf, readable, site } from "./support/browser.mjs";
import { buyer, chain, dev, explained } from "./support/shared.mjs";

/** A card number in fours, as presenters show it. */
const cardNumber = /\d{4} \d{4} \d{4} \d{4}/;

test(
  "a browser keeps its payments in IndexedDB, over a reload and for all its tabs",
  { timeout: 600_000, skip: missing && "tools/conformance is not installed" },
  (t) =>
    explained(t.name, async () => {
      const account = buyer();
      const { proxy, signatures } = await behindProxy(t, account);
      const [url, browser] = [await site(t), await launch(t)];
      const wallet = (method, params) => {
        if (method === "eth_requestAccounts") return [account.address];
        assert.equal(method, "eth_signTypedData_v4");
        signatures.push(JSON.parse(params[1]));
        return account.signTypedData(signatures.at(-1));
      };
      const open = async () => {
        const tab = await browser.newPage();
        tab.setDefaultTimeout(hangsAfter);
        await tab.exposeFunction("wallet", wallet);
        await tab.goto(url);
        await tab.waitForFunction("window.ready");
        return tab;
      };
      const options = { baseUrl: proxy.baseUrl, origin: dev.baseUrl };
      const buy = (tab, what, key, more = {}) =>
        tab.evaluate((...args) => window.buy(...args), { ...options, ...more }, what, key);

      const tab = await open();
      const key = newKey();
      proxy.inject({ on: "paid", cut: 0 });
      assert.deepEqual(await buy(tab, "cards", key, { maxReplays: 0 }), { ambiguous: key, pending: [key] });
      await tab.reload();
      await tab.waitForFunction("window.ready");
      const resumed = await buy(tab, "cards", key);
      assert.deepEqual([resumed.replayed, resumed.pending], [true, []]);
      assertSameBytes(proxy, signatures, 2);

      const tabs = [tab, await open()];
      const shared = newKey();
      const bought = await Promise.all(tabs.map((each) => buy(each, "esim", shared)));
      assert.equal(bought[0].orderId, bought[1].orderId);
      assert.equal(signatures.length, 2);
      assert.equal((await chain.transfers(account.address)).length, 2);
    }),
);

/**
 * All text of a page, with what stands in closed shadow roots: what a person sees, and the page's own code does not.
 */
async function visibleText(tab) {
  const session = await tab.createCDPSession();
  const { root: document } = await session.send("DOM.getDocument", { depth: -1, pierce: true });
  await session.detach();
  const texts = [];
  const walk = (node) => {
    if (node.nodeName === "#text") texts.push(node.nodeValue);
    for (const child of [...(node.children ?? []), ...(node.shadowRoots ?? [])]) walk(child);
  };
  walk(document);
  return texts.join("\n");
}

test(
  "a card and an eSIM are shown in a page, to the person and not to the page, and are gone afterwards",
  { timeout: 600_000, skip: missing && "tools/conformance is not installed" },
  (t) =>
    explained(t.name, async () => {
      const account = buyer();
      const [url, browser] = [await site(t), await launch(t)];
      const tab = await browser.newPage();
      tab.setDefaultTimeout(hangsAfter);
      const wallet = (method, params) => {
        if (method === "eth_requestAccounts") return [account.address];
        if (method === "personal_sign") return account.signMessage({ message: { raw: params[0] } });
        return account.signTypedData(JSON.parse(params[1]));
      };
      await tab.exposeFunction("wallet", wallet);
      await tab.goto(url);
      await tab.waitForFunction("window.ready");
      const options = { baseUrl: dev.baseUrl };
      const show = (what, more) =>
        tab.evaluate((...args) => void (window.shown = window.show(...args)), options, what, more);
      const placed = () => tab.waitForFunction(() => document.querySelector("#place").childElementCount === 1);
      const over = () =>
        tab.evaluate(async () => [await window.shown, document.querySelector("#place").childElementCount]);

    for (const [what, secret] of [["cards", cardNumber], ["esim", /SM-DP\+ address\n\S+\.\S+/]]) {
      await show(what);
      await placed();
      assert.match(await visibleText(tab), secret);
      assert.doesNotMatch(await tab.evaluate(readable), secret);
      // The person hides it; the button is at the end of what is shown.
      await tab.evaluate(() => document.querySelector("#place").firstElementChild.scrollIntoView(false));
      const hide = await placeOf(tab, "BUTTON");
      await tab.mouse.click(hide.x, hide.y);
      assert.deepEqual(await over(), [{ presented: true }, 0]);
      assert.doesNotMatch(await visibleText(tab), secret);
    }
    await show("cards", { timeoutMs: 1_000 });
    assert.deepEqual(await over(), [{ presented: true }, 0], "it goes by itself");
    await tab.evaluate(() => document.querySelector("#place").replaceWith(document.createElement("p")));
    const nowhere = await tab.evaluate(async (given) => {
      const place = document.createElement("div");
      place.id = "place";
      document.querySelector = () => place;
      return [await window.show(given, "cards"), place.childElementCount];
    }, options);
    assert.deepEqual(nowhere, [{ presented: false, reason: "closed" }, 0]);
  }));
