// How the shop looks: its frame, the wallet, and one view at a time.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { About } from "../lib/notice.js";
import { lazy } from "../lib/lazy.js";
import { Brand, Icon, Message, NoticeBox, Spinner, Waiting, Wallets } from "../lib/parts.js";
import { short, texts, usdc } from "../lib/text.js";
import { CardView } from "./card.js";
import { Payments, SaleSheet } from "./sale.js";
import type { Shop } from "./shop.js";
import type { State } from "./state.js";

const t = texts.shop;
const EsimsView = lazy<Props>(async () => (await import("./esims.js")).EsimsView);
const OrdersView = lazy<Props>(async () => (await import("./orders.js")).OrdersView);

export interface Props {
  state: State;
  shop: Shop;
}

export function ShopPage({ state, shop }: Props) {
  const { at, away, view } = state;
  return (
    <div class="shop">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), focusContent())}>
        {t.skip}
      </a>
      <div class="top">
        <Brand chain={state.chain}>
          <WalletButton state={state} shop={shop} />
        </Brand>
        <nav aria-label={t.nav}>
          <Tab to="card" state={state} name={t.navCard} />
          <Tab to="esims" state={state} name={t.navEsims} />
          <Tab to="orders" state={state} name={t.navOrders} />
        </nav>
      </div>
      <main id="content" tabIndex={-1} aria-busy={at === "loading"}>
        {away && <Message tone="bad" title={texts.pay.offline} text={t.away} />}
        {!state.sale && !state.choosing && <NoticeBox notice={state.notice} about={aboutOf(state)} />}
        <Payments state={state} shop={shop} />
        {at === "loading" ? (
          !away && <Loading text={t.loading} />
        ) : (
          <>
            {view.at === "card" && <CardView state={state} shop={shop} />}
            {view.at === "esims" && <EsimsView state={state} shop={shop} />}
            {view.at === "orders" && <OrdersView state={state} shop={shop} />}
          </>
        )}
      </main>
      {state.choosing && <WalletSheet state={state} shop={shop} />}
      {state.sale && !state.choosing && <SaleSheet state={state} shop={shop} sale={state.sale} />}
    </div>
  );
}

function focusContent(): void {
  document.querySelector<HTMLElement>("#content")?.focus();
}

function Tab({ to, name, state }: { to: State["view"]["at"]; name: string; state: State }) {
  return (
    <a href={`#${to}`} aria-current={state.view.at === to ? "page" : undefined}>
      {name}
    </a>
  );
}

/** What notices of the shop are about. */
export function aboutOf({ account, balance, chain, sale }: State): About {
  const price = BigInt(sale?.item.cents ?? 0) * 10_000n;
  return { account, balance, price, network: chain?.name ?? "", refused: t.impossible };
}

export function Loading({ text }: { text: string }) {
  return (
    <div class="waiting" role="status">
      <Spinner />
      {text}
    </div>
  );
}

function WalletButton({ state, shop }: Props) {
  const { wallet, account, balance, step } = state;
  if (!wallet || !account || step)
    return (
      <button class="chip" disabled={state.at === "loading"} onClick={() => shop.choose()}>
        {t.connect}
      </button>
    );
  return (
    <button class="chip" onClick={() => shop.choose()}>
      <Icon wallet={wallet} />
      <span class="chip-text">
        <span class="mono">{short(account)}</span>
        {balance !== undefined && <small>{t.available(usdc(balance))}</small>}
      </span>
    </button>
  );
}

/** A sheet above the page, until it is closed. */
export function Sheet({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const { current } = dialog;
    if (!current?.open) current?.showModal();
    return () => current?.close();
  }, []);
  const cancelled = (event: Event) => {
    event.preventDefault();
    close();
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="sheet-title" onCancel={cancelled}>
      <div class="dialog-head">
        <h2 id="sheet-title">{title}</h2>
        <button class="quiet close" aria-label={t.close} onClick={close}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

// WalletSheet chooses a wallet, or tells of the one that is connected.
function WalletSheet({ state, shop }: Props) {
  const { wallet, wallets, account, step, notice } = state;
  return (
    <Sheet title={account && !step ? t.wallet : t.chooseWallet} close={() => shop.choose(false)}>
      <div class="stack">
        <NoticeBox notice={notice} about={aboutOf(state)} />
        {step ? (
          <Waiting step={step} wallet={wallet} chain={state.chain?.name ?? ""} cancel={() => shop.cancel()} />
        ) : wallet && account ? (
          <Connected state={state} shop={shop} />
        ) : (
          <Wallets
            wallets={wallets}
            title={t.connect}
            hint={t.chooseHint}
            disabled={false}
            choose={(each) => void shop.connect(each)}
          />
        )}
      </div>
    </Sheet>
  );
}

function Connected({ state, shop }: Props) {
  const { wallet, account = "", balance, notice, session } = state;
  return (
    <>
      <p class="account">
        {wallet && <Icon wallet={wallet} />}
        <span>
          <span>{wallet?.name || texts.pay.unnamedWallet}</span>
          <small class="mono">{account}</small>
          {balance !== undefined && <small>{texts.pay.balance(usdc(balance))}</small>}
        </span>
      </p>
      {notice && (
        <button class="main" onClick={() => void shop.again()}>
          {texts.retry}
        </button>
      )}
      {session === "in" && (
        <button class="second" onClick={() => shop.signOut()}>
          {t.signOut}
        </button>
      )}
      <button class="quiet" onClick={() => shop.disconnect()}>
        {t.disconnect}
      </button>
    </>
  );
}

/** What there is to do before what a wallet owns is shown; nothing when it is signed in. */
export function Gate({ state, shop }: Props) {
  const { session, account, ownedNotice } = state;
  if (session === "in") return null;
  if (session === "signing")
    return (
      <section class="panel gate">
        <Loading text={t.signingIn} />
        <button class="quiet" onClick={() => shop.cancelSignIn()}>
          {texts.cancel}
        </button>
      </section>
    );
  return (
    <section class="panel gate">
      <h2>{t.mine}</h2>
      {session === "over" && <Message tone="warn" title={t.signedOut} text="" />}
      <NoticeBox notice={ownedNotice} about={aboutOf(state)} />
      <p class="soft">{account ? t.signInText : t.mineText}</p>
      <button class="second" onClick={() => (account ? void shop.signIn() : shop.choose())}>
        {account ? t.signIn : t.connect}
      </button>
    </section>
  );
}
