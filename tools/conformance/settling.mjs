// What the tests of facilitators share: a chain with a facilitator and a service that settles by it alone, and an
// official x402 client that buys there.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const starter = join(import.meta.dirname, "facilitators/run.sh");
const transferred = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
// x402-rs does not start on a chain without these contracts, which payments by EIP-3009 do not call.
const expected = [
  "0xdAcD51A54883eb67D95FAEb2BBfdC4a9a6BD2a3B", "0x000000000022D473030F116dDEE9F6B43aC78BA3",
  "0x402085c248EeA27D92E8b30b2C58ed07f9E20001",
];
/** What only something that hangs takes in ms, on however busy a machine. */
export const hangsAfter = 300_000;
const hundredEther = "0x56bc75e2d63100000";

/** Why a facilitator cannot be made here; undefined when it can. */
export function missing(name) {
  try {
    execFileSync(starter, [name], { stdio: ["ignore", "pipe", "inherit"] });
    return undefined;
  } catch (error) {
    if (error.status !== 77) throw error;
    return `${name} is left out: ${error.stdout.toString().trim()}`;
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Starts a program that says something once it answers, and waits for that. */
class Program {
  constructor(log, command, args, env = {}) {
    this.log = log;
    const out = openSync(log, "w");
    this.child = spawn(command, args, { stdio: ["ignore", out, out], env: { ...process.env, ...env } });
    closeSync(out);
  }

  async answers(what) {
    for (;;) {
      const answer = await what();
      if (answer !== undefined) return answer;
      assert.equal(this.child.exitCode, null, `it has ended: ${readFileSync(this.log, "utf8").slice(-2000)}`);
      await pause(50);
    }
  }

  ready(file) {
    return this.answers(() => (existsSync(file) ? JSON.parse(readFileSync(file)) : undefined));
  }

  async end() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill();
    await ended;
  }
}

/** A chain with a block every two seconds, a facilitator unless it is the relayer, and a service that settles so. */
export class World {
  static async start(settler) {
    const world = new World();
    try {
      await world.#start(settler);
      return world;
    } catch (error) {
      await world.end();
      throw error;
    }
  }

  dir = mkdtempSync(join(tmpdir(), "roamcard-facilitators-"));
  #programs = [];

  async #start(settler) {
    const file = (name) => join(this.dir, name);
    const run = (name, ...args) => {
      const program = new Program(file(`${name}.log`), ...args);
      this.#programs.push(program);
      return program;
    };
    const binary = process.env.ROAMCARD_BIN;
    const every = ["--blocks-only-every-2s", "--port", "0", "--ready-file", file("chain.json")];
    this.chain = await run("chain", binary, ["devnet", ...every]).ready(file("chain.json"));
    let by = ["--settlement", "relayer"];
    if (settler !== "relayer") {
      const key = generatePrivateKey();
      this.sender = privateKeyToAccount(key).address;
      await this.rpc("anvil_setBalance", [this.sender, hundredEther]);
      for (const address of expected) await this.rpc("anvil_setCode", [address, "0x00"]);
      const port = await freePort();
      this.facilitator = `http://127.0.0.1:${port}`;
      const program = run("facilitator", starter, [settler], {
        FACILITATOR_PORT: port, FACILITATOR_KEY: key, FACILITATOR_RPC: this.chain.rpcUrl,
        FACILITATOR_CHAIN: this.chain.chainId,
      });
      await program.answers(async () => {
        const answer = await fetch(`${this.facilitator}/supported`).catch(() => undefined);
        return answer?.ok ? answer.json() : undefined;
      });
      by = ["--settlement", "facilitator", "--facilitator-url", this.facilitator];
      if (settler === "unverified") by.push("--set", "facilitator.verify=false");
    }
    const service = ["--addr", "127.0.0.1:0", "--data", file("data"), "--ready-file", file("ready.json")];
    const server = run("service", binary, ["dev", ...service, "--rpc-url", this.chain.rpcUrl, ...by]);
    this.dev = await server.ready(file("ready.json"));
  }

  /** Ends the programs, the service first. */
  async end() {
    for (const program of this.#programs.reverse()) await program.end();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async rpc(method, params = []) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const headers = { "content-type": "application/json" };
    const { result, error } = await (await fetch(this.chain.rpcUrl, { method: "POST", headers, body })).json();
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  /** The transfers to the service. */
  transfers() {
    const to = `0x${this.dev.payTo.slice(2).toLowerCase().padStart(64, "0")}`;
    return this.rpc("eth_getLogs", [{ fromBlock: "0x0", address: this.dev.usdc, topics: [transferred, null, to] }]);
  }

  /** What the payments cost in gas, and what else the facilitator has sent: reverted transactions and their gas. */
  async spent() {
    const transfers = await this.transfers();
    const receipts = (hashes) => Promise.all(hashes.map((hash) => this.rpc("eth_getTransactionReceipt", [hash])));
    const gas = (of) => of.reduce((sum, { gasUsed }) => sum + Number(gasUsed), 0);
    const paid = await receipts([...new Set(transfers.map(({ transactionHash }) => transactionHash))]);
    const reverted = (await receipts(await this.#sent())).filter(({ status }) => status !== "0x1");
    return {
      payments: transfers.length, transactions: paid.length, gas: gas(paid), reverted: reverted.length,
      wasted: gas(reverted),
    };
  }

  /** The hashes of what the facilitator has sent. */
  async #sent() {
    if (!this.sender) return [];
    const hashes = [];
    for (let at = Number(await this.rpc("eth_blockNumber")); at > 0; at--) {
      const { transactions } = await this.rpc("eth_getBlockByNumber", [`0x${at.toString(16)}`, true]);
      for (const { from, hash } of transactions) if (from === this.sender.toLowerCase()) hashes.push(hash);
    }
    return hashes;
  }

  async post(path, body, headers = {}) {
    const answer = await fetch(`${this.dev.baseUrl}${path}`, {
      method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  }

  /** Asks the facilitator itself to settle a payment: its HTTP status, and whether it says that it has settled. */
  async settles(payment) {
    const answer = await fetch(`${this.facilitator}/settle`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ x402Version: 2, paymentPayload: payment, paymentRequirements: payment.accepted }),
    });
    const text = await answer.text();
    let said;
    try {
      said = JSON.parse(text).success;
    } catch {
      // Some answer with a plain text.
    }
    return { status: answer.status, success: said };
  }

  /** A wallet of the development chain, or one without money. */
  buyer(index) {
    return new Buyer(this, this.dev.wallets[index]?.privateKey ?? generatePrivateKey());
  }
}

let purchases = 0;

/** An official x402 client with a wallet. */
class Buyer {
  constructor(world, key) {
    this.world = world;
    this.account = privateKeyToAccount(key);
    // Without these controls it pays a dollar at most.
    const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
    client.register("eip155:*", new ExactEvmScheme(this.account));
    this.http = new x402HTTPClient(client);
  }

  /** Asks for a product, and signs what it costs. */
  async signed(path, more = {}) {
    const body = { idempotencyKey: `facilitators-${purchases++}`, ...more };
    const asked = await this.world.post(path, body);
    assert.equal(asked.status, 402, JSON.stringify(asked.body));
    const terms = this.http.getPaymentRequiredResponse((name) => asked.headers.get(name), asked.body);
    return { path, body, payment: await this.http.createPaymentPayload(terms) };
  }

  /** Sends the request with its payment, once. */
  pays({ path, body, payment }) {
    return this.world.post(path, body, this.http.encodePaymentSignatureHeader(payment));
  }

  /** Buys, and returns the order and the milliseconds from the paid request to it. */
  async buys(path, more) {
    const asked = await this.signed(path, more);
    const begin = performance.now();
    for (let repeats = 0; ; repeats++) {
      const { status, headers, body } = await this.pays(asked);
      if (status === 200) {
        const { success } = this.http.getPaymentSettleResponse((name) => headers.get(name));
        assert.ok(success, "it is settled");
        return { ms: performance.now() - begin, order: body, asked, repeats };
      }
      // What is unclear is asked again with the same bytes.
      assert.ok(status >= 500, `${status} ${JSON.stringify(body)}`);
      await pause(1000 * Number(headers.get("retry-after") ?? 1));
    }
  }

  /** Signs what was asked for with other values. */
  async resigned(asked, changes) {
    const { accepted, payload } = asked.payment;
    const authorization = { ...payload.authorization, ...changes };
    const signature = await this.account.signTypedData({
      domain: {
        name: accepted.extra.name, version: accepted.extra.version, chainId: this.world.chain.chainId,
        verifyingContract: accepted.asset,
      },
      types: {
        TransferWithAuthorization: [
          { name: "from", type: "address" }, { name: "to", type: "address" }, { name: "value", type: "uint256" },
          { name: "validAfter", type: "uint256" }, { name: "validBefore", type: "uint256" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      primaryType: "TransferWithAuthorization", message: authorization,
    });
    return { ...asked, payment: { ...asked.payment, payload: { authorization, signature } } };
  }
}
