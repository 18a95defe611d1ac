// What happens on the page of an order, without how it looks: from the link to the delivery.
import { ApiError, eip1193Signer, isMasked, type LinkPayment, PayLink } from "roamcard";
import {
  discoverWallets, ensureChain, IndexedDbStore, tokenBalance, type Wallet, type WalletChain, walletCode,
} from "roamcard/browser";
import { type Notice, type NoticeKind, noticeOf } from "../lib/notice.js";
import { isMoving } from "../lib/order.js";
import { accountsOf, chainOf, followWallet, notOn, type Step } from "../lib/wallet.js";

type PayableOrder = Awaited<ReturnType<PayLink["read"]>>;
type Order = LinkPayment["order"];

export interface State {
  /** open: it can be paid. closed: it cannot be paid any more. paid: a payment of this browser is on its way. */
  at: "loading" | "missing" | "offline" | "open" | "closed" | "paid";
  order?: PayableOrder | undefined;
  chain?: WalletChain | undefined;
  asset?: string | undefined;
  wallets: Wallet[];
  wallet?: Wallet | undefined;
  account?: string | undefined;
  balance?: bigint | undefined;
  /** The account may pay: it is the right one, on the right chain, and has enough. */
  ready?: boolean | undefined;
  step?: Step | undefined;
  notice?: Notice | undefined;
  /** The paid order as it moves on. */
  progress?: Order | undefined;
}

/** How often the page looks again while something is closed or does not answer. */
const lookEvery = 3_000;
const askEvery = 15_000;
/** How often the page asks for the block that is being built while a payment is on its way. */
const previewEvery = 500;

/** One order on its page. */
export class PayFlow {
  state: State = { at: "loading", wallets: [] };
  readonly #link: PayLink;
  readonly #show: (state: State) => void;
  readonly #tabs: BroadcastChannel;
  #signing: AbortController | undefined;
  #unfollow: (() => void) | undefined;
  #looking = false;
  #previewing = false;
  #resuming = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Counts the wallets that were asked: the answer of one that is not asked any more is ignored. */
  #asked = 0;

  constructor(orderId: string, show: (state: State) => void) {
    const store = new IndexedDbStore();
    this.#show = show;
    this.#link = new PayLink({
      baseUrl: location.origin, orderId, store, events: { onSigned: () => this.#signed() },
    });
    this.#tabs = new BroadcastChannel(`roamcard pay ${orderId}`);
    this.#tabs.onmessage = () => void this.look();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.look();
    });
    discoverWallets((wallets) => this.#set({ wallets }));
    void this.look();
  }

  #set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.#show(this.state);
  }

  #signed(): void {
    this.#set({ step: "sending", notice: undefined });
    this.#tabs.postMessage("signed");
    void this.#preview();
  }

  // preview shows whether the payment that is on its way is in the block that is being built, where the service looks.
  // Nothing is decided by it: the answer to the payment is.
  async #preview(): Promise<void> {
    if (this.#previewing) return;
    this.#previewing = true;
    try {
      while (this.state.step === "sending") {
        await new Promise((done) => setTimeout(done, previewEvery));
        const order = await this.#link.read();
        if (this.state.step !== "sending") return;
        const looks = order.status === "payment_required" || order.preconfirmed !== undefined;
        if (order.preconfirmed) this.#set({ order });
        if (!looks || order.preconfirmed) return;
      }
    } catch {
      // It is only a hint: what becomes of the payment is asked elsewhere.
    } finally {
      this.#previewing = false;
    }
  }

  #later(ms: number, what: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(what, ms);
  }

  /** Reads the order and what this browser has of it, unless something is under way. */
  async look(): Promise<void> {
    if (this.#looking || this.state.step || this.state.at === "paid") return;
    this.#looking = true;
    try {
      await this.#look();
    } finally {
      this.#looking = false;
    }
  }

  async #look(): Promise<void> {
    try {
      const [config, order] = await Promise.all([this.#link.config(), this.#link.read()]);
      this.#set({ order, asset: config.network?.asset, chain: chainOf(config) });
      const kept = await this.#link.kept().catch(() => undefined);
      if (kept && ["signed", "settled"].includes(kept.state)) return void this.#resume();
      if (order.status === "payment_required") return await this.#open();
      this.#set({ at: "closed", step: undefined });
      if (isMoving(order.status)) this.#later(lookEvery, () => void this.look());
    } catch (error) {
      // An id that no order can have is refused with 400.
      if (error instanceof ApiError && [400, 404].includes(error.status)) return this.#set({ at: "missing" });
      if (this.state.at === "loading") this.#set({ at: "offline", notice: noticeOf(error) });
      this.#later(lookEvery, () => void this.look());
    }
  }

  // open shows that the order can be paid, or why not now.
  async #open(): Promise<void> {
    const kinds: NoticeKind[] = ["unavailable", "offline", "notPayable"];
    const told = this.state.notice && kinds.includes(this.state.notice.kind);
    try {
      await this.#link.ask();
      this.#set({ at: "open", ...(told && { notice: undefined }) });
    } catch (error) {
      this.#set({ at: "open", notice: noticeOf(error) });
      this.#later(askEvery, () => void this.look());
    }
  }

  /** Connects a wallet and looks whether it can pay. */
  async choose(wallet: Wallet): Promise<void> {
    this.#drop({ wallet, step: "connecting" });
    const asked = this.#asked;
    try {
      const accounts = await accountsOf(wallet, "asked");
      if (this.#asked !== asked) return;
      this.#unfollow = followWallet(wallet, () => void this.recheck());
      await this.#check(accounts);
    } catch (error) {
      if (this.#asked === asked) this.#walletFailed(error);
    }
  }

  /** Lets the person choose another wallet. */
  leave(): void {
    this.#drop({});
  }

  #drop(next: Partial<State>): void {
    this.#asked++;
    this.#unfollow?.();
    this.#unfollow = undefined;
    this.#set({
      wallet: undefined, account: undefined, balance: undefined, ready: false, step: undefined, notice: undefined,
      ...next,
    });
  }

  /** Looks again whether the connected wallet can pay. */
  async recheck(): Promise<void> {
    const { wallet, step, at } = this.state;
    if (!wallet || at !== "open" || step) return;
    const asked = this.#asked;
    try {
      const accounts = await accountsOf(wallet, "shown");
      if (this.#asked === asked) await this.#check(accounts);
    } catch (error) {
      if (this.#asked === asked) this.#walletFailed(error);
    }
  }

  async #check(accounts: string[]): Promise<void> {
    const { order, chain, asset, wallet } = this.state;
    if (!order || !chain || !asset || !wallet) return;
    const account = accounts.find((each) => isMasked(order.owner, each)) ?? accounts[0];
    this.#set({ account, ready: false, notice: undefined });
    if (account === undefined) return this.#set({ wallet: undefined, step: undefined });
    if (!isMasked(order.owner, account)) return this.#set({ step: undefined, notice: { kind: "wrongWallet" } });
    this.#set({ step: "switching" });
    const asked = this.#asked;
    const elsewhere = await notOn(wallet, chain);
    if (this.#asked !== asked) return;
    if (elsewhere) return this.#set({ step: undefined, notice: { kind: elsewhere } });
    this.#set({ step: "checking" });
    // A wallet whose node does not tell is not kept from paying: the service checks, too.
    const balance = await tokenBalance(wallet.provider, asset, account).catch(() => undefined);
    if (this.#asked !== asked) return;
    const poor = balance !== undefined && balance < BigInt(order.amount);
    this.#set({ balance, step: undefined, ready: !poor, ...(poor && { notice: { kind: "poor" } }) });
  }

  /** Asks the wallet for the one signature, sends it, and follows the order. */
  async pay(): Promise<void> {
    const { wallet, account, ready, step, chain } = this.state;
    if (!wallet || !account || !ready || !chain || step) return;
    const { signal } = (this.#signing = new AbortController());
    this.#set({ step: "signing", notice: undefined });
    try {
      await ensureChain(wallet.provider, chain);
      signal.throwIfAborted();
      const signer = await eip1193Signer(wallet.provider, account);
      const paid = await this.#link.pay(signer, signal);
      void this.#paid(paid);
    } catch (error) {
      // Who gave up may have begun again.
      if (!signal.aborted || this.state.step === "sending") this.#failed(error);
    }
  }

  /** Gives up waiting for the wallet; what it signs later is not sent. */
  cancel(): void {
    if (this.state.step === "sending") return;
    this.#signing?.abort(new DOMException("cancelled", "AbortError"));
    if (this.state.ready) this.#set({ step: undefined });
    else this.#drop({});
  }

  // resume sends what was signed until the answer is clear. The wallet is not needed.
  async #resume(): Promise<void> {
    if (this.#resuming) return;
    this.#resuming = true;
    try {
      this.#set({ at: "paid", step: "sending" });
      void this.#preview();
      const paid = await this.#link.resume();
      void this.#paid(paid);
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#resuming = false;
    }
  }

  async #paid(paid: LinkPayment): Promise<void> {
    this.#unfollow?.();
    clearTimeout(this.#timer);
    this.#set({ at: "paid", step: undefined, notice: undefined, progress: paid.order });
    try {
      for await (const progress of this.#link.watch(paid)) this.#set({ progress });
    } catch (error) {
      this.#set({ notice: noticeOf(error) });
    }
  }

  #walletFailed(error: unknown): void {
    const kind = walletCode(error) === 4001 ? "refused" : "walletFailed";
    this.#set({ step: undefined, wallet: undefined, account: undefined, ready: false, notice: { kind } });
  }

  #failed(error: unknown): void {
    const notice = noticeOf(error);
    if (["unknown", "paused", "unavailable", "offline"].includes(notice.kind) && this.state.step === "sending") {
      // Something was signed: only its outcome is of interest now.
      const kind = notice.kind === "paused" ? "paused" : "unknown";
      this.#set({ at: "paid", step: "sending", notice: { ...notice, kind } });
      return this.#later(lookEvery, () => void this.#resume());
    }
    this.#set({ at: "open", step: undefined, notice });
    if (error instanceof ApiError) this.#later(lookEvery, () => void this.look());
  }
}
