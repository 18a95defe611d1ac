// What may be paid without asking, what after asking, and what never.
import { ApprovalDeniedError, PaymentError, PolicyDeniedError, TermsMismatchError } from "./errors.js";
import { type Dollars, dollarsOf, unitsOfDollars } from "./money.js";
import { network, type Offer, sameAddress, type Terms, usdc } from "./x402.js";

/** A price that has been checked, before anything is signed. */
export interface Quote {
  /** The documented route of what is bought, such as /api/card/purchase; /pay for an order that was made first. */
  operation: string;
  idempotencyKey: string;
  /** In USDC's smallest unit, a decimal string. */
  amount: string;
  /** The same in US dollars. */
  amountUsd: string;
  payTo: string;
  asset: string;
  network: string;
  resource: string;
}

/** What a client may pay. */
export interface Policy {
  /**
   * autonomous pays within the caps and never asks; it is denied unless both caps are set. policy_gated asks above
   * approveAboveUsd (unset: always). human_approval always asks.
   */
  mode: "autonomous" | "policy_gated" | "human_approval";
  maxPerPaymentUsd?: Dollars;
  /** Over the last 24 hours, held across every process that shares the store. */
  maxPerDayUsd?: Dollars;
  approveAboveUsd?: Dollars;
  /** What is pinned. Without payTo the first payee that the service publishes is kept in the store. */
  allow?: {
    payTo?: string;
    asset?: string;
    network?: string;
    /** Documented routes, as quotes name them; all paid ones when absent. */
    operations?: readonly string[];
  };
  /** Asked before a payment is signed; where it is needed and missing, the payment is denied. */
  approve?: (quote: Quote) => Promise<boolean> | boolean;
}

/** What a challenge has to ask for. */
export interface Expected {
  origin: string;
  /** Undefined when any resource of the origin will do. */
  resource: string | undefined;
  payTo: string;
  /** The published name and version of the asset's EIP-712 domain. */
  domain: { name: string; version: string };
  /** Undefined when only the caps decide. */
  amount: bigint | undefined;
}

/** The longest time, in seconds, that a signed payment may stay good. */
const maxWindow = 3600;

/** A policy with its amounts read. */
export class Rules {
  readonly perPayment: bigint | undefined;
  readonly perDay: bigint | undefined;
  readonly asset: string;
  readonly network: string;
  readonly #approveAbove: bigint;

  constructor(readonly policy: Policy) {
    const units = (dollars: Dollars | undefined) => (dollars === undefined ? undefined : unitsOfDollars(dollars));
    this.perPayment = units(policy.maxPerPaymentUsd);
    this.perDay = units(policy.maxPerDayUsd);
    this.#approveAbove = units(policy.approveAboveUsd) ?? 0n;
    this.asset = policy.allow?.asset ?? usdc;
    this.network = policy.allow?.network ?? network;
  }

  /** Takes a challenge's one offer if it asks for exactly what is expected. */
  check(terms: Terms, expected: Expected): Offer {
    const [offer] = terms.accepts;
    const extra = offer?.extra ?? {};
    const amount = String(offer?.amount);
    const facts: [what: string, got: unknown, want: unknown, fits: boolean][] = [
      exactly("x402 version", terms.x402Version, 2),
      exactly("number of offers", terms.accepts.length, 1),
      exactly("scheme", offer?.scheme, "exact"),
      exactly("network", offer?.network, this.network),
      ["asset", offer?.asset, this.asset, sameAddress(String(offer?.asset), this.asset)],
      ["payee", offer?.payTo, expected.payTo, sameAddress(String(offer?.payTo), expected.payTo)],
      expected.resource === undefined
        ? [
            "resource",
            terms.resource.url,
            `one of ${expected.origin}`,
            originOf(terms.resource.url) === expected.origin,
          ]
        : exactly("resource", terms.resource.url, expected.resource),
      exactly("signing domain's name", extra.name, expected.domain.name),
      exactly("signing domain's version", extra.version, expected.domain.version),
      exactly("way of transfer", extra.assetTransferMethod ?? "eip3009", "eip3009"),
      ["amount", amount, expected.amount ?? "a whole number of units", isAmount(amount, expected.amount)],
    ];
    for (const [what, got, want, fits] of facts) {
      if (!fits)
        throw new TermsMismatchError(
          `the 402 names the ${what} ${String(got)}, expected ${String(want)}; nothing was signed`,
        );
    }
    const seconds = offer!.maxTimeoutSeconds;
    if (!Number.isSafeInteger(seconds) || seconds <= 0 || seconds > maxWindow) {
      throw new TermsMismatchError(`the 402 names a payment window of ${seconds} seconds; nothing was signed`);
    }
    return offer!;
  }

  /** Refuses what no approval could allow. The cap of the day is held by the journal. */
  cap(operation: string, amount: bigint): void {
    const { mode, allow } = this.policy;
    if (allow?.operations && !allow.operations.includes(operation))
      throw new PolicyDeniedError(`the policy does not allow ${operation}`);
    if (mode === "autonomous" && (this.perPayment === undefined || this.perDay === undefined)) {
      throw new PolicyDeniedError("autonomous payments need maxPerPaymentUsd and maxPerDayUsd");
    }
    if (this.perPayment !== undefined && amount > this.perPayment) {
      throw new PolicyDeniedError(
        `${dollarsOf(amount)} US dollars is more than the ${dollarsOf(this.perPayment)} allowed for a payment`,
      );
    }
  }

  /**
   * Why this payment would be denied, whoever is asked; undefined when it would not. The cap of the day is held by the
   * journal.
   */
  reason({ operation, amount }: Quote): string | undefined {
    try {
      this.cap(operation, BigInt(amount));
      this.#approver(BigInt(amount));
      return undefined;
    } catch (error) {
      if (error instanceof PolicyDeniedError) return error.message;
      throw error;
    }
  }

  /** Whether this payment has to be asked for. */
  asks(amount: bigint): boolean {
    if (this.policy.mode === "policy_gated")
      return amount > this.#approveAbove || this.policy.approveAboveUsd === undefined;
    return this.policy.mode !== "autonomous";
  }

  /** Asks, when the mode wants it, and says whether it did. */
  async approve(quote: Quote): Promise<boolean> {
    const approve = this.#approver(BigInt(quote.amount));
    if (!approve) return false;
    const answer = await asked(approve, quote);
    if (answer !== true) throw new ApprovalDeniedError(`the payment of ${quote.amountUsd} US dollars was not approved`);
    return true;
  }

  #approver(amount: bigint): Policy["approve"] {
    if (!this.asks(amount)) return undefined;
    if (this.policy.approve) return (quote) => this.policy.approve!(quote);
    throw new PolicyDeniedError(
      `${this.policy.mode} needs an approve function for a payment of ${dollarsOf(amount)} US dollars`,
    );
  }
}

// asked tells a question that failed from an answer.
async function asked(approve: NonNullable<Policy["approve"]>, quote: Quote): Promise<boolean> {
  try {
    return await approve(quote);
  } catch (cause) {
    throw new PaymentError("nobody could be asked for approval; nothing was signed", { cause });
  }
}

function isAmount(text: string, expected: bigint | undefined): boolean {
  return /^[1-9]\d{0,17}$/.test(text) && (expected === undefined || text === String(expected));
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined;
}

function exactly(what: string, got: unknown, want: unknown): [string, unknown, unknown, boolean] {
  return [what, got, want, got === want];
}
