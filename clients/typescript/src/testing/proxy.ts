// A fault proxy before a real service, for clients of any language.
import { Faults } from "./faults.js";
import { listen, type Listening } from "./listening.js";

/** A proxy on a port of this machine. Give a client its `url` as baseUrl, and the service's own address as origin. */
export class FaultProxy {
  readonly faults: Faults;
  readonly #listening: Listening;

  private constructor(faults: Faults, listening: Listening) {
    this.faults = faults;
    this.#listening = listening;
  }

  /** Starts a proxy before a service. */
  static async start(upstream: string): Promise<FaultProxy> {
    const faults = new Faults();
    return new FaultProxy(faults, await listen(faults.fetch(), upstream.replace(/\/+$/, "")));
  }

  /** Where it is. */
  get url(): string {
    return this.#listening.url;
  }

  /** Ends it. */
  close(): Promise<void> {
    return this.#listening.close();
  }
}
