// The client in a browser: its journal is in IndexedDB, outlives the page, and is shared by the tabs. The browser is the one of
// tools/conformance, where that is installed.
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

const root = join(import.meta.dirname, "..");
const conformance = join(root, "../../tools/conformance/package.json");
const missing = !existsSync(join(conformance, "../node_modules/puppeteer-core")) || `${process.platform} ${process.arch}` !== "linux x64";

/** The import map of the packages that the client needs in a browser, as their exports say. */
async function importMap() {
  const imports = { roamcard: "/dist/index.js", "roamcard/browser": "/dist/browser/index.js" };
  for (const name of ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web"]) {
    const { exports } = JSON.parse(await readFile(join(root, "node_modules", name, "package.json"), "utf8"));
    for (const [path, { import: file }] of Object.entries(exports)) {
      if (file) imports[join(name, path)] = `/${join("node_modules", name, file.default ?? file)}`;
    }
  }
  return { imports };
}

const page = (map) => `<!doctype html><script type="importmap">${JSON.stringify(map)}</script><script type="module">
import { AmbiguousPaymentError, eip1193Signer, Roamcard } from "roamcard";
import { IndexedDbStore } from "roamcard/browser";
window.buy = async (options, what, idempotencyKey) => {
  const signer = await eip1193Signer({ request: ({ method, params }) => window.wallet(method, params ?? []) });
  const policy = { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "100" };
  const client = new Roamcard({ ...options, signer, policy, store: new IndexedDbStore() });
  try {
    const { orderId, replayed } = await client[what].purchase({ idempotencyKey });
    return { orderId, replayed, pending: await client.pending() };
  } catch (error) {
    if (!(error instanceof AmbiguousPaymentError)) throw error;
    return { ambiguous: error.idempotencyKey, pending: (await client.pending()).map((p) => p.key) };
  }
};
window.ready = true;
</script>`;

/** Serves the page and the modules, as a site would. */
async function site(t) {
  const html = page(await importMap());
  const server = createServer(async (request, response) => {
    if (request.url === "/") return response.writeHead(200, { "content-type": "text/html" }).end(html);
    const text = /^\/(dist|node_modules)\/[^?]*\.js$/.test(request.url) && extname(request.url) === ".js" && (await readFile(join(root, request.url)).catch(() => undefined));
    return text ? response.writeHead(200, { "content-type": "text/javascript" }).end(text) : response.writeHead(404).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => (server.close(), server.closeAllConnections()));
  return `http://127.0.0.1:${server.address().port}/`;
}

async function launch(t) {
  const require = createRequire(conformance);
  const [{ default: chromium }, { default: puppeteer }] = await Promise.all(["@sparticuz/chromium", "puppeteer-core"].map((name) => import(require.resolve(name))));
  const browser = await puppeteer.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: "shell" });
  t.after(() => browser.close());
  return browser;
}

test("a browser keeps its payments in IndexedDB, over a reload and for all its tabs", { timeout: 120_000, skip: missing && "tools/conformance is not installed" }, (t) =>
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
    const buy = (tab, what, key, more = {}) => tab.evaluate((...args) => window.buy(...args), { ...options, ...more }, what, key);

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
  }));
