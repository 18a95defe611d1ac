// A client of a service that lies: what its steps end in, in this process or in one of its own that tells what memory it took.
import { AmbiguousPaymentError, ApiError, MemoryStore, PolicyDeniedError, Roamcard, TermsMismatchError } from "roamcard";
import { privateKeyToAccount } from "viem/accounts";

/** Buys as the steps say. Gives how each ended, and how much was signed by then. */
export async function buy({ baseUrl, origin, walletKey, policy, steps }) {
  const account = privateKeyToAccount(walletKey);
  let signed = 0;
  const signer = {
    address: account.address, signMessage: (m) => account.signMessage(m), signTypedData: (data) => (signed++, account.signTypedData(data)),
  };
  const client = new Roamcard({ baseUrl, origin, signer, policy, store: new MemoryStore(), maxReplays: 1, timeoutMs: 20_000 });
  const ends = [];
  for (const { do: what, key } of steps) {
    const error = await (what === "card" ? client.cards : client.esim).purchase({ idempotencyKey: key }).then(() => undefined, (e) => e);
    ends.push({ kind: kindOf(error), key: error?.idempotencyKey, text: String(error), signed });
  }
  return ends;
}

function kindOf(error) {
  if (error === undefined) return "ok";
  if (error instanceof AmbiguousPaymentError) return "ambiguous";
  if (error instanceof TermsMismatchError) return "terms";
  if (error instanceof PolicyDeniedError) return "denied";
  return error instanceof ApiError ? "refused" : "other";
}

if (process.argv[1] === import.meta.filename) {
  const most = () => process.resourceUsage().maxRSS;
  const before = most();
  const ends = await buy(JSON.parse(process.argv[2]));
  console.log(JSON.stringify({ ends, kibibytes: most() - before }));
}
