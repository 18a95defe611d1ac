// Following an order: over the service's stream, and by asking again and again where streams do not get through.
import { wait } from "./abort.js";
import { mayPass } from "./errors.js";
import type { Order } from "./results.js";

/** What a stream tells of an order, and where it goes on. */
export interface Change {
  order?: Order | undefined;
  cursor: number;
}

/** How an order is read. */
export interface Source {
  /** The order now and whenever it changed since `after`, until the service ends it. */
  stream(after: number | undefined, signal: AbortSignal): AsyncIterable<Change>;
  /** The order as it is; it rejects when there is nothing to follow. */
  read(signal: AbortSignal | undefined): Promise<Order>;
}

/** The statuses that an order leaves by itself. */
const movingStatuses = new Set(["settling", "settled", "provisioning", "refund_pending", "payment_required"]);
/** How long the first answer may take. A gateway that holds streams back shows none. */
const firstAnswerMs = 5_000;
/** How long a stream may be silent: the service ends it after 30 s. */
const silenceMs = 45_000;
/** The longest pause between looks that fail. */
const longestPause = 30_000;
/** How many streams in a row may break before they brought anything; then only asking is left. */
const triesBeforePolling = 2;

/**
 * Yields an order now and whenever it changed, until it moves no more by itself. A stream that breaks is gone on with
 * where it left off, after a look at the order.
 */
export async function* watch(source: Source, intervalMs: number, signal?: AbortSignal): AsyncGenerator<Order, void> {
  let after: number | undefined;
  let failures = 0;
  let misses = 0;
  let seen = "";
  const fresh = (order: Order): boolean => seen !== (seen = stateOf(order));
  for (;;) {
    let brought = false;
    if (failures < triesBeforePolling) {
      try {
        const stream = (until: AbortSignal) => source.stream(after, until);
        for await (const { order, cursor } of bounded(stream, after === undefined, signal)) {
          [after, brought, failures] = [cursor, true, 0];
          if (order && fresh(order)) yield order;
          if (order && isFinal(order)) return;
        }
        if (brought) continue;
      } catch {
        signal?.throwIfAborted();
        if (!brought) failures++;
      }
    }
    // What is wrong with more than the stream shows here. What may pass is waited out, longer each time.
    let pause = intervalMs;
    try {
      const order = await source.read(signal);
      misses = 0;
      if (fresh(order)) yield order;
      if (isFinal(order)) return;
    } catch (error) {
      signal?.throwIfAborted();
      if (!mayPass(error)) throw error;
      pause = Math.min(Math.max(error.retryAfterMs ?? 0, intervalMs * 2 ** misses++), longestPause);
    }
    await wait(pause, signal);
  }
}

/** One of several orders that are followed, and where on. */
export interface Followed {
  orderId: string;
  after?: number | undefined;
}

/** How several orders are read. */
export interface Sources {
  /** Each order now and whenever it changed since its `after`, until the service ends it. */
  stream(orders: Followed[], signal: AbortSignal): AsyncIterable<Change>;
  /** An order as it is; it rejects when there is nothing to follow. */
  read(orderId: string, signal: AbortSignal | undefined): Promise<Order>;
}

/**
 * Yields each of several orders now and whenever it changed, until none of them moves any more by itself, over one
 * stream for all of them. A stream that breaks is gone on with where it left off.
 */
export async function* watchAll(
  sources: Sources, orderIds: Iterable<string>, intervalMs: number, signal?: AbortSignal,
): AsyncGenerator<Order, void> {
  const moving = new Map<string, number | undefined>();
  for (const orderId of orderIds) moving.set(orderId, undefined);
  const seen = new Map<string, string>();
  const fresh = (order: Order): boolean => {
    if (isFinal(order)) moving.delete(order.orderId);
    const [was, is] = [seen.get(order.orderId), stateOf(order)];
    seen.set(order.orderId, is);
    return was !== is;
  };
  let failures = 0;
  let misses = 0;
  while (moving.size > 0) {
    let brought = false;
    if (failures < triesBeforePolling) {
      try {
        const followed = [...moving].map(([orderId, after]) => ({ orderId, after }));
        const begins = followed.every(({ after }) => after === undefined);
        const stream = (until: AbortSignal) => sources.stream(followed, until);
        for await (const { order, cursor } of bounded(stream, begins, signal)) {
          [brought, failures] = [true, 0];
          if (!order) continue;
          moving.set(order.orderId, cursor);
          if (fresh(order)) yield order;
        }
        // The service shows what is final in every stream: one that brought nothing has missed nothing.
        if (!brought) await wait(intervalMs, signal);
        continue;
      } catch {
        signal?.throwIfAborted();
        if (!brought) failures++;
      }
    }
    let pause = intervalMs;
    try {
      for (const orderId of [...moving.keys()]) {
        const order = await sources.read(orderId, signal);
        misses = 0;
        if (fresh(order)) yield order;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!mayPass(error)) throw error;
      pause = Math.min(Math.max(error.retryAfterMs ?? 0, intervalMs * 2 ** misses++), longestPause);
    }
    if (moving.size > 0) await wait(pause, signal);
  }
}

// bounded ends a stream that is silent for too long; one that begins has to answer soon.
async function* bounded(
  stream: (signal: AbortSignal) => AsyncIterable<Change>,
  begins: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<Change, void> {
  const silent = new AbortController();
  const stop = () => silent.abort();
  let timer = setTimeout(stop, begins ? firstAnswerMs : silenceMs);
  try {
    for await (const answer of stream(AbortSignal.any([silent.signal, ...(signal ? [signal] : [])]))) {
      clearTimeout(timer);
      timer = setTimeout(stop, silenceMs);
      yield answer;
    }
  } finally {
    clearTimeout(timer);
    stop();
  }
}

// stateOf is what a watcher wants to hear about when it changes.
function stateOf({ status, issuance, topup, delivery, esimTopup }: Order): string {
  return `${status} ${issuance?.status} ${topup?.status} ${delivery?.status} ${esimTopup?.status}`;
}

function isFinal(order: Order): boolean {
  return !movingStatuses.has(order.status);
}
