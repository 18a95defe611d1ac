// What counts as a success: an order that fits what was signed. Anything else with 200 says nothing of the payment.
import { RoamcardError } from "./errors.js";
import type { Entry } from "./journal.js";
import { productAt } from "./products.js";
import { sameAddress } from "./x402.js";

/** What is read of an order, in the spelling of the documented JSON and of the generated messages. */
export interface AnsweredOrder {
  orderId?: unknown;
  kind?: unknown;
  amountUsdCents?: unknown;
  replayed?: unknown;
  payment?: { payer?: unknown } | null | undefined;
}

/** A purchase that has an order was answered with another one: to repeat it would not help. */
export class AnotherOrderError extends RoamcardError {}

const unitsPerCent = 10_000n;

/** Why an order is not what a payment bought; undefined when it is. */
export function faultOf(order: AnsweredOrder | undefined, entry: Entry): RoamcardError | undefined {
  const { orderId, kind, amountUsdCents, replayed, payment } = order ?? {};
  const expected = productAt(entry.operation)?.kind;
  if (typeof orderId !== "string" || orderId === "") return new RoamcardError("the service answered without an order");
  if (expected !== undefined && kind !== expected)
    return new RoamcardError(`the service answered with an order of another kind, ${String(kind)}`);
  if (expected === undefined && orderId !== entry.key)
    return new RoamcardError(`the service answered with order ${orderId}`);
  if (
    !Number.isSafeInteger(amountUsdCents) ||
    BigInt(amountUsdCents as number) * unitsPerCent !== BigInt(entry.amount)
  ) {
    return new RoamcardError(`the service answered with an order of ${String(amountUsdCents)} cents`);
  }
  if (payment && !sameAddress(String(payment.payer), entry.payer))
    return new RoamcardError("the service answered with an order that another wallet has paid");
  if (entry.orderId !== undefined && orderId !== entry.orderId)
    return new AnotherOrderError(`the service answered with order ${orderId}, and before with ${entry.orderId}`);
  if (entry.state === "settled" && replayed !== true)
    return new AnotherOrderError("the service answered a repeat as if it were new");
  return undefined;
}
