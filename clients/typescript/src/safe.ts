// Safes: owners sign, the account pays.
import type { Signer, TypedData } from "./signers.js";
import { chainId } from "./x402.js";

/** How many owners' signatures the service reads. */
const most = 31;

/**
 * The signer of a Safe, version 1.3.0, 1.4.1 or 1.5.0, that is deployed: for these owners, as many as its threshold
 * says, in any order. Whether that is so is not asked. Needs viem.
 */
export async function safeSigner(address: string, ...owners: Signer[]): Promise<Signer> {
  const named = new Set(owners.map((owner) => owner.address.toLowerCase()));
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw new TypeError(`${address} is no address, 0x and 40 hex digits`);
  if (!owners.length || owners.length > most || named.size !== owners.length)
    throw new TypeError(`the owners that sign are 1 to ${most} different ones`);
  if (named.has(address.toLowerCase())) throw new TypeError("the account and its owner have the same address");
  const { hashMessage, hashTypedData } = await import("viem");
  const inOrder = [...owners].sort((a, b) => (BigInt(a.address) < BigInt(b.address) ? -1 : 1));
  const signed = async (digest: string) => {
    let whole = "0x";
    for (const owner of inOrder) whole += await ownersOf(owner, documentOf(address, digest));
    return whole;
  };
  return {
    address,
    deployed: true,
    signTypedData: (data) => signed(hashTypedData(data as unknown as Parameters<typeof hashTypedData>[0])),
    signMessage: ({ message }) => signed(hashMessage(message)),
  };
}

// documentOf is what owners sign for the account, and for no other of theirs.
function documentOf(address: string, digest: string): TypedData {
  return {
    types: {
      EIP712Domain: [
        { name: "chainId", type: "uint256" },
        { name: "verifyingContract", type: "address" },
      ],
      SafeMessage: [{ name: "message", type: "bytes" }],
    },
    primaryType: "SafeMessage",
    domain: { chainId, verifyingContract: address },
    message: { message: digest },
  };
}

// ownersOf is an owner's signature, without 0x, whose v is 27 or 28.
async function ownersOf(owner: Signer, document: TypedData): Promise<string> {
  const signature = await owner.signTypedData(document);
  if (!/^0x[0-9a-fA-F]{128}(00|01|1b|1c)$/i.test(signature))
    throw new TypeError(`the owner ${owner.address} returned no signature of 65 bytes`);
  const v = Number.parseInt(signature.slice(-2), 16);
  return signature.slice(2, -2) + (v < 2 ? v + 27 : v).toString(16);
}
