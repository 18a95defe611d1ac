// What a card was used for, what it may be used for, and what merchants ask for.
import type { Card, CardLimits, CardTransaction, Page } from "roamcard";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Fact, Message, NoticeBox, Spinner } from "../lib/parts.js";
import { dollars, texts, when } from "../lib/text.js";
import { useAct, useRead } from "./act.js";
import { centsOf } from "./cents.js";
import { aboutOf, type Props } from "./page.js";

const t = texts.shop;
type Of = Props & { card: Card };

// Folded is a part that is read when it is opened.
function Folded({ title, children }: { title: string; children: () => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="part" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{title}</h2>
      </summary>
      {open && children()}
    </details>
  );
}

export function TransactionsPart(of: Of) {
  return <Folded title={t.transactions}>{() => <Transactions {...of} />}</Folded>;
}

function Transactions({ card, shop, state }: Of) {
  const [items, setItems] = useState<CardTransaction[]>();
  const [page, setPage] = useState<Page<CardTransaction>>();
  const { busy, notice, run } = useAct();
  const show = (before: CardTransaction[], read: () => Promise<Page<CardTransaction>>) =>
    void run(async () => {
      const next = await read();
      setItems([...before, ...next.items]);
      setPage(next);
    });
  const begin = () => show([], () => shop.buyer.cards.transactions(card.id, { pageSize: 10 }).page());
  useEffect(begin, [card.id]);
  return (
    <div class="stack">
      <NoticeBox notice={notice} about={aboutOf(state)} />
      {busy && !items && <Spinner />}
      {items?.length === 0 && <p class="soft">{t.noTransactions}</p>}
      {items && items.length > 0 && (
        <ul class="lines">
          {items.map((each) => (
            <Transaction key={each.id} of={each} />
          ))}
        </ul>
      )}
      <div class="row">
        <button class="quiet" disabled={busy} onClick={begin}>
          {t.refresh}
        </button>
        {page?.hasNext && (
          <button class="quiet" disabled={busy} onClick={() => show(items ?? [], () => page.next())}>
            {t.showMore}
          </button>
        )}
      </div>
    </div>
  );
}

function Transaction({ of }: { of: CardTransaction }) {
  const { kind, status, amountUsdCents, merchant, at, declineReason } = of;
  const sign = kind === "refund" ? "+" : "−";
  const why = declineReason ? `: ${t.declined[declineReason] ?? t.declined.other}` : "";
  return (
    <li class={status === "declined" || status === "reversed" ? "line off" : "line"}>
      <span class="line-text">
        <span class="stranger">{merchant?.name ?? ""}</span>
        <small>
          {at && when(at)} · {t.transactionKind[kind]}, {t.transactionStatus[status]}
          {why}
        </small>
      </span>
      <span class="amount">
        {sign} {dollars(amountUsdCents)}
      </span>
    </li>
  );
}

export function LimitsPart(of: Of) {
  return <Folded title={t.limits}>{() => <Limits {...of} />}</Folded>;
}

function Limits({ card, shop, state }: Of) {
  const { value, act } = useRead(() => shop.buyer.cards.limits(card.id), card.id);
  return (
    <div class="stack">
      <NoticeBox notice={act.notice} about={aboutOf(state)} />
      {act.busy && !value && <Spinner />}
      {value && <LimitsForm card={card} shop={shop} state={state} limits={value} />}
    </div>
  );
}

type Rule = "none" | "blocked" | "allowed";

function LimitsForm({ card, shop, state, limits }: Of & { limits: CardLimits }) {
  const { limitKinds = [], oneLimitAmount } = state.cardTerms?.controls ?? {};
  const { allowedCategories: allowed, blockedCategories: blocked } = limits;
  const [once, setOnce] = useState(amountOf(limits.perTransactionUsdCents));
  const [month, setMonth] = useState(amountOf(limits.perMonthUsdCents));
  const [rule, setRule] = useState<Rule>(allowed.length > 0 ? "allowed" : blocked.length > 0 ? "blocked" : "none");
  const [codes, setCodes] = useState([...allowed, ...blocked].join(", "));
  const [saved, setSaved] = useState(false);
  const { busy, notice, run } = useAct();
  const submit = (event: Event) => {
    event.preventDefault();
    setSaved(false);
    const list = codes.split(/[\s,]+/).filter(Boolean);
    const [perTransactionUsdCents, perMonthUsdCents] = [centsOf(once), centsOf(month)];
    void run(() =>
      shop.buyer.cards.setLimits(card.id, {
        ...(perTransactionUsdCents !== undefined && { perTransactionUsdCents }),
        ...(perMonthUsdCents !== undefined && { perMonthUsdCents }),
        ...(rule === "allowed" && { allowedCategories: list }),
        ...(rule === "blocked" && { blockedCategories: list }),
      }),
    ).then(setSaved);
  };
  const wrong = [once, month].some((text) => text.trim() !== "" && centsOf(text) === undefined);
  return (
    <form class="stack" onSubmit={submit}>
      <p class="soft">{t.limitsText}</p>
      {limitKinds.includes("per_transaction") && <Amount name={t.perTransaction} value={once} set={setOnce} />}
      {limitKinds.includes("per_month") && <Amount name={t.perMonth} value={month} set={setMonth} />}
      {oneLimitAmount && <p class="hint left">{t.oneLimit}</p>}
      {limitKinds.includes("merchant_categories") && (
        <>
          <label class="field">
            <span>{t.categories}</span>
            <input value={codes} disabled={rule === "none"} onInput={(event) => setCodes(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span class="hidden">{t.categories}</span>
            <select value={rule} onChange={(event) => setRule(event.currentTarget.value as Rule)}>
              <option value="none">{t.categoriesNone}</option>
              <option value="blocked">{t.categoriesBlocked}</option>
              <option value="allowed">{t.categoriesAllowed}</option>
            </select>
          </label>
        </>
      )}
      <NoticeBox notice={notice} about={aboutOf(state)} />
      {saved && <Message tone="good" title={t.saved} text="" />}
      <button class="second" disabled={busy || wrong}>
        {t.save}
      </button>
    </form>
  );
}

function amountOf(cents: number | undefined): string {
  return cents === undefined ? "" : String(cents / 100);
}

function Amount({ name, value, set }: { name: string; value: string; set: (value: string) => void }) {
  const wrong = value.trim() !== "" && centsOf(value) === undefined;
  return (
    <label class="field">
      <span>{name}</span>
      <input
        inputMode="decimal"
        value={value}
        aria-invalid={wrong}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

export function DetailsPart(of: Of) {
  return <Folded title={t.details}>{() => <Details {...of} />}</Folded>;
}

function Details({ card, shop, state }: Of) {
  const { value, act } = useRead(() => shop.buyer.cards.details(card.id), card.id);
  const { billingAddress: at, threeDSecure } = value ?? {};
  const methods = t.threeDSecureMethods as Record<string, string>;
  const lines = at && [at.name, at.line1, at.line2, `${at.city} ${at.region ?? ""} ${at.postalCode}`, at.country];
  return (
    <div class="stack">
      <NoticeBox notice={act.notice} about={aboutOf(state)} />
      {act.busy && !value && <Spinner />}
      {lines && (
        <address>
          {lines.filter(Boolean).map((line, i) => (
            <span key={i} class="address-line">
              {line}
            </span>
          ))}
        </address>
      )}
      {threeDSecure && (
        <dl class="facts">
          <Fact name={t.threeDSecure}>{methods[threeDSecure.method] ?? threeDSecure.method}</Fact>
        </dl>
      )}
      {threeDSecure?.destination && <p class="soft">{threeDSecure.destination}</p>}
      {threeDSecure?.instructions && <p class="soft">{threeDSecure.instructions}</p>}
    </div>
  );
}
