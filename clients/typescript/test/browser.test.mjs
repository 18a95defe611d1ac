// The client in a browser: its journal is in IndexedDB, outlives the page, and is shared by the tabs. The browser is
// the one of tools/conformance, where that is installed.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";
import { extname, join } from "node:path";
import { test } from "node:test";
import { newKey } from "./support/api.mjs";
import { assertSameBytes, behindProxy } from "./support/behind.mjs";
import { buyer, chain, dev, explained } from "./support/shared.mjs";

/** A card number in fours, as presenters show it. */
const cardNumber = /\d{4} \d{4} \d{4} \d{4}/;

const root = join(import.meta.dirname, "..");
const conformance = join(root, "../../tools/conformance/package.json");
const missing =
  !existsSync(join(conformance, "../node_modules/puppeteer-core")) ||
  `${process.platform} ${process.arch}` !== "linux x64";

/** The import map of the packages that the client needs in a browser, as their exports say. */
async function importMap() {
  const imports = { roamcard: "/dist/index.js", "roamcard/browser": "/dist/browser/index.js" };
  for (const name of [
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@connectrpc/connect-web",
    "@hpke/core",
    "@hpke/common",
  ]) {
    const { exports } = JSON.parse(await readFile(join(root, "node_modules", name, "package.json"), "utf8"));
    for (const [path, { import: file }] of Object.entries(exports)) {
      if (file) imports[join(name, path)] = `/${join("node_modules", name, file.default ?? file)}`;
    }
  }
  return { imports };
}

const page = (map) => `<!doctype html><div id="place"></div>
<script type="importmap">${JSON.stringify(map)}</script><script type="module">
import { AmbiguousPaymentError, eip1193Signer, Roamcard } from "roamcard";
import { elementPresenter, IndexedDbStore } from "roamcard/browser";
const clientOf = async (options) => {
  const signer = await eip1193Signer({ request: ({ method, params }) => window.wallet(method, params ?? []) });
  const policy = { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "100" };
  return new Roamcard({ ...options, signer, policy, store: new IndexedDbStore() });
};
window.buy = async (options, what, idempotencyKey) => {
  const client = await clientOf(options);
  try {
    const { orderId, replayed } = await client[what].purchase({ idempotencyKey });
    return { orderId, replayed, pending: await client.pending() };
  } catch (error) {
    if (!(error instanceof AmbiguousPaymentError)) throw error;
    return { ambiguous: error.idempotencyKey, pending: (await client.pending()).map((p) => p.key) };
  }
};
/** Buys and shows; what the page's code learns of it. */
window.show = async (options, what, more) => {
  const client = await clientOf(options);
  const order = await client[what].purchase({ idempotencyKey: "shown-" + what });
  const present = elementPresenter(document.querySelector("#place"), more);
  if (what === "esim") return client.esim.install(order, { present });
  const card = await order.waitUntilActive();
  return client.cards.reveal(card.id, { present });
};
window.ready = true;
</script>`;

// A page as strict as wallets have them: no inline style, no image of its own. Its scripts are inline, which is the
// test's.
const policy = "default-src 'none'; script-src 'self' 'unsafe-inline'; connect-src *";

/** Serves the page and the modules, as a site would. */
async function site(t) {
  const html = page(await importMap());
  const server = createServer(async (request, response) => {
    if (request.url === "/")
      return response.writeHead(200, { "content-type": "text/html", "content-security-policy": policy }).end(html);
    const text =
      /^\/(dist|node_modules)\/[^?]*\.js$/.test(request.url) &&
      extname(request.url) === ".js" &&
      (await readFile(join(root, request.url)).catch(() => undefined));
    return text
      ? response.writeHead(200, { "content-type": "text/javascript" }).end(text)
      : response.writeHead(404).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => (server.close(), server.closeAllConnections()));
  return `http://127.0.0.1:${server.address().port}/`;
}

async function launch(t) {
  const require = createRequire(conformance);
  const [{ default: chromium }, { default: puppeteer }] = await Promise.all(
    ["@sparticuz/chromium", "puppeteer-core"].map((name) => import(require.resolve(name))),
  );
  const browser = await puppeteer.launch({
    executablePath: await chromium.executablePath(),
    args: chromium.args,
    headless: "shell",
  });
  t.after(() => browser.close());
  return browser;
}

test(
  "a browser keeps its payments in IndexedDB, over a reload and for all its tabs",
  { timeout: 120_000, skip: missing && "tools/conformance is not installed" },
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

/** What code of the page gets by the document. */
const readable = () => {
  const place = document.querySelector("#place");
  const hosts = [...place.querySelectorAll("*")];
  const shadows = hosts.map((host) => host.shadowRoot?.firstElementChild?.innerText);
  return [place.innerHTML, place.innerText, document.body.textContent, ...shadows].join("\n");
};

test(
  "a card and an eSIM are shown in a page, to the person and not to the page, and are gone afterwards",
  { timeout: 120_000, skip: missing && "tools/conformance is not installed" },
  (t) =>
    explained(t.name, async () => {
      const account = buyer();
      const [url, browser] = [await site(t), await launch(t)];
      const tab = await browser.newPage();
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
      const hide = await buttonOf(tab);
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

/** Where the button stands that hides what is shown. */
async function buttonOf(tab) {
  const session = await tab.createCDPSession();
  const { root: document } = await session.send("DOM.getDocument", { depth: -1, pierce: true });
  const find = (node) =>
    node.nodeName === "BUTTON" ? node : [...(node.children ?? []), ...(node.shadowRoots ?? [])].map(find).find(Boolean);
  const { model } = await session.send("DOM.getBoxModel", { nodeId: find(document).nodeId });
  await session.detach();
  const [left, top, , , right, bottom] = model.content;
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}
