// What the chain says of authorizations, asked of a node that the caller trusts.
import { RoamcardError } from "./errors.js";
import type { Entry, SignedAuthorization, Void } from "./journal.js";
import type { Fetch } from "./rest.js";

const authorizationState = "0xe94a0102";
const topics = {
  used: "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5",
  cancelled: "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81",
  transfer: "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
};
const blockTime = 2;
const searchSlack = 1_000;
const logRange = 5_000;

interface Log {
  topics: string[];
  data: string;
  transactionHash: string;
  logIndex: string;
}

/** One JSON-RPC node. */
export class Chain {
  constructor(readonly url: string, readonly asset: string, readonly fetch: Fetch) {}

  /**
   * Which authorizations of a purchase the chain can never take, as of a block that nothing undoes. What cannot be
   * asked is left out.
   */
  async voids(entry: Entry): Promise<Map<number, Void>> {
    const found = new Map<number, Void>();
    for (const [i, authorization] of entry.authorizations.entries()) {
      const reason = authorization.void ? undefined : await this.#void(entry, authorization).catch(() => undefined);
      if (reason) found.set(i, reason);
    }
    return found;
  }

  /** Whether the node says that an account has no code. What it does not answer is left to the service. */
  async lacksCode(account: string): Promise<boolean> {
    return this.#ask<string>("eth_getCode", account, "latest").then((code) => code === "0x", () => false);
  }

  async #void(entry: Entry, { nonce, amount, signedAt, validBefore }: SignedAuthorization): Promise<Void | undefined> {
    const block = await this.#ask<{ number: string; timestamp: string }>("eth_getBlockByNumber", "safe", false);
    const data = authorizationState + word(entry.payer) + word(nonce);
    const used = BigInt(await this.#ask<string>("eth_call", { to: this.asset, data }, block.number)) !== 0n;
    if (!used) return Number(block.timestamp) > validBefore ? "expired" : undefined;
    const head = Number(block.number);
    const age = Math.max(0, Number(block.timestamp) - signedAt);
    for (let from = Math.max(0, head - Math.floor(age / blockTime) - searchSlack); from <= head; from += logRange) {
      const [log] = await this.#ask<Log[]>("eth_getLogs", {
        address: this.asset, topics: [[topics.used, topics.cancelled], `0x${word(entry.payer)}`, nonce],
        fromBlock: hex(from), toBlock: hex(Math.min(from + logRange - 1, head)),
      });
      if (log)
        return log.topics[0] === topics.cancelled ? "cancelled" : this.#elsewhere(log, entry.payer, BigInt(amount));
    }
    return undefined;
  }

  // elsewhere reads the transfer that comes directly after an authorization's use: one of the amount is the payment
  // itself.
  async #elsewhere(used: Log, payer: string, amount: bigint): Promise<Void | undefined> {
    const { logs } = await this.#ask<{ logs: Log[] }>("eth_getTransactionReceipt", used.transactionHash);
    const next = logs.find(
      (l) =>
        Number(l.logIndex) === Number(used.logIndex) + 1 &&
        l.topics[0] === topics.transfer &&
        l.topics[1] === `0x${word(payer)}`,
    );
    return next && BigInt(next.data) !== amount ? "used_elsewhere" : undefined;
  }

  async #ask<T>(method: string, ...params: unknown[]): Promise<T> {
    const response = await this.fetch(this.url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      signal: AbortSignal.timeout(30_000),
    });
    const { result } = (await response.json()) as { result?: T };
    if (result === undefined || result === null) throw new RoamcardError(`the node does not answer ${method}`);
    return result;
  }
}

function word(value: string): string {
  return value.replace(/^0x/, "").toLowerCase().padStart(64, "0");
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}
