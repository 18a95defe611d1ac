// The wire form of x402 version 2, scheme exact, EIP-3009: what a challenge says and what a payer signs.
import { TermsMismatchError } from "./errors.js";
import type { TypedData } from "./signers.js";

/** The network every payment is made on: Base. */
export const network = "eip155:8453";
/** The EIP-155 id of that network. */
export const chainId = 8453;
/** Native USDC on Base. */
export const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

/** The header of a challenge. */
export const requiredHeader = "payment-required";
/** The header of a payment. */
export const signatureHeader = "payment-signature";
/** The header of a payment in version 1. */
export const formerSignatureHeader = "x-payment";
/** The header of a receipt. */
export const responseHeader = "payment-response";

/** One way to pay, as a challenge offers it. Members that are not known here are kept: they are echoed. */
export interface Offer {
  scheme: string;
  network: string;
  amount: string;
  asset: string;
  payTo: string;
  maxTimeoutSeconds: number;
  extra?: Record<string, unknown>;
}

/** A challenge: what is sold and how it can be paid. */
export interface Terms {
  x402Version: number;
  error?: string;
  resource: { url: string; [member: string]: unknown };
  accepts: Offer[];
}

/** An EIP-3009 authorization; numbers are decimal strings. */
export interface Authorization {
  from: string;
  to: string;
  value: string;
  validAfter: string;
  validBefore: string;
  nonce: string;
}

/** What the service says about a payment it took. */
export interface Receipt {
  success: boolean;
  transaction: string;
  network: string;
  payer?: string;
  amount?: string;
}

/** Reads a PAYMENT-REQUIRED header. */
export function decodeTerms(header: string): Terms {
  const terms = decode(header) as Partial<Terms> | undefined;
  const [offer] = Array.isArray(terms?.accepts) ? terms.accepts : [];
  if (!terms || typeof terms.resource?.url !== "string" || typeof offer?.amount !== "string") {
    throw new TermsMismatchError("the PAYMENT-REQUIRED header cannot be read; nothing was signed");
  }
  return terms as Terms;
}

/** Reads a PAYMENT-RESPONSE header; undefined when there is none that can be read. */
export function decodeReceipt(header: string | null | undefined): Receipt | undefined {
  const receipt = header ? (decode(header) as Partial<Receipt> | undefined) : undefined;
  return typeof receipt?.success === "boolean" && typeof receipt.transaction === "string"
    ? (receipt as Receipt)
    : undefined;
}

/** Whether the headers of a 402 prove that the payment was taken up and can never arrive. */
export function provesDead(headers: Headers): boolean {
  return decodeReceipt(headers.get(responseHeader))?.success === false;
}

/** What a PAYMENT-SIGNATURE header authorizes; undefined when it cannot be read. */
export function decodePayment(header: string): { accepted: Offer; authorization: Authorization } | undefined {
  const payment = decode(header) as { accepted?: Offer; payload?: { authorization?: Authorization } } | undefined;
  const authorization = payment?.payload?.authorization;
  return payment?.accepted && authorization ? { accepted: payment.accepted, authorization } : undefined;
}

/** Writes a PAYMENT-SIGNATURE header. */
export function encodePayment(terms: Terms, offer: Offer, authorization: Authorization, signature: string): string {
  const payment = { x402Version: 2, resource: terms.resource, accepted: offer, payload: { signature, authorization } };
  return toBase64(new TextEncoder().encode(JSON.stringify(payment)));
}

/** The typed data of an authorization, as eth_signTypedData_v4 takes it. */
export function authorizationTypedData(offer: Offer, authorization: Authorization): TypedData {
  const field = (name: string, type: string) => ({ name, type });
  return {
    types: {
      EIP712Domain: [
        field("name", "string"),
        field("version", "string"),
        field("chainId", "uint256"),
        field("verifyingContract", "address"),
      ],
      TransferWithAuthorization: [
        field("from", "address"), field("to", "address"), field("value", "uint256"),
        field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32"),
      ],
    },
    primaryType: "TransferWithAuthorization",
    domain: { name: offer.extra?.name, version: offer.extra?.version, chainId, verifyingContract: offer.asset },
    message: { ...authorization },
  };
}

/**
 * The EIP-3009 nonce of a purchase. The token takes a nonce of a payer once: however often a purchase is signed, even
 * by a client that lost its journal, the chain itself refuses to pay for it twice. Each part is preceded by its length.
 * `path` is the documented REST path whatever the protocol; `attempt` counts the authorizations that the service proved
 * dead.
 */
export async function nonceOf(origin: string, path: string, payer: string, key: string, attempt = 0): Promise<string> {
  const chunks: number[] = [];
  for (const part of ["v1", origin, path, payer.toLowerCase(), key, ...(attempt > 0 ? [String(attempt)] : [])]) {
    const bytes = new TextEncoder().encode(part);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(bytes.length));
    chunks.push(...length, ...bytes);
  }
  return `0x${await sha256(Uint8Array.from(chunks))}`;
}

/** SHA-256 in hex. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** Whether two texts are the same address. */
export function sameAddress(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

function decode(header: string): unknown {
  try {
    const bytes = Uint8Array.from(atob(header), (c) => c.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
  } catch {
    return undefined;
  }
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
}
