// A purchase on its sheet: terms, one signature, and how far it has come.
import type { EsimPlan, Order } from "roamcard";
import { lazy } from "../lib/lazy.js";
import { deliveredOf, isMoving, kindOf } from "../lib/order.js";
import {
  Address, Fact, Message, NoticeBox, outcomeOf, PayButton, Spinner, Steps, TransactionLink, Waiting,
} from "../lib/parts.js";
import { dollars, short, texts, usdc } from "../lib/text.js";
import { dataOf } from "./data.js";
import type { CodeProps } from "./esim-code.js";
import { aboutOf, type Props, Sheet } from "./page.js";
import type { Payment, Sale } from "./state.js";

const t = texts.shop;
const EsimCode = lazy<CodeProps>(async () => (await import("./esim-code.js")).EsimCode);

export function SaleSheet({ state, shop, sale }: Props & { sale: Sale }) {
  const { item, step } = sale;
  const title = step === "paid" ? kindOf(item.kind) : t.saleTitle;
  return (
    <Sheet title={title} close={() => shop.sales.close()}>
      <div class="stack">
        {step === "paid" && sale.order ? (
          <Bought state={state} shop={shop} sale={sale} order={sale.order} />
        ) : (
          <Terms state={state} shop={shop} sale={sale} />
        )}
      </div>
    </Sheet>
  );
}

function Terms({ state, shop, sale }: Props & { sale: Sale }) {
  const { item, step, notice, client } = sale;
  const { config, wallet, chain } = state;
  const account = client?.address ?? state.account;
  const units = BigInt(item.cents) * 10_000n;
  return (
    <>
      <p class="what-kind">{kindOf(item.kind)}</p>
      {item.plan && <PlanLine plan={item.plan} />}
      <dl class="facts">
        <Fees state={state} sale={sale} />
        <Fact name={t.total}>
          <strong>{dollars(item.cents)}</strong>
          <small class="units">{texts.pay.amountIn(usdc(units))}</small>
        </Fact>
        <Fact name={t.payTo}>
          <Address value={config?.network?.payTo ?? ""} />
        </Fact>
        <Fact name={texts.pay.network}>{chain?.name}</Fact>
        {account && (
          <Fact name={t.payWith}>
            <span class="mono">{short(account)}</span>
          </Fact>
        )}
      </dl>
      <p class="small soft">
        {t.saleTerms} {item.kind === "esim" && t.saleEsimTerms}
      </p>
      <NoticeBox notice={notice} about={aboutOf(state)} />
      {step === "signing" || step === "sending" ? (
        <>
          <Waiting step={step} wallet={wallet} chain={chain?.name ?? ""} cancel={() => shop.sales.cancel()} />
          {step === "sending" && <p class="hint">{t.goesOn}</p>}
        </>
      ) : (
        <Buying state={state} shop={shop} sale={sale} />
      )}
    </>
  );
}

function PlanLine({ plan }: { plan: EsimPlan }) {
  return (
    <p>
      <strong>{dataOf(plan)}</strong>, {t.days(plan.validityDays)}
      <br />
      <span class="stranger soft" lang="en">
        {plan.name}
      </span>
    </p>
  );
}

// Fees are what is kept of the price.
function Fees({ state, sale: { item } }: { state: Props["state"]; sale: Sale }) {
  const terms = state.config?.card;
  if (!terms) return null;
  if (item.kind === "card_issue")
    return (
      <>
        <Fact name={t.cardFee}>{dollars(terms.cardIssueFeeUsdCents)}</Fact>
        <Fact name={t.cardCredit}>{dollars(terms.expectedAvailableAfterIssueUsdCents)}</Fact>
      </>
    );
  if (item.kind !== "card_topup") return null;
  const fee = Math.floor((item.cents * terms.loadFeeBps) / 10_000);
  const percent = new Intl.NumberFormat(texts.lang, { style: "percent", maximumFractionDigits: 2 });
  return (
    <>
      <Fact name={t.topUpFee(percent.format(terms.loadFeeBps / 10_000))}>{dollars(fee)}</Fact>
      <Fact name={t.topUpCredit}>{dollars(item.cents - fee)}</Fact>
    </>
  );
}

// Buying asks for a wallet first, and is not there for one that has too little.
function Buying({ state, shop, sale }: Props & { sale: Sale }) {
  const { account, balance, config } = state;
  if (!account)
    return (
      <button class="main" onClick={() => shop.choose()}>
        {t.connect}
      </button>
    );
  const { card, esim } = config ?? {};
  const paused = {
    card_issue: card?.issuePaused, card_topup: card?.topupPaused, esim: esim?.purchasePaused,
    esim_topup: esim?.topupPaused,
  }[sale.item.kind];
  if (paused) return <Message tone="warn" title={t.pausedTitle} text={t.pausedText} />;
  if (balance !== undefined && balance < BigInt(sale.item.cents) * 10_000n)
    return (
      <>
        <NoticeBox notice={{ kind: "poor" }} about={aboutOf(state)} />
        <button class="second" onClick={() => void shop.funds()}>
          {t.checkAgain}
        </button>
      </>
    );
  return (
    <>
      {balance !== undefined && <p class="hint">{texts.pay.balance(usdc(balance))}</p>}
      <PayButton text={t.payNow(dollars(sale.item.cents))} notice={sale.notice} pay={() => void shop.sales.pay()} />
    </>
  );
}

// Bought is what became of a payment.
function Bought({ state, shop, sale, order }: Props & { sale: Sale; order: Order }) {
  const { client, delivered } = sale;
  const { status, kind, payment } = order;
  const [done, ended] = [status === "fulfilled", outcomeOf(status)];
  const waits = kind === "esim" && delivered?.deliveryToken !== undefined;
  const unseen = !done && !ended && state.session !== "in" && !waits && shop.isConnected(client);
  const text = done ? deliveredOf(kind) : waits ? t.deliveryWait : texts.pay.paidText;
  return (
    <>
      {ended ?? <Message tone="good" title={done ? texts.pay.done : texts.pay.paid} text={text} />}
      <Steps
        signed
        settled={!["payment_required", "settling"].includes(status)}
        delivered={done}
        over={!isMoving(status)}
      />
      {done && kind === "esim" && client && <EsimCode order={order} delivered={delivered} client={client} />}
      {unseen && <SignInToFollow state={state} shop={shop} />}
      <p class="hint">
        <TransactionLink hash={payment?.transaction} chain={state.chain} />
      </p>
      <Onward kind={kind} shop={shop} />
    </>
  );
}

function SignInToFollow({ state, shop }: Props) {
  if (state.session === "signing")
    return (
      <div class="waiting" role="status">
        <Spinner />
        {t.signingIn}
      </div>
    );
  return (
    <>
      <NoticeBox notice={state.ownedNotice} about={aboutOf(state)} />
      <p class="small soft">{t.signInText}</p>
      <button class="main" onClick={() => void shop.signIn()}>
        {t.signInToFollow}
      </button>
    </>
  );
}

function Onward({ kind, shop }: { kind: Order["kind"]; shop: Props["shop"] }) {
  const card = /^card/.test(kind);
  const leave = () => {
    shop.sales.close();
    location.hash = card ? "#card" : "#orders";
  };
  return (
    <button class="quiet" onClick={leave}>
      {card ? t.toCard : t.toOrders}
    </button>
  );
}

/** What became of payments whose sheet was closed, or whose tab. */
export function Payments({ state, shop }: Props) {
  return (
    <>
      {state.payments.map((each) => (
        <Earlier key={each.key} of={each} state={state} shop={shop} />
      ))}
    </>
  );
}

function Earlier({ of, shop, state }: Props & { of: Payment }) {
  const { step, notice, order, delivered, key, kind, client } = of;
  const waits = notice?.kind === "paused" ? t.resumePaused : notice ? t.resumeUnknown : t.resuming;
  const words = { sending: waits, refused: t.resumeFailed, paid: t.resumed };
  const tone = { sending: "warn", refused: "bad", paid: "good" } as const;
  const title = kind === undefined ? words[step] : `${kindOf(kind)}: ${words[step]}`;
  return (
    <div class="stack resumed">
      <Message tone={tone[step]} title={title} text={order?.status === "fulfilled" ? deliveredOf(order.kind) : ""} />
      {order && outcomeOf(order.status)}
      {order?.status === "fulfilled" && order.kind === "esim" && delivered && (
        <EsimCode order={order} delivered={delivered} client={client} />
      )}
      <p class="hint">
        <TransactionLink hash={order?.payment?.transaction} chain={state.chain} />
      </p>
      {step !== "sending" && (
        <button class="quiet" onClick={() => shop.sales.dismiss(key)}>
          {t.close}
        </button>
      )}
    </div>
  );
}
