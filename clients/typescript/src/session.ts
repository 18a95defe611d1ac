// Sign-in: implicit, kept while it lasts, and asked for once however many calls need it.
import { type JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import { until } from "./abort.js";
import { UntrustedMessageError } from "./errors.js";
import type { AuthService, CreateChallengeResponse } from "./gen/roamcard/v1/auth_pb.js";
import type { CreateRevealChallengeResponse } from "./gen/roamcard/v1/card_pb.js";
import type { Signer, TypedData } from "./signers.js";
import { chainId, sameAddress } from "./x402.js";

/** How long before its end a session is no longer used. */
const margin = 60_000;

/** A sign-in, and how many wait for it. */
interface SignIn {
  session: Promise<{ token: string; until: number }>;
  waiting: number;
}

/** The session of one wallet. */
export class Session {
  #current: SignIn | undefined;

  constructor(
    readonly auth: Client<typeof AuthService>,
    readonly signer: Signer,
    readonly origin: string,
  ) {}

  /** The header of the session; signs in when there is none. */
  async header(signal?: AbortSignal): Promise<string> {
    const held = this.#current;
    // A failure is for those who waited for it; a signal's is for this one.
    const session = held && (await this.#wait(held, signal).catch(() => signal?.throwIfAborted()));
    // Whoever comes back first signs in; the others find the new sign-in in place of what they held.
    if (this.#current === held && (!session || session.until < Date.now())) this.#current = undefined;
    this.#current ??= { session: this.#signIn(), waiting: 0 };
    return `Bearer ${(await this.#wait(this.#current, signal)).token}`;
  }

  // wait waits for a sign-in. One that everybody gave up is over, as its wallet may never answer: the next call signs
  // in anew.
  async #wait(held: SignIn, signal: AbortSignal | undefined): Promise<{ token: string; until: number }> {
    held.waiting++;
    try {
      return await until(signal, held.session);
    } finally {
      if (--held.waiting === 0 && signal?.aborted && this.#current === held) this.#current = undefined;
    }
  }

  /** Clears a session that the service no longer takes. */
  async clear(header: string): Promise<void> {
    const held = this.#current;
    const session = await held?.session.catch(() => undefined);
    if (this.#current === held && header === `Bearer ${session?.token}`) this.#current = undefined;
  }

  async #signIn(): Promise<{ token: string; until: number }> {
    const { address } = this.signer;
    const challenge = await this.auth.createChallenge({ address, preferredMessageSchemes: [schemeOf(this.signer)] });
    const signature = await signChallenge(this.signer, challenge, {
      origin: this.origin,
      primaryType: "SignIn",
      resources: [],
    });
    const { intentId, messageScheme } = challenge;
    const session = await this.auth.verifyChallenge({ address, signature, intentId, messageScheme });
    const until = session.expiresAt ? timestampDate(session.expiresAt).getTime() - margin : 0;
    return { token: session.accessToken, until };
  }
}

/** The scheme in which a wallet signs messages. */
export function schemeOf(signer: Signer): "eip191" | "eip712" {
  return signer.signMessage ? "eip191" : "eip712";
}

/** What a message to sign has to be about. */
export interface Purpose {
  origin: string;
  /** The EIP-712 struct that is signed. */
  primaryType: "SignIn" | "RevealCard";
  /** The resources that the text has to name, none more but the session; for typed data, see `members`. */
  resources: readonly string[];
  /** Members that the typed data has to have. */
  members?: Record<string, string>;
}

/** Signs a challenge of this service, for this wallet and purpose, and nothing else. */
export async function signChallenge(
  signer: Signer, challenge: CreateChallengeResponse | CreateRevealChallengeResponse, purpose: Purpose,
): Promise<string> {
  if (challenge.messageScheme !== schemeOf(signer))
    throw new UntrustedMessageError(`the message is in ${challenge.messageScheme}; it was not signed`);
  if (signer.signMessage) {
    checkText(challenge.message, signer.address, purpose);
    return signer.signMessage({ message: challenge.message });
  }
  const data = typedDataOf(challenge.typedData);
  checkTyped(data, signer.address, purpose);
  return signer.signTypedData(data);
}

// checkText holds an EIP-4361 text to what it has to be: a service in error could otherwise have anything signed.
function checkText(text: string, address: string, { origin, resources }: Purpose): void {
  const lines = text.split("\n");
  const head = `${new URL(origin).host} wants you to sign in with your Ethereum account:`;
  const [body = "", listed = ""] = text.split("\nResources:");
  const named = listed.split("\n- ").slice(1);
  const fits =
    lines[0] === head && sameAddress(lines[1] ?? "", address) &&
    body.split("\n").includes(`URI: ${origin}`) && body.split("\n").includes(`Chain ID: ${chainId}`) &&
    resources.every((r) => named.includes(r)) &&
    named.every((r) => resources.includes(r) || (resources.length > 0 && r.startsWith("urn:roamcard:session:")));
  if (!fits)
    throw new UntrustedMessageError(`the message to sign is not for ${origin} and this purpose; it was not signed`);
}

// checkTyped sees to it that what is signed is a message, and never a transfer.
function checkTyped(data: TypedData, address: string, { origin, primaryType, members = {} }: Purpose): void {
  const { domain, message } = data;
  const wanted = { domain: new URL(origin).host, uri: origin, chainId, ...members };
  const fits =
    data.primaryType === primaryType && domain.name === "roamcard" && !("verifyingContract" in domain) &&
    domain.chainId === chainId && sameAddress(String(message.address), address) &&
    Object.entries(wanted).every(([name, value]) => message[name] === value);
  if (!fits)
    throw new UntrustedMessageError(`the typed data to sign is not for ${origin} and this purpose; it was not signed`);
}

function typedDataOf(data: JsonObject | undefined): TypedData {
  if (!data?.types || !data.domain || !data.message) throw new UntrustedMessageError("the challenge has no typed data");
  return data as unknown as TypedData;
}
