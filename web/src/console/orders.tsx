// The orders: those that wait for an operator, oldest first, or those that the filters select.
import type { OrderStatus, ReviewItem } from "roamcard";
import { dollars, texts } from "../lib/text.js";
import { Ago, Code, type Column, List, Pick, Status, word } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";

/** The statuses in which an order is not final, those that somebody waits in first. */
const unfinished = [
  "operator_review", "refund_pending", "provisioning", "settled", "settling", "payment_required",
] as const satisfies readonly OrderStatus[];
const statuses = [...unfinished, "fulfilled", "refunded", "expired"] as const satisfies readonly OrderStatus[];

/** What an order is called. */
export function kindOf(kind: string): string {
  return word(texts.kinds, kind);
}

export function OrderLink({ id, children }: { id: string; children?: string }) {
  return (
    <a class="mono" href={hrefOf("orders", id)}>
      {children ?? id}
    </a>
  );
}

export const orderColumns: Column<ReviewItem>[] = [
  { name: t.columns.waits, cell: ({ since }) => <Ago at={since} /> },
  {
    name: t.columns.order,
    cell: ({ orderId, kind }) => (
      <>
        <OrderLink id={orderId} />
        <br />
        {kindOf(kind)}
      </>
    ),
  },
  { name: t.columns.status, cell: ({ status }) => <Status value={status} /> },
  { name: t.columns.amount, number: true, cell: ({ amountUsdCents }) => dollars(amountUsdCents) },
  { name: t.columns.wallet, cell: ({ owner }) => <Code value={owner} /> },
  { name: t.columns.blocks, cell: ({ reason }) => <span class="strange">{reason}</span> },
];

const nothingSearched = { owner: undefined, transaction: undefined, request: undefined };

export function OrdersPlace({ here }: { here: Here }) {
  const { api, route, watched, turn } = here;
  const { status, kind, owner, transaction, request } = route.query;
  const searched = owner ?? transaction ?? request;
  const shown = status ?? (searched ? "" : "operator_review");
  const sort = route.query.sort ?? "oldest";
  const counts = watched.summary?.orders ?? [];
  const select = (change: Record<string, string | undefined>) => {
    location.hash = hrefOf("orders", undefined, { ...route.query, ...change });
  };
  const query = { status: shown, kind, owner, transaction, requestId: request, sort };
  const of = owner ? t.ofWallet : transaction ? t.ofTransaction : t.ofRequest;
  const mine = counts.filter((each) => (shown === "" || each.status === shown) && (!kind || each.kind === kind));
  return (
    <>
      <h1>{t.places.orders}</h1>
      <div class="chips" role="group" aria-label={t.columns.status}>
        {unfinished.map((each) => {
          const of = counts.filter((row) => row.status === each);
          const count = of.reduce((n, row) => n + row.count, 0);
          const oldest = of.map((row) => row.since ?? "").sort()[0];
          return (
            <button
              key={each}
              type="button"
              class="chip"
              aria-pressed={shown === each}
              onClick={() => select({ status: each, ...nothingSearched })}
            >
              {t.statuses[each]} <strong>{count}</strong>
              {oldest && <small>{t.ago(Date.now() - Date.parse(oldest))}</small>}
            </button>
          );
        })}
      </div>
      <div class="filters">
        <Pick
          name={t.columns.status}
          value={shown}
          pick={(value) => select({ status: value })}
          choices={[
            ...(searched ? [{ value: "", name: t.any }] : []),
            ...statuses.map((value) => ({ value, name: t.statuses[value] })),
          ]}
        />
        <Pick
          name={t.columns.kind}
          value={kind ?? ""}
          pick={(value) => select({ kind: value })}
          choices={[
            { value: "", name: t.any },
            ...Object.entries(texts.kinds).map(([value, name]) => ({ value, name })),
          ]}
        />
        <Pick
          name={t.sort}
          value={sort}
          pick={(value) => select({ sort: value })}
          choices={[
            { value: "oldest", name: t.oldest },
            { value: "newest", name: t.newest },
          ]}
        />
      </div>
      {searched && (
        <p class="searched">
          {of} <Code value={searched} />{" "}
          <a href={hrefOf("orders")}>{t.clear}</a>
        </p>
      )}
      <List
        label={t.places.orders}
        columns={orderColumns}
        load={(pageToken) => api.orders({ ...query, pageToken })}
        of={JSON.stringify(query)}
        mark={watched.summary && mine.map(({ count, latest, since }) => `${count} ${latest} ${since}`).join()}
        turn={turn}
        keyOf={({ orderId }) => orderId}
        empty={shown === "operator_review" && !searched ? t.nothingWaits : t.nothing}
      />
      {shown === "operator_review" && !searched && <p class="hint">{t.queueHint}</p>}
    </>
  );
}

