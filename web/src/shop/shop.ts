// What happens in the shop, without how it looks: the service's terms, the wallet, the session.
import { type Buyer, Storefront } from "roamcard";
import { discoverWallets, tokenBalance, type Wallet, walletCode } from "roamcard/browser";
import { noticeOf } from "../lib/notice.js";
import { accountsOf, chainOf, followWallet, notOn } from "../lib/wallet.js";
import { Owned } from "./owned.js";
import { Sales } from "./sales.js";
import { type State, viewOf } from "./state.js";

/** How often the shop looks whether the service answers and what it sells. */
const lookEvery = 15_000;
const lookAgain = 3_000;

/** One visit of the shop. */
export class Shop {
  state: State = {
    at: "loading", view: viewOf(location.hash), wallets: [], session: "out", balances: {}, payments: [],
  };
  readonly owned: Owned;
  readonly sales: Sales;
  readonly #show: (state: State) => void;
  readonly #front = new Storefront({ baseUrl: location.origin, maxRetries: 0, timeoutMs: 10_000 });
  #buyer: Buyer | undefined;
  #unfollow: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #readingPlans = false;
  #signingIn: AbortController | undefined;
  /** Counts the wallets that were asked: the answer of one that is not asked any more is ignored. */
  #asked = 0;

  constructor(show: (state: State) => void) {
    this.#show = show;
    this.owned = new Owned(this);
    this.sales = new Sales(this);
    discoverWallets((wallets) => this.set({ wallets }));
    addEventListener("hashchange", () => this.#moved());
    addEventListener("online", () => void this.look());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.look();
    });
    void this.look().then(() => this.sales.resume());
  }

  set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.#show(this.state);
  }

  /** The client of the wallet that is connected. */
  get buyer(): Buyer {
    if (!this.#buyer) throw new Error("no wallet is connected");
    return this.#buyer;
  }

  /** Whether a client is of the account that is connected. */
  isConnected(client: Buyer | undefined): boolean {
    return client !== undefined && client.address.toLowerCase() === this.state.account?.toLowerCase();
  }

  /** What paying and owning take, loaded when it is needed first. */
  paying(): Promise<typeof import("./paying.js")> {
    return import("./paying.js");
  }

  #moved(): void {
    this.set({ view: viewOf(location.hash) });
    scrollTo(0, 0);
    void this.plans();
    this.owned.shown();
  }

  /** Reads what the service sells and whether it is paused, and does it again after a while. */
  async look(): Promise<void> {
    clearTimeout(this.#timer);
    let next = lookEvery;
    try {
      const { cardTerms, esimTerms } = this.state;
      const [config, card, esim] = await Promise.all([
        this.#front.config(), cardTerms ?? this.#front.card(), esimTerms ?? this.#front.esim(),
      ]);
      this.set({ at: "ready", away: false, config, chain: chainOf(config), cardTerms: card, esimTerms: esim });
      void this.plans();
    } catch {
      this.set({ away: true });
      next = lookAgain;
    }
    this.#timer = setTimeout(() => void this.look(), document.visibilityState === "visible" ? next : lookEvery * 4);
  }

  /** Reads the catalogue, once it is looked at. */
  async plans(): Promise<void> {
    if (this.state.view.at !== "esims" || this.state.plans || this.#readingPlans) return;
    this.#readingPlans = true;
    try {
      this.set({ plans: await this.#front.plans() });
    } catch {
      this.set({ away: true });
    } finally {
      this.#readingPlans = false;
    }
  }

  /** Shows the wallets that there are. */
  choose(choosing = true): void {
    this.set({ choosing, ...(choosing && { notice: undefined }) });
  }

  /** Connects a wallet. */
  async connect(wallet: Wallet): Promise<void> {
    this.#reset({ wallet, step: "connecting", notice: undefined });
    const asked = this.#asked;
    try {
      const [account] = await accountsOf(wallet, "asked");
      if (this.#asked !== asked) return;
      this.#unfollow = followWallet(wallet, () => void this.#changed());
      await this.#use(account);
    } catch (error) {
      if (this.#asked !== asked) return;
      const kind = walletCode(error) === 4001 ? "refused" : "walletFailed";
      this.#reset({ notice: { kind } });
    }
  }

  /** Lets the wallet go, and all that was shown of it. */
  disconnect(): void {
    void this.buyer.auth.signOut().catch(() => undefined);
    this.#reset({ choosing: false });
    this.sales.close();
  }

  /** Gives up waiting for the wallet. */
  cancel(): void {
    this.#reset({});
  }

  #reset(next: Partial<State>): void {
    this.#asked++;
    this.#signingIn?.abort();
    this.#unfollow?.();
    this.#unfollow = undefined;
    this.#buyer = undefined;
    this.owned.clear();
    this.set({
      wallet: undefined, account: undefined, balance: undefined, step: undefined, notice: undefined, session: "out",
      ...next,
    });
  }

  // changed follows a wallet that shows another account or chain.
  async #changed(): Promise<void> {
    const { wallet, account, step } = this.state;
    if (!wallet || step) return;
    const asked = this.#asked;
    const [shown] = await accountsOf(wallet, "shown").catch(() => []);
    if (this.#asked !== asked) return;
    if (shown?.toLowerCase() === account?.toLowerCase()) return void this.funds();
    this.#reset({ wallet });
    this.#unfollow = followWallet(wallet, () => void this.#changed());
    await this.#use(shown);
  }

  async #use(account: string | undefined): Promise<void> {
    const { wallet, chain, config } = this.state;
    if (!wallet || !chain || !config) return;
    if (account === undefined) return this.#reset({});
    const asked = this.#asked;
    const { buyerOf } = await this.paying();
    const buyer = await buyerOf(config, wallet, account);
    if (this.#asked !== asked) return;
    this.#buyer = buyer;
    this.set({ account, step: "switching" });
    const elsewhere = await notOn(wallet, chain);
    if (this.#asked !== asked) return;
    this.set({ step: undefined, notice: elsewhere && { kind: elsewhere }, choosing: elsewhere !== undefined });
    await this.funds();
  }

  /** Brings the wallet to the chain again, after it has refused. */
  async again(): Promise<void> {
    await this.#use(this.state.account);
  }

  /** Reads what the wallet has. A wallet whose node does not tell is not kept from paying: the service checks, too. */
  async funds(): Promise<void> {
    const { wallet, account, config } = this.state;
    const asset = config?.network?.asset;
    if (!wallet || !account || !asset) return;
    const balance = await tokenBalance(wallet.provider, asset, account).catch(() => undefined);
    if (this.state.account === account) this.set({ balance });
  }

  /** Signs in, once: whatever belongs to the wallet can be read then. */
  async signIn(): Promise<void> {
    const { session, account } = this.state;
    if (session === "signing" || session === "in" || !account) return;
    this.set({ session: "signing", ownedNotice: undefined });
    const { signal } = (this.#signingIn = new AbortController());
    try {
      const { expiresAt } = await this.buyer.auth.signIn({ signal });
      if (signal.aborted) return;
      this.set({ session: "in" });
      this.owned.begin(expiresAt);
    } catch (error) {
      if (!signal.aborted) this.set({ session: "out", ownedNotice: noticeOf(error) });
    }
  }

  /** Gives up waiting for the wallet's signature. */
  cancelSignIn(): void {
    this.#signingIn?.abort();
    this.set({ session: "out" });
  }

  /** Ends the session; the wallet stays connected. */
  signOut(): void {
    void this.buyer.auth.signOut().catch(() => undefined);
    this.owned.clear();
    this.set({ session: "out" });
  }
}
