// The fake's USDC.
import { createHash } from "node:crypto";
import type { TypedData } from "../signers.js";
import { authorizationTypedData, type Authorization, decodePayment, type Offer, sameAddress, usdc } from "../x402.js";

/** One payment that the token moved. Amounts are in USDC's smallest unit. */
export interface Transfer {
  payer: string;
  payTo: string;
  amount: bigint;
  nonce: string;
  /** Made up of payer and nonce. */
  transaction: string;
  at: Date;
}

/** Whether a wallet has signed a document or a text. */
export type Verify = (
  address: string,
  signed: { typedData: TypedData } | { message: string },
  signature: string,
) => Promise<boolean>;

/** Verifies as the chain does, by viem where it is installed; without it, any signature of 65 bytes does. */
export const verify: Verify = async (address, signed, signature) => {
  if (!/^0x[0-9a-fA-F]{130}$/.test(signature)) return false;
  const viem = await import("viem").catch(() => undefined);
  if (!viem) return true;
  try {
    const by =
      "message" in signed
        ? await viem.recoverMessageAddress({ message: signed.message, signature: signature as `0x${string}` })
        : await viem.recoverTypedDataAddress({
            ...(signed.typedData as unknown as Parameters<typeof viem.hashTypedData>[0]),
            signature: signature as `0x${string}`,
          });
    return sameAddress(by, address);
  } catch {
    return false;
  }
};

/** The fake's USDC. */
export class Token {
  readonly #transfers: Transfer[] = [];
  readonly #balances = new Map<string, bigint>();
  readonly #used = new Set<string>();

  /** `starting` is what every wallet has at first. */
  constructor(readonly starting: bigint, readonly now: () => Date, readonly verify: Verify) {}

  /** The payments that were taken, oldest first. */
  get transfers(): readonly Transfer[] {
    return this.#transfers;
  }

  /** Gives a wallet so much, in USDC's smallest unit. */
  setBalance(wallet: string, units: bigint): void {
    this.#balances.set(wallet.toLowerCase(), units);
  }

  /**
   * Moves the money of a PAYMENT-SIGNATURE header, as anybody who has one can. It gives the reason of x402 why it does
   * not.
   */
  async take(header: string): Promise<{ moved: Transfer } | { reason: string }> {
    const payment = decodePayment(header);
    const signature = payment && signatureIn(header);
    if (!payment || signature === undefined) return { reason: "invalid_payload" };
    const { authorization: a } = payment;
    const offer: Offer = { ...payment.accepted, asset: usdc, extra: { name: "USD Coin", version: "2" } };
    const typedData = authorizationTypedData(offer, a);
    const signed = await this.verify(a.from, { typedData }, signature);
    const reason = signed ? this.#fault(a) : "invalid_exact_evm_signature";
    return reason === undefined ? { moved: this.#move(a) } : { reason };
  }

  #fault({ from, value, validAfter, validBefore, nonce }: Authorization): string | undefined {
    const now = Math.floor(this.now().getTime() / 1000);
    if (now <= Number(validAfter)) return "invalid_exact_evm_payload_authorization_valid_after";
    if (now >= Number(validBefore)) return "invalid_exact_evm_payload_authorization_valid_before";
    if (this.#used.has(nameOf(from, nonce))) return "invalid_exact_evm_nonce_already_used";
    return this.#balance(from) < BigInt(value) ? "invalid_exact_evm_insufficient_balance" : undefined;
  }

  #balance(wallet: string): bigint {
    return this.#balances.get(wallet.toLowerCase()) ?? this.starting;
  }

  #move({ from, to, value, nonce }: Authorization): Transfer {
    const name = nameOf(from, nonce);
    this.#used.add(name);
    this.#balances.set(from.toLowerCase(), this.#balance(from) - BigInt(value));
    const transaction = `0x${createHash("sha256").update(name).digest("hex")}`;
    const moved = { payer: from, payTo: to, amount: BigInt(value), nonce, transaction, at: this.now() };
    this.#transfers.push(moved);
    return moved;
  }
}

function nameOf(payer: string, nonce: string): string {
  return `${payer} ${nonce}`.toLowerCase();
}

/** Whether a payment is signed as only accounts with code sign: by more than the 65 bytes of a key. */
export function isOfAccount(header: string): boolean {
  return (signatureIn(header)?.length ?? 0) > 2 + 2 * 65;
}

function signatureIn(header: string): string | undefined {
  const { payload } = JSON.parse(Buffer.from(header, "base64").toString("utf8")) as {
    payload?: { signature?: unknown };
  };
  return typeof payload?.signature === "string" ? payload.signature : undefined;
}
