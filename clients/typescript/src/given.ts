// What identifies something is given or left out, and never empty.
import { type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence as Presence } from "@bufbuild/protobuf/wkt";
import type { Interceptor } from "@connectrpc/connect";
import { EmptyError } from "./errors.js";

/** The headers that identify something. */
const headers = ["idempotency-key", "x-esim-delivery-token", "x-order-watch-token"];
/** What may be left out of a request, and identifies something when it is there. */
const optional = new Set(["planId", "orderId", "owner", "transaction", "requestId", "intentId"]);

/** The text, unless it names nothing, as a variable that is not set makes it. */
export function notEmpty(name: string, text: string): string {
  if (/^[ \t\r\n\0]*$/.test(text)) throw new EmptyError(`${name} is given and empty; nothing was signed or sent`);
  return text;
}

/**
 * Refuses a request that has an empty text in the place of what identifies something: every text that a request has to
 * have is such a place.
 */
function checkGiven(kind: DescMessage, message: object): void {
  for (const field of kind.fields) {
    if (field.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING) continue;
    const value = (message as Record<string, unknown>)[field.localName];
    const needed = field.presence === Presence.IMPLICIT || optional.has(field.localName);
    if (needed && typeof value === "string") notEmpty(field.jsonName, value);
  }
}

/** Refuses such calls before anything is signed or sent. Put it before all others. */
export function given(): Interceptor {
  return (next) => (request) => {
    for (const name of headers) if (request.header.has(name)) notEmpty(name, request.header.get(name) ?? "");
    if (!request.stream) checkGiven(request.method.input, request.message);
    return next(request);
  };
}
