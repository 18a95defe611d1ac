// What the fake says of the service, and its failures, as a real one has them.
import { fromJson, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { ProblemSchema } from "../gen/roamcard/v1/problem_pb.js";
import { text } from "./published.js";

/** A JSON object. */
export type Members = Record<string, unknown>;

/** A plan of the catalogue. */
export type FakePlan = Members & {
  planId: string;
  name: string;
  type: string;
  countryCodes: string[];
  priceUsdCents: number;
};

/** What the service says of itself, as recorded from a real one. */
export interface Said {
  config: Members & {
    network: { payTo: string; asset: string };
    card: {
      walletPaymentUsdCents: number;
      cardIssueFeeUsdCents: number;
      defaultOrderUsdCents: number;
      minOrderUsdCents: number;
      maxOrderUsdCents: number;
      loadFeeBps: number;
    };
  };
  discovery: Record<"card" | "topup" | "esim", Members>;
  plans: FakePlan[];
  routes: { route: string; method: string; body?: string }[];
  problems: Record<
    string,
    { status: number; title: string; retryable: boolean; safeToPayAgain: boolean; nextAction: string; connect: string }
  >;
  esim: Members;
}

/** What a service at an origin says. */
export function saidBy(origin: string): Said {
  return JSON.parse(text.replaceAll("{origin}", origin)) as Said;
}

const { problems } = saidBy("");

/** A failure as RFC 9457 has it. */
export function problemOf(code: string, detail: string, requestId: string): Members & { status: number } {
  const { status, title, retryable, safeToPayAgain, nextAction } = problems[code]!;
  return { type: `/problems/${code}`, title, status, detail, code, retryable, safeToPayAgain, nextAction, requestId };
}

/** The same as the Connect protocol has it. */
export function connectErrorOf(problem: Members): Members {
  const value = Buffer.from(toBinary(ProblemSchema, fromJson(ProblemSchema, problem as JsonObject)))
    .toString("base64")
    .replace(/=+$/, "");
  // Protobuf's JSON leaves out what is false.
  const debug = Object.fromEntries(Object.entries(problem).filter(([, member]) => member !== false));
  return {
    code: problems[String(problem.code)]?.connect,
    message: problem.detail,
    details: [{ type: "roamcard.v1.Problem", value, debug }],
  };
}
