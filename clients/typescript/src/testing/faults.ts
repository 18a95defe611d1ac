// What goes wrong between a client and a service, as a test says.
import type { Fetch } from "../rest.js";
import { signatureHeader } from "../x402.js";
import { problemOf } from "./problem.js";

/** The requests that a fault is for. */
export interface When {
  /** Requests that bring a payment, those that ask a price, or how the path begins; every request when absent. */
  on?: "paid" | "unpaid" | (string & {});
  /**
   * The first of these requests that it hits, counted from 1 since the fault was made without those that a fault before
   * it hits.
   */
  nth?: number;
  /** How many it hits one after the other, 1 when absent. */
  times?: number;
  /** It hits before the service has the request, which the service then never gets. */
  before?: boolean;
}

/** What is answered instead of what the service says. */
export interface Answer {
  status: number;
  contentType?: string;
  body?: string;
}

/** A request that came. */
export interface SeenRequest {
  path: string;
  /** Its PAYMENT-SIGNATURE header. */
  payment: string | undefined;
  /** The fault that hit it, by its method. */
  fault: string | undefined;
}

type Fault = When & {
  kind: string;
  seen: number;
  lose?: boolean;
  cut?: number;
  holdMs?: number;
  answer?: Answer;
  twice?: boolean;
};

const priced = [
  /\/api\/card\/(purchase|topup)$/,
  /\/api\/esim\/(purchase|orders\/[^/]+\/topup)$/,
  /\/pay\/[^/]+$/,
  /Service\/(PurchaseCard|TopUpCard|PurchaseEsim|TopUpEsim|PayOrder)$/,
];

/** What goes wrong between a client and a service. The first fault that fits a request hits it, alone. */
export class Faults {
  #faults: Fault[] = [];
  #requests: SeenRequest[] = [];

  /** Ends the connection in place of the answer. */
  loseAnswer(when: When = {}): void {
    this.#add({ ...when, kind: "loseAnswer", lose: true });
  }

  /** Ends the connection after so many bytes of the answer's body; a negative number counts from its end. */
  cutAnswer(when: When, bytes: number): void {
    this.#add({ ...when, kind: "cutAnswer", lose: true, cut: bytes });
  }

  /** Holds the answer, or the request with `before`, which the service gets then. */
  delay(when: When, ms: number): void {
    this.#add({ ...when, kind: "delay", holdMs: ms });
  }

  /** Answers so. */
  answer(when: When, answer: Answer): void {
    this.#add({ ...when, kind: "answer", answer });
  }

  /** Answers 503, as the service does when something it needs is down. */
  unavailable(when: When = {}): void {
    const body = JSON.stringify(problemOf("dependency_down", "The fault says so.", "fault"));
    this.#add({ ...when, kind: "unavailable", answer: { status: 503, contentType: "application/problem+json", body } });
  }

  /** Answers 200 with a page of HTML, as a proxy does. */
  page(when: When = {}): void {
    this.#add({
      ...when,
      kind: "page",
      answer: { status: 200, contentType: "text/html", body: "<html>Thank you</html>" },
    });
  }

  /** Lets the request come to the service twice, as by a proxy that tries again; the second answer is given. */
  repeat(when: When = {}): void {
    this.#add({ ...when, kind: "repeat", twice: true });
  }

  /** Forgets all faults and requests. */
  clear(): void {
    [this.#faults, this.#requests] = [[], []];
  }

  /** The requests that came, oldest first. */
  get requests(): readonly SeenRequest[] {
    return this.#requests;
  }

  /** Puts the faults before a network: a fault proxy before a real service, for clients of this process. */
  fetch(next: Fetch = (input, init) => fetch(input, init)): Fetch {
    return async (input, init) => {
      const request = new Request(input, init);
      const fault = this.#next(request);
      if (!fault) return next(request);
      const body = await request.arrayBuffer();
      const ask = async () => {
        const { method, headers, signal } = request;
        const response = await next(request.url, {
          method,
          headers,
          signal,
          redirect: "manual",
          ...(body.byteLength > 0 && { body }),
        });
        return {
          status: response.status,
          headers: response.headers,
          body: new Uint8Array(await response.arrayBuffer()),
        };
      };
      return apply(fault, request.signal, ask);
    };
  }

  #add(fault: Omit<Fault, "seen">): void {
    this.#faults.push({ ...fault, seen: 0 });
  }

  #next(request: Request): Fault | undefined {
    const seen: SeenRequest = {
      path: new URL(request.url).pathname,
      payment: request.headers.get(signatureHeader) ?? undefined,
      fault: undefined,
    };
    let hit: Fault | undefined;
    for (const fault of this.#faults.filter((f) => fits(f, seen))) {
      fault.seen++;
      const { nth = 1, times = 1 } = fault;
      if (fault.seen >= nth && fault.seen < nth + times) {
        hit = fault;
        break;
      }
    }
    this.#requests.push({ ...seen, fault: hit?.kind });
    return hit;
  }
}

function fits({ on }: When, { path, payment }: SeenRequest): boolean {
  if (on === undefined) return true;
  if (on === "paid") return payment !== undefined;
  if (on === "unpaid") return payment === undefined && priced.some((route) => route.test(path));
  return path.startsWith(on);
}

// apply makes the exchange as the fault will have it.
async function apply(
  fault: Fault,
  signal: AbortSignal,
  ask: () => Promise<{ status: number; headers: Headers; body: Uint8Array<ArrayBuffer> }>,
): Promise<Response> {
  const { holdMs, before = false, twice = false, lose = false, cut = 0, answer } = fault;
  if (holdMs !== undefined && before) await hold(holdMs, signal);
  const asked = !before || holdMs !== undefined;
  if (asked && twice) await ask();
  const told = asked ? await ask() : undefined;
  if (holdMs !== undefined && !before) await hold(holdMs, signal);
  if (lose && (cut === 0 || !told)) throw new TypeError("the fault ended the connection");
  if (answer)
    return new Response(empty(answer.status) ? null : (answer.body ?? ""), {
      status: answer.status,
      headers: { "content-type": answer.contentType ?? "text/plain" },
    });
  const { status, headers, body } = told!;
  // What was decoded has neither its encoding nor its length any more.
  const kept = new Headers(
    [...headers].filter(([name]) => !["content-encoding", "transfer-encoding", "content-length"].includes(name)),
  );
  if (!lose) return new Response(empty(status) ? null : body, { status, headers: kept });
  const passing = body.slice(0, cut < 0 ? Math.max(0, body.length + cut) : cut);
  let sent = false;
  const broken = new ReadableStream<Uint8Array>({
    pull(to) {
      if (sent || passing.length === 0) return to.error(new TypeError("the fault ended the connection"));
      sent = true;
      to.enqueue(passing);
    },
  });
  return new Response(broken as BodyInit, { status, headers: kept });
}

const empty = (status: number) => status === 204 || status === 205 || status === 304;

function hold(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, ms);
    const stop = () => (clearTimeout(timer), fail(signal.reason as Error));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
