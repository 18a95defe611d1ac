// Who signs: any wallet that can sign typed data.

/** An EIP-712 document in the JSON form of eth_signTypedData_v4. Whole numbers are decimal strings or numbers. */
export interface TypedData {
  types: Record<string, { name: string; type: string }[]>;
  primaryType: string;
  domain: Record<string, unknown>;
  message: Record<string, unknown>;
}

/** A wallet. Viem's local accounts fit as they are, and so do its Coinbase smart accounts, once they are deployed. */
export interface Signer {
  readonly address: string;
  /** Set where this is an account whose code is there already: a node is asked before a payment is sent. */
  readonly deployed?: boolean;
  /** Signs an EIP-712 document; 0x and the hex of 65 bytes, or of what a smart account's code takes. */
  signTypedData(data: TypedData): Promise<string>;
  /** Signs a text (EIP-191). Wallets without it sign in by typed data. */
  signMessage?(message: { message: string }): Promise<string>;
}

/** Anything that speaks EIP-1193, such as a browser wallet. */
export interface Eip1193Provider {
  request(call: { method: string; params?: readonly unknown[] }): Promise<unknown>;
}

/** A wallet behind an EIP-1193 provider. Without an address it asks for the wallet's first account. */
export async function eip1193Signer(provider: Eip1193Provider, address?: string): Promise<Signer> {
  const account = address ?? ((await provider.request({ method: "eth_requestAccounts" })) as string[])[0];
  if (!account) throw new TypeError("the wallet offers no account");
  return {
    address: account,
    async signTypedData(data) {
      return String(
        await provider.request({ method: "eth_signTypedData_v4", params: [account, JSON.stringify(data)] }),
      );
    },
    async signMessage({ message }) {
      const bytes = [...new TextEncoder().encode(message)];
      const hex = `0x${bytes.map((b) => b.toString(16).padStart(2, "0")).join("")}`;
      return String(await provider.request({ method: "personal_sign", params: [hex, account] }));
    },
  };
}
