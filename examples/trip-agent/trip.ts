// Buys the eSIM of a trip that a sentence describes. Run again with the same sentence it shows the same eSIM, and pays
// nothing.
import { AmbiguousPaymentError, type EsimPlan, type EsimPresenter, Roamcard, unitsOfDollars } from "roamcard";
import { FileStore } from "roamcard/node";
import { privateKeyToAccount } from "viem/accounts";

const baseUrl = process.env.ROAMCARD_URL ?? "http://127.0.0.1:8402";
const account = privateKeyToAccount(process.env.WALLET_KEY as `0x${string}`); // the payer becomes the owner
const journal = new FileStore(process.env.ROAMCARD_JOURNAL ?? ".roamcard");

/** What a day of maps, messages and some reading takes. */
const mebibytesPerDay = 200;

interface Trip {
  days: number;
  country: string;
  start: string;
  maxUsd: string;
}

// tripOf stands for a language model: what it returns is a wish, and is not trusted with money.
function tripOf(sentence: string): Trip {
  const said = /^(\d{1,2}) days? in ([A-Z]{2}) from (\d{4}-\d\d-\d\d), at most (\d+(?:\.\d\d?)?) USD$/.exec(sentence);
  if (!said) throw new Error('this form is understood: "5 days in FR from 2026-12-20, at most 10 USD"');
  const [, days = "", country = "", start = "", maxUsd = ""] = said;
  return { days: Number(days), country, start, maxUsd };
}

// planFor chooses a plan, unless the journal has a choice under this key: a key belongs to one request for good.
async function planFor(trip: Trip, key: string, client: Roamcard): Promise<string> {
  const { purchases } = await journal.read();
  const known = Object.values(purchases).find(
    (p) => p.key === key && p.origin === baseUrl && p.payer.toLowerCase() === account.address.toLowerCase(),
  );
  if (known) {
    console.log(`The journal has this trip; its payment is ${known.state}.`);
    return String(known.request.planId);
  }
  // The cheapest comes first, so the first plan that is enough is the one to buy.
  for await (const plan of client.plans.list({ countryCode: trip.country })) {
    if (!isEnough(plan, trip)) continue;
    if (BigInt(plan.amount) > unitsOfDollars(trip.maxUsd)) break;
    console.log(`${plan.name} is enough, for ${(plan.priceUsdCents / 100).toFixed(2)} USD.`);
    return plan.planId;
  }
  throw new Error(`no plan is enough for ${trip.days} days in ${trip.country} at ${trip.maxUsd} USD or less`);
}

function isEnough(plan: EsimPlan, trip: Trip): boolean {
  return plan.validityDays >= trip.days && (plan.unlimited || (plan.dataMb ?? 0) >= trip.days * mebibytesPerDay);
}

// Whoever has these lines has the eSIM: they are for the traveller's eyes, and not for a model or a log.
const terminal: EsimPresenter = {
  async presentEsim(esim) {
    const { lpa, installUrls } = esim.reveal();
    console.log(`LPA       ${lpa}\niPhone    ${installUrls?.ios}\nAndroid   ${installUrls?.android}`);
    return { presented: true };
  },
};

async function buy(sentence: string): Promise<void> {
  const trip = tripOf(sentence);
  const client = new Roamcard({
    baseUrl,
    signer: account,
    store: journal, // what is signed is in it, on the disk, before it is sent
    policy: {
      mode: "autonomous",
      maxPerPaymentUsd: trip.maxUsd,
      maxPerDayUsd: "25", // no sentence raises this one
      allow: { operations: ["/api/esim/purchase"] },
    },
  });
  // Made of the trip alone. With a plan or a time in it, a repeat after a crash could be another key, and pay again.
  const idempotencyKey = `trip-${trip.country}-${trip.start}-${trip.days}d`;
  const planId = await planFor(trip, idempotencyKey, client);
  const order = await client.esim.purchase({ planId, idempotencyKey });
  console.log(`Order ${order.orderId} ${order.replayed ? "was paid before" : "is paid"}.`);
  await order.waitUntilFulfilled();
  await client.esim.install(order, { present: terminal });
}

try {
  await buy(process.argv[2] ?? "");
} catch (error) {
  process.exitCode = 1;
  if (error instanceof AmbiguousPaymentError) console.log("The outcome is not known. Run this again: it pays once.");
  else console.log(`Nothing was bought: ${error instanceof Error ? error.message : String(error)}.`);
}
