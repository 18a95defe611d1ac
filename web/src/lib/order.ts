// Orders, as pages tell of them.
import { texts } from "./text.js";

/** Whether an order goes on by itself. */
export function isMoving(status: string): boolean {
  return ["settling", "settled", "provisioning", "refund_pending"].includes(status);
}

/** What is bought, for people. */
export function kindOf(kind: string): string {
  return (texts.kinds as Record<string, string>)[kind] ?? texts.otherKind;
}

/** What a delivered order brought. */
export function deliveredOf(kind: string | undefined): string {
  return (texts.pay.delivered as Record<string, string>)[kind ?? ""] ?? "";
}
