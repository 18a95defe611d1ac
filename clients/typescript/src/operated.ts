// What the operators' methods have in common; the methods themselves are made of the protos.
import { type Client, createClient } from "@connectrpc/connect";
import { type Call, type CallOptions, type Listing, listing, type PageOptions, type Slice } from "./call.js";
import { type Connection, keyHeader, present } from "./connection.js";
import { ActivityService } from "./gen/roamcard/v1/activity_pb.js";
import { OperatorService } from "./gen/roamcard/v1/operator_pb.js";
import { plain } from "./results.js";

/** An act that is done once: the same key is the same act. */
export interface KeyOptions extends CallOptions {
  idempotencyKey: string;
}

export type ListOptions = CallOptions & PageOptions;

type Wire = Parameters<Parameters<Connection["call"]>[1]>[0];
// What a request has: what is given without what is said of the call, and without what is undefined.
type Fields<G> = { [F in Exclude<keyof G, keyof KeyOptions | keyof PageOptions>]: Exclude<G[F], undefined> };
type Ask<F> = (fields: F, wire: Wire) => Promise<unknown>;
type Pages = { pageSize?: number; pageToken?: string };

/** The services of operators, and how a method asks them. */
export class Operated {
  protected readonly services: { operator: Client<typeof OperatorService>; activity: Client<typeof ActivityService> };
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.services = {
      operator: createClient(OperatorService, connection.transport),
      activity: createClient(ActivityService, connection.transport),
    };
  }

  /** Asks for an answer that is the result. */
  protected all<G extends CallOptions, T>(given: G, ask: Ask<Fields<G>>): Call<T> {
    const { options, fields, key } = parted(given);
    return this.#connection.call(options, (wire) => ask(fields, wire), key) as Call<unknown> as Call<T>;
  }

  /** Asks for an answer one member of which is the result. */
  protected one<G extends CallOptions, T>(given: G, ask: Ask<Fields<G>>, member: string): Call<T> {
    return this.all(given, async (fields: Fields<G>, wire) => present(membersOf(await ask(fields, wire))[member]));
  }

  /** Asks for pages of items: one by one, or by page(). */
  protected list<G extends ListOptions, T>(given: G, ask: Ask<Fields<G> & Pages>, items: string): Listing<T> {
    const { options, fields } = parted(given);
    return listing(given, (page) => this.#connection.call(options, async (wire) => {
      const answer = membersOf(await ask({ ...fields, ...page }, wire));
      return { items: plain(answer[items]), nextPageToken: answer["nextPageToken"] };
    }) as Call<unknown> as Call<Slice<T>>);
  }
}

function membersOf(answer: unknown): Record<string, unknown> {
  return answer as Record<string, unknown>;
}

// parted are the options of a call, the fields of its request, and the header of its key.
function parted<G extends CallOptions>(given: G) {
  const { signal, timeoutMs, headers, maxRetries, idempotencyKey, pageSize: _, pageToken: __, ...rest } =
    given as G & Partial<KeyOptions> & PageOptions;
  return {
    options: { signal, timeoutMs, headers, maxRetries },
    fields: Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as Fields<G>,
    key: idempotencyKey === undefined ? undefined : { [keyHeader]: idempotencyKey },
  };
}
