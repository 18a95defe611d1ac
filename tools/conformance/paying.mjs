// What the tests of pages share: orders to pay, and a browser with a wallet that signs with a development key.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { privateKeyToAccount } from "viem/accounts";
import chromium from "./chromium.mjs";

export const dev = JSON.parse(await readFile(process.env.ROAMCARD_READY, "utf8"));
const shots = process.env.ROAMCARD_SHOTS ?? join(import.meta.dirname, "../../bin/pages");
/** What only something that hangs takes in ms, on however busy a machine. */
export const hangsAfter = 300_000;
const chain = `0x${dev.chainId.toString(16)}`;

// This build of the browser is run without the rules for other origins, unless a test is about them.
const lawless = ["--disable-web-security", "--disable-site-isolation-trials", "--allow-running-insecure-content"];

export function launch({ strict = false, without = [], more = [] } = {}) {
  const left = [...(strict ? lawless : []), ...without];
  const args = [...chromium.args.filter((each) => !left.includes(each)), ...more];
  return chromium.executablePath().then((executablePath) =>
    puppeteer.launch({ executablePath, args, headless: "shell", protocolTimeout: 2 * hangsAfter }));
}

/** Asks a node of the development chain. */
export async function rpc(method, params, node = dev.rpcUrl) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await fetch(node, { method: "POST", headers: { "content-type": "application/json" }, body });
  const { result, error } = await answer.json();
  if (error) throw new Error(error.message);
  return result;
}

const topicOf = (address) => `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
const transferred = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** How many transfers an account has made to the service, or to another development server. */
export async function transfers(address, to = dev) {
  const topics = [transferred, topicOf(address), topicOf(to.payTo)];
  return (await rpc("eth_getLogs", [{ fromBlock: "0x0", address: to.usdc, topics }], to.rpcUrl)).length;
}

async function api(path, body, headers = {}) {
  const method = body === undefined ? "GET" : "POST";
  const answer = await fetch(`${dev.baseUrl}${path}`, {
    method, headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Opens or closes the sale of a product, as an operator. */
export function pause(product, paused) {
  const headers = { authorization: `Bearer ${dev.operatorToken}`, "idempotency-key": crypto.randomUUID() };
  return api(`/api/admin/switches/${product}`, { paused, reason: "the test of the pay page" }, headers);
}

/** A development wallet with money, and its session. */
export async function ownerAt(index) {
  const { privateKey } = dev.wallets[index];
  const account = privateKeyToAccount(privateKey);
  const { intentId, message } = await api("/api/auth/challenge", { address: account.address });
  const signature = await account.signMessage({ message });
  const { accessToken } = await api("/api/auth/verify", { address: account.address, intentId, message, signature });
  return { account, session: { authorization: `Bearer ${accessToken}` } };
}

let orders = 0;

/** An unpaid order of an owner, for an eSIM. */
export function orderOf({ session }) {
  return api("/api/esim/orders", {}, { ...session, "idempotency-key": `pay-page-${process.pid}-${orders++}` });
}

/** The order as its owner reads it. */
export function read({ session }, orderId) {
  return api(`/api/orders/${orderId}`, undefined, session);
}

/** What a wallet does; tests change it. `asked` is every call that it got. */
export function walletOf(account, changes = {}) {
  return {
    account, name: "Test wallet", asked: [], chain, known: [chain], refuses: [], hold: undefined, node: dev.rpcUrl,
    ...changes,
    signatures() {
      return this.asked.filter((method) => method === "eth_signTypedData_v4").length;
    },
    async request(method, params = []) {
      this.asked.push(method);
      if (this.refuses.includes(method)) return { code: 4001, message: "User rejected the request." };
      switch (method) {
        case "eth_requestAccounts":
          await this.opens;
        // falls through
        case "eth_accounts":
          return { result: this.locked ? [] : [this.account.address] };
        case "eth_chainId":
          return { result: this.chain };
        case "wallet_switchEthereumChain":
          if (!this.known.includes(params[0].chainId)) return { code: 4902, message: "Unrecognized chain ID" };
          this.chain = params[0].chainId;
          return { result: null };
        case "wallet_addEthereumChain":
          this.added = params[0];
          this.known.push(params[0].chainId);
          return { result: null };
        case "eth_signTypedData_v4": {
          await this.hold;
          const { domain, types, primaryType, message } = JSON.parse(params[1]);
          if (Number(domain.chainId) !== Number(this.chain)) return { code: -32603, message: "wrong chain" };
          return { result: await this.account.signTypedData({ domain, types, primaryType, message }) };
        }
        case "personal_sign":
          await this.silent;
          return { result: await this.account.signMessage({ message: { raw: params[0] } }) };
        default:
          return { result: this.answers?.[method] ?? (await rpc(method, params, this.node)) };
      }
    },
  };
}

/** A tab that has a wallet, or several, and notes what a page must not do. */
export async function tabWith(browser, wallets, { language = "en-US" } = {}) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(hangsAfter);
  const notes = { asked: [], complaints: [] };
  tab.on("request", (request) => notes.asked.push(request.url()));
  tab.on("pageerror", (error) => notes.complaints.push(String(error)));
  tab.on("console", (message) => {
    // The page itself is an answer of 402, which the console calls an error.
    if (message.type() === "error" && !/status of (402|404|409|503)/.test(message.text()))
      notes.complaints.push(message.text());
  });
  await tab.setViewport({ width: 900, height: 900 });
  await tab.exposeFunction("__ask", (index, method, params) => wallets[index].request(method, params));
  await tab.evaluateOnNewDocument(
    (names, spoken) => {
      Object.defineProperty(navigator, "language", { get: () => spoken });
      addEventListener("securitypolicyviolation", (event) => {
        console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
      const icon = "data:image/svg+xml;base64," +
        btoa('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">' +
          '<circle cx="4" cy="4" r="4" fill="#e08a2c"/></svg>');
      const announce = () =>
        names.forEach((name, index) => {
          const listeners = {};
          const provider = {
            async request({ method, params }) {
              const { result, code, message } = await window.__ask(index, method, params);
              if (code !== undefined) throw Object.assign(new Error(message), { code });
              return result;
            },
            on: (event, listener) => void (listeners[event] ??= []).push(listener),
            removeListener: () => undefined,
          };
          window.__emit = (event, value) => listeners[event]?.forEach((listener) => listener(value));
          const detail = Object.freeze({ info: { uuid: `test-${index}`, name, icon, rdns: "test.wallet" }, provider });
          dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
        });
      addEventListener("eip6963:requestProvider", announce);
    },
    wallets.map((wallet) => wallet.name),
    language,
  );
  return { tab, notes };
}

/** Waits until the page says something, and returns its text. */
export async function says(tab, text) {
  const holds = (wanted) => document.body.innerText.includes(wanted);
  await tab.waitForFunction(holds, { timeout: hangsAfter }, text).catch(async (error) => {
    throw new Error(`the page does not say "${text}" but: ${await tab.evaluate(() => document.body.innerText)}`, {
      cause: error,
    });
  });
  return tab.evaluate(() => document.body.innerText);
}

/** Presses the button with a text. */
export async function press(tab, text) {
  const find = (wanted) =>
    [...document.querySelectorAll("button")].find((each) => each.innerText.includes(wanted) && !each.disabled);
  const handle = await tab.waitForFunction(find, { timeout: hangsAfter }, text);
  await handle.asElement().click();
}

/** Keeps a picture of a tab; with QUICK only when it is said where. */
export async function shot(tab, name) {
  if (process.env.QUICK && !process.env.ROAMCARD_SHOTS) return;
  await mkdir(shots, { recursive: true });
  await tab.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
}

/** Keeps a file next to the pictures. */
export async function keep(name, content) {
  await mkdir(shots, { recursive: true });
  await writeFile(join(shots, name), content);
}
