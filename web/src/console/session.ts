// Who is signed in. The token is in the memory of one page, and only as long as somebody is there.
import type { OperatorIdentity } from "roamcard";
import { OperatorApi } from "./api.js";

/** How long nobody has to be there until the token is dropped. */
const idleMs = 15 * 60_000;

/** Why nobody is signed in. */
export type Ended = "idle" | "left" | "refused" | "signed-out";

export interface Signed {
  api: OperatorApi;
  me: OperatorIdentity;
}

/** The session of one page load. */
export class Session {
  signed: Signed | undefined;
  ended: Ended | undefined;
  readonly #show: () => void;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(show: () => void) {
    this.#show = show;
    for (const event of ["keydown", "pointerdown", "wheel"])
      addEventListener(event, () => this.#busy(), { passive: true });
    // A page that the browser keeps for going back to has no token either.
    addEventListener("pagehide", () => this.end("left"));
  }

  /** Signs in, if the service knows the token. */
  async signIn(token: string): Promise<void> {
    const api = new OperatorApi(token, () => this.end("refused"));
    const me = await api.whoami();
    this.signed = { api, me };
    this.ended = undefined;
    this.#busy();
    this.#show();
  }

  /** Drops the token, and with it everything that is shown. */
  end(why: Ended): void {
    clearTimeout(this.#idle);
    if (!this.signed) return;
    this.signed.api.end();
    this.signed = undefined;
    this.ended = why;
    this.#show();
  }

  #busy(): void {
    if (!this.signed) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.end("idle"), idleMs);
  }
}
