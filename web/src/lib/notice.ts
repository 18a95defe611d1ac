// What a person is told when something does not go on, in words of ours and of the service.
import {
  AmbiguousPaymentError, ApiError, ApprovalDeniedError, ClockError, InsufficientFundsError, JournalError, PaymentError,
  PolicyDeniedError, RoamcardError, UnavailableError,
} from "roamcard";
import { walletCode } from "roamcard/browser";
import { short, texts, usdc } from "./text.js";

/** What a person is told in addition to how far something is. */
export type NoticeKind =
  | "wrongWallet" | "poor" | "refused" | "wrongChain" | "walletFailed" | "unavailable" | "notPayable" | "rejected"
  | "clock" | "unknown" | "offline" | "failed" | "price"
  | "notKept" | "paused";

export interface Notice {
  kind: NoticeKind;
  /** The service's own words. */
  detail?: string | undefined;
  requestId?: string | undefined;
  /** Until when only what was signed can be sent again, in ISO 8601. */
  retryAt?: string | undefined;
}

/** A wallet did not sign; why is the cause. */
export class WalletError extends RoamcardError {}

/** What a failure says to a person. */
export function noticeOf(error: unknown): Notice {
  const requestId = error instanceof ApiError ? error.requestId : undefined;
  const detail = error instanceof ApiError ? error.message.replace(/^\d+ \w+: /, "") : undefined;
  if (walletCode(error) === 4001) return { kind: "refused" };
  if (error instanceof AmbiguousPaymentError) return { kind: isPaused(error.cause) ? "paused" : "unknown" };
  if (error instanceof JournalError) return { kind: "notKept" };
  if (error instanceof InsufficientFundsError) return { kind: "poor" };
  if (error instanceof ClockError) return { kind: "clock" };
  if (error instanceof UnavailableError) return { kind: error.status === 0 ? "offline" : "unavailable", requestId };
  if (error instanceof ApiError && error.code === "wrong_payer") return { kind: "wrongWallet" };
  if (error instanceof ApprovalDeniedError || error instanceof PolicyDeniedError) return { kind: "rejected" };
  if (error instanceof ApiError && error.status === 402)
    return { kind: "rejected", detail, requestId, retryAt: error.retryAt };
  if (error instanceof ApiError) return { kind: "notPayable", detail, requestId };
  if (error instanceof PaymentError || error instanceof WalletError || walletCode(error) !== undefined)
    return { kind: "walletFailed" };
  return { kind: "failed" };
}

// isPaused says that a sale was closed before the service had taken up the payment.
function isPaused(error: unknown): boolean {
  return error instanceof ApiError && error.safeToPayAgain && /_paused$/.test(error.code);
}

export type Tone = "good" | "warn" | "bad";

/** What a notice is about. */
export interface About {
  owner?: string | undefined;
  account?: string | undefined;
  balance?: bigint | undefined;
  price?: bigint | undefined;
  network: string;
  /** What is said of what the service refuses, when it is not the payment of an order. */
  refused?: string | undefined;
}

/** A notice as it is shown: how grave it is, its title and its text. */
export function wordsOf({ kind, detail }: Notice, about: About): [Tone, string, string] {
  const [t, { network }] = [texts.pay, about];
  switch (kind) {
    case "wrongWallet":
      return ["warn", t.wrongWallet, t.wrongWalletText(about.owner ?? "", short(about.account ?? "?"))];
    case "price":
      return ["warn", t.price, t.priceText(usdc(about.price ?? 0n))];
    case "poor":
      return ["warn", t.poor, t.poorText(usdc(about.balance ?? 0n), usdc(about.price ?? 0n), network)];
    case "refused":
      return ["warn", t.refused, t.refusedText];
    case "wrongChain":
      return ["warn", t.wrongChain, t.wrongChainText(network)];
    case "walletFailed":
      return ["bad", t.walletFailed, t.walletFailedText];
    case "unavailable":
      return ["warn", t.unavailable, t.unavailableText];
    case "notPayable":
      return ["bad", about.refused ?? t.notPayable, detail ?? ""];
    case "rejected":
      return ["bad", t.rejected, `${t.rejectedText} ${detail ?? ""}`.trim()];
    case "clock":
      return ["bad", t.clock, t.clockText];
    case "unknown":
      return ["warn", t.unknown, t.unknownText];
    case "paused":
      return ["warn", t.paused, t.pausedText];
    case "notKept":
      return ["bad", t.notKept, t.notKeptText];
    case "offline":
      return ["bad", t.offline, t.offlineText];
    case "failed":
      return ["bad", t.failed, detail ?? ""];
  }
}
