// Signatures of wallets with code, by their form: who signed is for the account's own code to say.

/** How many bytes the service takes of a smart account's signature. */
const longest = 2_048;

/** Ends a signature that says how its account is made (ERC-6492). */
const mark = "6492".repeat(16);

/** How many bytes a word has. */
const word = 32;

/**
 * Whether a signature has the form in which a smart account takes one: of a Coinbase Smart Wallet the struct
 * SignatureWrapper {uint256 ownerIndex; bytes signatureData}, of a Safe those of some owners.
 */
export function isOfAccount(signature: string): boolean {
  if (/^0x([0-9a-fA-F]{130}){2,31}$/.test(signature)) return true;
  const words = wordsOf(signature);
  return words.length >= 5 && words[0] === 32n && words[2] === 64n && end(words, 3) === words.length;
}

/**
 * Whether a signature is that of a smart account, and says how that is made: (address factory, bytes call, bytes
 * signature), and the mark.
 */
export function namesCreation(signature: string): boolean {
  if (!signature.toLowerCase().endsWith(mark) || signature.length > 2 + 2 * longest) return false;
  const unmarked = signature.slice(0, -mark.length);
  const words = wordsOf(unmarked);
  const begin = end(words, 3);
  return (
    words.length >= 5 &&
    words[0]! >> 160n === 0n &&
    words[1] === 96n &&
    words[2] === BigInt(word * begin) &&
    end(words, begin) === words.length &&
    isOfAccount(`0x${unmarked.slice(2 + 2 * word * (begin + 1))}`)
  );
}

// wordsOf reads what is encoded in whole words; anything else, and what is too long, has none.
function wordsOf(text: string): bigint[] {
  if (!/^0x([0-9a-fA-F]{64})+$/.test(text) || text.length > 2 + 2 * longest) return [];
  return Array.from({ length: (text.length - 2) / (2 * word) }, (_, i) =>
    BigInt(`0x${text.slice(2 + 2 * word * i, 2 + 2 * word * (i + 1))}`),
  );
}

// end is the word before which bytes end whose length stands at a word.
function end(words: bigint[], at: number): number {
  return at + 1 + Math.ceil(Number(words[at] ?? 0n) / word);
}
