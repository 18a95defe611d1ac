// Wallets of a browser: found, brought to the chain, and asked. The window is an event target of the test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { discoverWallets, ensureChain, tokenBalance, walletCode } from "../dist/browser/wallets.js";

const base = { id: 8453, name: "Base", rpcUrl: "https://node.example", explorerUrl: "https://explorer.example" };

/** A wallet on a chain that knows some chains; what it was asked is in `asked`. */
function walletOn(chainId, known, refusal) {
  const asked = [];
  const fail = (code, more) => Promise.reject(Object.assign(new Error("no"), { code, ...more }));
  const request = async ({ method, params }) => {
    asked.push(method);
    if (method === "eth_chainId") return `0x${chainId.toString(16)}`;
    const [{ chainId: wanted }] = params;
    if (refusal === method) return fail(4001);
    if (method === "wallet_addEthereumChain") return void known.push(wanted);
    // As MetaMask on phones wraps it.
    if (!known.includes(wanted)) return fail(-32603, { data: { originalError: { code: 4902 } } });
    chainId = Number(wanted);
    return null;
  };
  return { request, asked };
}

test("a wallet is brought to the chain, and told it when it does not know it", async () => {
  const there = walletOn(8453, []);
  await ensureChain(there, base);
  assert.deepEqual(there.asked, ["eth_chainId"]);
  const knows = walletOn(1, ["0x2105"]);
  await ensureChain(knows, base);
  assert.deepEqual(knows.asked, ["eth_chainId", "wallet_switchEthereumChain", "eth_chainId"]);
  const told = walletOn(1, []);
  await ensureChain(told, base);
  assert.ok(told.asked.includes("wallet_addEthereumChain"));
  const { rpcUrl: _, ...unnamed } = base;
  await assert.rejects(ensureChain(walletOn(1, []), unnamed), (error) => walletCode(error) === 4902);
  const refuses = ensureChain(walletOn(1, ["0x2105"], "wallet_switchEthereumChain"), base);
  await assert.rejects(refuses, (error) => walletCode(error) === 4001);
  const stays = { request: async ({ method }) => (method === "eth_chainId" ? "0x1" : null) };
  await assert.rejects(ensureChain(stays, base), /stays on another chain/);
});

test("a balance is read through the wallet, and an answer that is none is refused", async () => {
  const calls = [];
  const answering = (answer) => ({ request: async (call) => (calls.push(call), answer) });
  const account = "0xAbCd567890abcdef1234567890abcdef12345678";
  assert.equal(await tokenBalance(answering("0x0f4240"), "0xToken", account), 1_000_000n);
  const [{ method, params }] = calls;
  assert.equal(method, "eth_call");
  assert.equal(params[0].data, `0x70a08231${"0".repeat(24)}abcd567890abcdef1234567890abcdef12345678`);
  for (const wrong of ["0x", "", null, "1000", `0x${"f".repeat(65)}`])
    await assert.rejects(tokenBalance(answering(wrong), "0xToken", account), TypeError);
});

test("a refusal is found where wallets and libraries put it", () => {
  assert.equal(walletCode({ code: 4001 }), 4001);
  assert.equal(walletCode(new Error("not signed", { cause: { code: 4001 } })), 4001);
  assert.equal(walletCode(new Error("a", { cause: new Error("b", { cause: { code: -32000 } }) })), -32000);
  for (const none of [undefined, null, "4001", new Error("x"), { code: "4001" }])
    assert.equal(walletCode(none), undefined);
});

test("wallets announce themselves, each once, and one that does not is found all the same", async (t) => {
  const page = new EventTarget();
  const globals = { addEventListener: page.addEventListener, removeEventListener: page.removeEventListener };
  for (const [name, method] of Object.entries({ ...globals, dispatchEvent: page.dispatchEvent })) {
    const before = globalThis[name];
    globalThis[name] = method.bind(page);
    t.after(() => (globalThis[name] = before));
  }
  globalThis.CustomEvent ??= class extends Event {};
  const provider = { request: async () => null };
  const announce = (detail) => page.dispatchEvent(Object.assign(new Event("eip6963:announceProvider"), { detail }));
  page.addEventListener("eip6963:requestProvider", () => {
    announce({ info: { uuid: "1", name: "One", icon: "data:image/png;base64,AA==" }, provider });
    announce({ info: { uuid: "1", name: "One again" }, provider });
    announce({ info: { uuid: "2", name: "T".repeat(100), icon: "https://evil.example/track.png" }, provider });
    announce({ info: { uuid: "3", name: "No provider" } });
    announce(undefined);
  });
  let found = [];
  const stop = discoverWallets((wallets) => (found = wallets));
  assert.deepEqual(found.map(({ id, name, icon }) => [id, name.length, icon]), [
    ["1", 3, "data:image/png;base64,AA=="], ["2", 60, undefined],
  ]);
  stop();
  announce({ info: { uuid: "4", name: "Late" }, provider });
  assert.equal(found.length, 2);

  const silent = new EventTarget();
  globalThis.addEventListener = silent.addEventListener.bind(silent);
  globalThis.dispatchEvent = silent.dispatchEvent.bind(silent);
  globalThis.ethereum = provider;
  t.after(() => delete globalThis.ethereum);
  let end;
  const [only] = await new Promise((done) => (end = discoverWallets(done)));
  globalThis.removeEventListener = silent.removeEventListener.bind(silent);
  end();
  assert.equal(only.provider, provider);
});
