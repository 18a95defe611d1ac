// Signatures of wallets with code, by their form: who signed is for the account's own code to say.

/** Ends the signature of an account that is not deployed, which names the call that would (ERC-6492). */
const factory = "6492".repeat(16);

/** Whether a signature is that of an account which is not deployed. */
export function isUndeployed(signature: string): boolean {
  return signature.toLowerCase().endsWith(factory);
}

/**
 * Whether a signature has the form in which a Coinbase Smart Wallet takes one: the struct SignatureWrapper
 * {uint256 ownerIndex; bytes signatureData}.
 */
export function isOfAccount(signature: string): boolean {
  if (!/^0x([0-9a-fA-F]{64}){5,}$/.test(signature)) return false;
  const word = (i: number) => BigInt(`0x${signature.slice(2 + 64 * i, 66 + 64 * i)}`);
  const words = BigInt((signature.length - 2) / 64);
  return word(0) === 32n && word(2) === 64n && words - 4n === (word(3) + 31n) / 32n;
}
