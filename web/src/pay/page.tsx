// How the page of an order looks.
import { useEffect } from "preact/hooks";
import type { About } from "../lib/notice.js";
import { deliveredOf, isMoving, kindOf } from "../lib/order.js";
import {
  Address, Brand, Fact, Icon, Message, NoticeBox, outcomeOf, PayButton, Spinner, Steps, TimeLeft, TransactionLink,
  Waiting, Wallets,
} from "../lib/parts.js";
import { dollars, short, texts, usdc } from "../lib/text.js";
import type { PayFlow, State } from "./flow.js";

const t = texts.pay;

interface Props {
  state: State;
  flow: PayFlow;
}

export function PayPage({ state, flow }: Props) {
  const { order, at } = state;
  const title = order ? `${kindOf(order.kind)}, ${dollars(order.amountUsdCents)}` : t.title;
  useEffect(() => {
    document.title = texts.documentTitle(title);
  }, [title]);
  return (
    <div class="shell">
      <Brand chain={state.chain} />
      <main class="sheet" aria-busy={at === "loading"}>
        {order ? <Order state={state} flow={flow} /> : <Without state={state} flow={flow} />}
      </main>
    </div>
  );
}

// Without is the page before there is an order to show.
function Without({ state: { at, notice }, flow }: Props) {
  if (at === "missing") return <Message tone="bad" title={t.missing} text={t.missingText} heading />;
  if (at === "offline")
    return (
      <Message tone="bad" title={t.offline} text={t.offlineText} requestId={notice?.requestId} heading>
        <button class="quiet" onClick={() => void flow.look()}>
          {texts.retry}
        </button>
      </Message>
    );
  return (
    <div class="waiting" role="status">
      <h1 class="hidden">{t.title}</h1>
      <Spinner />
      {texts.loading}
    </div>
  );
}

function Order({ state, flow }: Props) {
  const { at, order } = state;
  if (!order) return null;
  const [, about = order.description] = /^[^:]*: (.*)$/s.exec(order.description) ?? [];
  return (
    <>
      <section class="what">
        <p class="kind">{kindOf(order.kind)}</p>
        <h1 class="price">{dollars(order.amountUsdCents)}</h1>
        <p class="units">{t.amountIn(usdc(BigInt(order.amount)))}</p>
        <p class="about" lang="en">
          {about}
        </p>
      </section>
      <dl class="facts">
        <Fact name={t.payee}>
          <Address value={order.payTo} />
        </Fact>
        <Fact name={t.network}>{state.chain?.name}</Fact>
        <Fact name={t.owner}>
          <span class="mono">{order.owner}</span>
        </Fact>
        {at === "open" && order.expiresAt && (
          <Fact name={t.expires}>
            <TimeLeft until={order.expiresAt} over={() => void flow.look()} />
          </Fact>
        )}
      </dl>
      {at === "open" && <Paying state={state} flow={flow} />}
      {at === "paid" && <Paid state={state} />}
      {at === "closed" && <Closed state={state} />}
    </>
  );
}

// Paying is what there is to do while the order can be paid.
function Paying({ state, flow }: Props) {
  const { order, notice, step, wallet, wallets, account, balance, ready } = state;
  if (!order) return null;
  const blocked = notice?.kind === "notPayable" || notice?.kind === "unavailable";
  return (
    <section class="do">
      <NoticeBox notice={state.notice} about={aboutOf(state)} />
      {step ? (
        <Waiting
          step={step}
          wallet={wallet}
          chain={state.chain?.name ?? ""}
          preconfirmed={order.preconfirmed}
          cancel={() => flow.cancel()}
        />
      ) : wallet ? (
        <>
          <p class="account">
            <Icon wallet={wallet} />
            <span>
              <span>{t.connected(short(account ?? ""))}</span>
              {balance !== undefined && <small>{t.balance(usdc(balance))}</small>}
            </span>
          </p>
          {ready ? (
            <PayButton
              text={t.payNow(dollars(order.amountUsdCents))}
              notice={notice}
              disabled={blocked}
              pay={() => void flow.pay()}
            />
          ) : (
            <button class="main" onClick={() => void flow.recheck()}>
              {texts.retry}
            </button>
          )}
          <button class="quiet" onClick={() => flow.leave()}>
            {t.otherWallet}
          </button>
          <p class="hint">{t.terms}</p>
        </>
      ) : (
        <Wallets
          wallets={wallets}
          title={t.choose}
          hint={t.chooseHint(order.owner)}
          disabled={blocked}
          choose={(each) => void flow.choose(each)}
        />
      )}
    </section>
  );
}

// Paid is how far a payment of this browser has come.
function Paid({ state }: { state: State }) {
  const { progress, step, order } = state;
  const status = progress?.status ?? "settling";
  const done = status === "fulfilled";
  const transaction = progress?.payment?.transaction;
  const ended = outcomeOf(status);
  return (
    <section class="do">
      <NoticeBox notice={state.notice} about={aboutOf(state)} />
      {step === "sending" && (
        <div class="waiting" role="status">
          <Spinner />
          <span>{order?.preconfirmed ? t.preconfirmed : t.sending}</span>
        </div>
      )}
      {!step && !ended && (
        <Message
          tone="good"
          title={done ? texts.pay.done : t.paid}
          text={done ? `${deliveredOf(order?.kind)} ${t.deliveredText}` : t.paidText}
        />
      )}
      {ended}
      <Steps signed settled={!["payment_required", "settling"].includes(status)} delivered={done} over={!!ended} />
      <p class="hint">
        <TransactionLink hash={transaction} chain={state.chain} />
      </p>
      <SignedReceipt order={progress} />
    </section>
  );
}

// SignedReceipt saves the receipt as it was signed, once there is one.
function SignedReceipt({ order }: { order: State["progress"] }) {
  if (!order?.receipt) return null;
  return (
    <p class="hint">
      <a download={`receipt-${order.orderId}.jws`} href={`data:application/jose,${order.receipt}`}>
        {t.receipt}
      </a>
    </p>
  );
}

// Closed is an order that nobody can pay any more.
function Closed({ state: { order } }: { state: State }) {
  const status = order?.status ?? "";
  if (status === "expired")
    return (
      <section class="do">
        <Message tone="bad" title={t.expired} text={t.expiredText} />
      </section>
    );
  const [done, ended] = [status === "fulfilled", outcomeOf(status)];
  const text = done ? `${t.stepDelivered}. ${t.deliveredText}` : t.paidText; // it may have been given back since
  return (
    <section class="do">
      {ended ?? <Message tone="good" title={t.paidElsewhere} text={text} />}
      {order?.preconfirmed && <p class="hint">{t.preconfirmed}</p>}
      <Steps signed settled={status !== "settling"} delivered={done} over={!isMoving(status) && !done} />
    </section>
  );
}

// aboutOf is what notices of this page are about.
function aboutOf({ order, account, balance, chain }: State): About {
  return { owner: order?.owner, account, balance, price: BigInt(order?.amount ?? 0), network: chain?.name ?? "" };
}
