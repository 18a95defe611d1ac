// A client of a service that lies: what its steps end in, in this process or in one of its own that tells what memory
// it took.
import {
  AmbiguousPaymentError,
  ApiError,
  MemoryStore,
  PolicyDeniedError,
  Roamcard,
  TermsMismatchError,
} from "roamcard";
import { privateKeyToAccount } from "viem/accounts";

/** Buys as the steps say. Gives how each ended, and how much was signed by then. */
export async function buy({ baseUrl, origin, walletKey, policy, steps }) {
  const account = privateKeyToAccount(walletKey);
  let signed = 0;
  const signer = {
    address: account.address,
    signMessage: (m) => account.signMessage(m),
    signTypedData: (data) => (signed++, account.signTypedData(data)),
  };
  // What the real service sells in the end may take more than one repeat.
  const repeats = steps.some(({ expect }) => expect === "ok") ? {} : { maxReplays: 1 };
  const limits = { timeoutMs: 120_000, ...repeats };
  const client = new Roamcard({ baseUrl, origin, signer, policy, store: new MemoryStore(), ...limits });
  const keys = {};
  const ends = [];
  for (const { do: what, key: name } of steps) {
    if (what === "pay") keys[name] ??= (await client.orders.createEsim()).orderId;
    const key = (keys[name] ?? name) || undefined;
    const [order, error] = await bought(client, what, key).then((o) => [o], (e) => [undefined, e]);
    if (key === undefined) keys.told = error?.idempotencyKey ?? order?.idempotencyKey;
    ends.push({ kind: kindOf(error), key: key ?? keys.told, told: error?.idempotencyKey, text: String(error), signed });
  }
  return ends;
}

function bought(client, what, idempotencyKey) {
  if (what === "pay") return client.orders.pay(idempotencyKey);
  if (what === "topup") return client.cards.topUp({ amountUsdCents: 2500, idempotencyKey });
  return (what === "card" ? client.cards : client.esim).purchase({ idempotencyKey });
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
