// The wallet's orders, live, and one of them.
import type { Order } from "roamcard";
import type { Notice } from "../lib/notice.js";
import { isMoving, kindOf } from "../lib/order.js";
import { Fact, Message, NoticeBox, outcomeOf, Steps, TransactionLink } from "../lib/parts.js";
import { dollars, texts, when } from "../lib/text.js";
import { useRead } from "./act.js";
import { EsimOrderParts } from "./esim-order.js";
import { aboutOf, Gate, Loading, type Props } from "./page.js";
import type { OrderKind } from "./state.js";

const t = texts.shop;
const kinds: OrderKind[] = ["card_issue", "card_topup", "esim", "esim_topup"];

export function OrdersView({ state, shop }: Props) {
  const { session, view, ownedNotice } = state;
  if (session !== "in")
    return (
      <>
        <h1 class="title">{t.orders}</h1>
        <Gate state={state} shop={shop} />
      </>
    );
  if (view.of !== undefined) return <OneOrder key={view.of} id={view.of} state={state} shop={shop} />;
  return (
    <>
      <h1 class="title">{t.orders}</h1>
      <NoticeBox notice={ownedNotice} about={aboutOf(state)} />
      <OrderList state={state} shop={shop} />
    </>
  );
}

function OrderList({ state, shop }: Props) {
  const { orders, kind, hasMore } = state;
  const choose = (value: string) => void shop.owned.orders(value === "" ? undefined : (value as OrderKind));
  return (
    <section class="panel">
      <div class="sorting">
        <label class="field line-field">
          <span class="hidden">{t.allKinds}</span>
          <select value={kind ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">{t.allKinds}</option>
            {kinds.map((each) => (
              <option key={each} value={each}>
                {kindOf(each)}
              </option>
            ))}
          </select>
        </label>
        <span class="live">{t.live}</span>
      </div>
      {!orders && <Loading text={t.loading} />}
      {orders?.length === 0 && <p class="soft none">{t.noOrders}</p>}
      <ul class="lines" aria-live="polite">
        {orders?.map((order) => <OrderLine key={order.orderId} order={order} />)}
      </ul>
      {hasMore && (
        <button class="quiet" onClick={() => void shop.owned.more()}>
          {t.showMore}
        </button>
      )}
    </section>
  );
}

function OrderLine({ order }: { order: Order }) {
  const { orderId, kind, status, amountUsdCents, updatedAt, createdAt, expiresAt } = order;
  const at = updatedAt ?? createdAt;
  return (
    <li class="line">
      <a class="line-text" href={`#orders/${encodeURIComponent(orderId)}`}>
        <span>{kindOf(kind)}</span>
        <small class="stranger">{planNameOf(order)}</small>
        <small>{at && when(at)}</small>
      </a>
      <span class="line-end">
        <span class="amount">{dollars(amountUsdCents)}</span>
        <span class={`status ${toneOf(status)}`}>{stateOf(order)}</span>
        {status === "payment_required" && <PayLink orderId={orderId} expiresAt={expiresAt} />}
      </span>
    </li>
  );
}

// PayLink leads to the page that pays the order.
function PayLink({ orderId, expiresAt }: { orderId: string; expiresAt: string | undefined }) {
  return (
    <>
      <a class="second link" href={`/pay/${encodeURIComponent(orderId)}`}>
        {t.pay}
      </a>
      {expiresAt && <small>{t.payUntil(when(expiresAt))}</small>}
    </>
  );
}

function planNameOf({ delivery, esimTopup }: Order): string | undefined {
  return delivery?.planName ?? esimTopup?.planName;
}

function toneOf(status: Order["status"]): string {
  if (status === "fulfilled") return "good";
  return status === "expired" ? "off" : "warn";
}

function stateOf({ status, preconfirmed }: Order): string {
  return t.orderStatus[preconfirmed ? "preconfirmed" : status];
}

function OneOrder({ id, state, shop }: Props & { id: string }) {
  const listed = state.orders?.find(({ orderId }) => orderId === id);
  const read = async () => {
    if (listed) return listed;
    const order = await shop.buyer.orders.get(id);
    shop.owned.took(order);
    return order;
  };
  const { value, act, again } = useRead(read, id);
  const order = listed ?? value;
  return (
    <>
      <p>
        <a href="#orders">← {t.back}</a>
      </p>
      {!order && act.notice && <NotShown notice={act.notice} state={state} again={again} />}
      {!order && act.busy && <Loading text={texts.loading} />}
      {order && <OrderPanel order={order} state={state} shop={shop} />}
    </>
  );
}

// NotShown tells an order that is not there from one that cannot be read now.
function NotShown({ notice, state, again }: { notice: Notice; state: Props["state"]; again: () => void }) {
  if (notice.kind === "notPayable")
    return <Message tone="bad" title={texts.pay.missing} text={notice.detail ?? ""} heading />;
  return (
    <>
      {notice.kind === "unavailable" ? (
        <Message tone="warn" title={texts.pay.offline} text={notice.detail ?? ""} />
      ) : (
        <NoticeBox notice={notice} about={aboutOf(state)} />
      )}
      <button class="second" onClick={again}>
        {texts.retry}
      </button>
    </>
  );
}

function OrderPanel({ order, state, shop }: Props & { order: Order }) {
  const { kind, status, amountUsdCents, createdAt, updatedAt, orderId, payment, refund, expiresAt, topup } = order;
  const paid = !["payment_required", "expired"].includes(status);
  return (
    <section class="panel stack">
      <h1>{kindOf(kind)}</h1>
      <p>
        <span class={`status ${toneOf(status)}`}>{stateOf(order)}</span>
      </p>
      {outcomeOf(status)}
      {paid && (
        <Steps signed settled={status !== "settling"} delivered={status === "fulfilled"} over={!isMoving(status)} />
      )}
      {status === "payment_required" && <PayLink orderId={orderId} expiresAt={expiresAt} />}
      <dl class="facts">
        {planNameOf(order) && (
          <Fact name={t.plan}>
            <span class="stranger">{planNameOf(order)}</span>
          </Fact>
        )}
        <Fact name={t.amount}>{dollars(amountUsdCents)}</Fact>
        {topup && <Fact name={t.topUpCredit}>{dollars(topup.cardCreditUsdCents)}</Fact>}
        {createdAt && <Fact name={t.created}>{when(createdAt)}</Fact>}
        {updatedAt && <Fact name={t.changed}>{when(updatedAt)}</Fact>}
        <Fact name={t.order}>
          <span class="mono small">{orderId}</span>
        </Fact>
      </dl>
      <p class="hint">
        <TransactionLink hash={refund?.transaction ?? payment?.transaction} chain={state.chain} />
      </p>
      {kind === "esim" && status === "fulfilled" && <EsimOrderParts order={order} state={state} shop={shop} />}
    </section>
  );
}
