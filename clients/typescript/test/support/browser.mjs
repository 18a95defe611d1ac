// A page that buys and shows, in the browser of tools/conformance, where that is installed.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";
import { extname, join } from "node:path";
import { hangsAfter } from "./api.mjs";

const root = join(import.meta.dirname, "../..");
const conformance = join(root, "../../tools/conformance");
/** Whether there is no such browser. */
export const missing =
  !existsSync(join(conformance, "node_modules/puppeteer-core")) ||
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
export async function site(t) {
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

/** Starts the browser. */
export async function launch(t) {
  const [{ default: chromium }, { default: puppeteer }] = await Promise.all([
    import(join(conformance, "chromium.mjs")),
    import(createRequire(join(conformance, "package.json")).resolve("puppeteer-core")),
  ]);
  const browser = await puppeteer.launch({
    executablePath: await chromium.executablePath(),
    args: chromium.args,
    headless: "shell",
    protocolTimeout: 2 * hangsAfter,
  });
  t.after(() => browser.close());
  return browser;
}

/** What code of the page gets by the document. */
export const readable = () => {
  const place = document.querySelector("#place");
  const hosts = [...place.querySelectorAll("*")];
  const shadows = hosts.map((host) => host.shadowRoot?.firstElementChild?.innerText);
  return [place.innerHTML, place.innerText, document.body.textContent, ...shadows].join("\n");
};

/** Where the first element of a kind stands, also in a closed shadow root: a person can press it there. */
export async function placeOf(tab, kind) {
  const session = await tab.createCDPSession();
  const { root: document } = await session.send("DOM.getDocument", { depth: -1, pierce: true });
  const find = (node) =>
    node.nodeName === kind ? node : [...(node.children ?? []), ...(node.shadowRoots ?? [])].map(find).find(Boolean);
  const { model } = await session.send("DOM.getBoxModel", { nodeId: find(document).nodeId });
  await session.detach();
  const [left, top, , , right, bottom] = model.content;
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}
