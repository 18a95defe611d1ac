// What goes on after a sale and waits for an operator: issue fees, closings of cards, cancellations of eSIMs.
import type { ComponentChildren } from "preact";
import type { CardClosing, EsimCancellationJob, FeeJob } from "roamcard";
import { dollars } from "../lib/text.js";
import { type Slice, wordsOf } from "./api.js";
import { closeCard, TransactionField } from "./decide.js";
import { OrderLink } from "./orders.js";
import { type Act, ActButton, Ago, Badge, Code, type Column, List, Pick, Status, word } from "./parts.js";
import { hrefOf, type Place } from "./route.js";
import { type Here, waiting } from "./shell.js";
import { t } from "./text.js";

const statuses = ["operator_review", "failed", "queued", "processing", "succeeded"] as const;

interface WorkProps<T> {
  here: Here;
  place: Place;
  hint: ComponentChildren;
  /** A status that the work of this place cannot have. */
  without?: string;
  load: (select: { status: string; pageToken: string | undefined }) => Promise<Slice<T>>;
  keyOf: (row: T) => string;
  since: (row: T) => string | undefined;
  columns: Column<T>[];
  acts: (row: T) => ComponentChildren;
}

/** Work by its status, which of each shows how long it waits, its order, why it waits and what can be done. */
function Work<T extends Row>({ here, place, hint, without, load, keyOf, since, columns, acts }: WorkProps<T>) {
  const { route, turn, watched } = here;
  // What waits is shown unless somebody has chosen.
  const { status: chosen = "operator_review" } = route.query;
  const status = chosen === "any" ? "" : chosen;
  return (
    <>
      <h1>{t.places[place]}</h1>
      <p class="hint">{hint}</p>
      <div class="filters">
        <Pick
          name={t.columns.status}
          value={status}
          pick={(value) => (location.hash = hrefOf(place, undefined, { status: value || "any" }))}
          choices={[
            { value: "", name: t.any },
            ...statuses.filter((each) => each !== without).map((each) => ({ value: each, name: t.statuses[each] })),
          ]}
        />
      </div>
      <List
        label={t.places[place]}
        load={(pageToken) => load({ status, pageToken })}
        of={status}
        mark={watched.summary && String(waiting(place, watched.summary))}
        turn={turn}
        keyOf={keyOf}
        empty={status === "operator_review" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.waits, cell: (row) => <Ago at={since(row)} /> },
          { name: t.columns.order, cell: ({ orderId }) => <OrderLink id={orderId} /> },
          // Of one status, the filter names it.
          ...(status ? [] : [{ name: t.columns.status, cell: (row: T) => <Status value={row.status} /> }]),
          ...columns,
          { name: t.columns.why, cell: ({ reason }) => <span class="strange">{reason}</span> },
          { name: t.decide, cell: acts },
        ]}
      />
    </>
  );
}

interface Row {
  orderId: string;
  status: string;
  reason?: string | undefined;
}

const card = <T extends { cardId: string }>(): Column<T> => ({
  name: t.columns.card,
  cell: ({ cardId }) => <Code value={cardId} />,
});
const stage = <T extends { stage: string }>(): Column<T> => ({
  name: t.columns.stage,
  cell: (row) => word(t.stages, row.stage),
});

export function FeesPlace({ here }: { here: Here }) {
  return (
    <Work<FeeJob>
      here={here}
      place="fees"
      hint={t.feesHint}
      load={(select) => here.api.feeJobs(select)}
      keyOf={({ id }) => id}
      since={({ createdAt }) => createdAt}
      columns={[
        card(),
        {
          name: t.columns.amount, number: true,
          cell: (row) => (
            <>
              {row.outstanding && <Badge tone="warn">{t.owed}</Badge>}{" "}
              {row.writtenOff && <Badge>{t.writtenOff}</Badge>}{" "}
              {dollars(row.amountUsdCents)}
            </>
          ),
        },
      ]}
      acts={(row) => <FeeActs here={here} row={row} />}
    />
  );
}

function FeeActs({ here, row }: { here: Here; row: FeeJob }) {
  const path = `card-issue-fee/jobs/${row.id}`;
  const act = (what: "retry" | "write-off", preview: string[], done: string): Act => ({
    title: what === "retry" ? t.feeRetry : t.feeWriteOff, confirm: what === "retry" ? t.feeRetry : t.feeWriteOff,
    preview: [t.preview.fee(dollars(row.amountUsdCents)), ...preview], final: what === "write-off", done,
    run: (reason, key) => here.api.act(`${path}/${what}`, key, { reason }),
  });
  const reconcile = async () => {
    try {
      await here.api.act(`${path}/reconcile`, crypto.randomUUID());
      here.say(t.done.feeReconcile);
    } catch (error) {
      here.say(wordsOf(error).text);
    }
    here.again();
  };
  return (
    <div class="row-acts">
      {row.status !== "succeeded" && (
        <ActButton me={here.me} of="ReconcileFeeJob" onClick={() => void reconcile()}>
          {t.feeReconcile}
        </ActButton>
      )}
      {row.status === "failed" && !row.writtenOff && (
        <ActButton
          me={here.me}
          of="RetryFeeJob"
          onClick={() => here.ask(act("retry", [t.preview.feeRetry], t.done.feeRetry))}
        >
          {t.feeRetry}
        </ActButton>
      )}
      {row.outstanding && (
        <ActButton
          me={here.me}
          of="WriteOffFeeJob"
          onClick={() => here.ask(act("write-off", [t.preview.feeWriteOff], t.done.feeWriteOff))}
        >
          {t.feeWriteOff}
        </ActButton>
      )}
    </div>
  );
}

export function ClosingsPlace({ here }: { here: Here }) {
  const { api, ask, me } = here;
  return (
    <Work<CardClosing>
      here={here}
      place="closings"
      hint={
        <>
          {t.closingsHint}{" "}
          <ActButton me={me} of="CloseCard" onClick={() => ask(closeCard(api, undefined))}>
            {t.closeCard}
          </ActButton>
        </>
      }
      without="failed"
      load={(select) => api.closings(select)}
      keyOf={({ id }) => id}
      since={({ createdAt }) => createdAt}
      columns={[
        card(),
        stage(),
        {
          name: t.remainder, number: true,
          cell: ({ remainderUsdCents }) => remainderUsdCents !== undefined && dollars(remainderUsdCents),
        },
      ]}
      acts={(row) => <ClosingActs here={here} row={row} />}
    />
  );
}

function ClosingActs({ here, row }: { here: Here; row: CardClosing }) {
  if (row.status !== "operator_review") return null;
  const path = `card-closings/${row.id}`;
  const retry: Act = {
    title: t.goOn, preview: [t.preview.goOn(word(t.stages, row.stage))], confirm: t.goOn, done: t.done.goOn,
    run: (reason, key) => here.api.act(`${path}/retry`, key, { reason }),
  };
  const conclude = concluded(here, `${path}/conclude`, dollars(row.remainderUsdCents ?? 0));
  const concludes = row.stage === "refunding" ? conclude : undefined;
  return <RefundActs here={here} of="CardClosing" retry={retry} conclude={concludes} />;
}

/** What an operator does who has refunded by hand: the transaction is asked for, and the chain has to show it. */
function concluded(here: Here, path: string, amount: string): Act {
  return {
    title: t.conclude, confirm: t.conclude, final: true, done: t.done.goOn,
    preview: [t.preview.conclude(amount), t.preview.concludeBooks],
    fields: (values, set) => <TransactionField value={values.transaction} set={(value) => set("transaction", value)} />,
    run: (reason, key, values) =>
      here.api.act(path, key, { reason, transaction: values.transaction?.trim() ?? "" }),
  };
}

interface RefundActsProps {
  here: Here;
  of: "CardClosing" | "EsimCancellation";
  retry: Act;
  conclude: Act | undefined;
}

function RefundActs({ here, of, retry, conclude }: RefundActsProps) {
  return (
    <div class="row-acts">
      <ActButton me={here.me} of={`Retry${of}`} onClick={() => here.ask(retry)}>
        {t.goOn}
      </ActButton>
      {conclude && (
        <ActButton me={here.me} of={`Conclude${of}`} onClick={() => here.ask(conclude)}>
          {t.conclude}
        </ActButton>
      )}
    </div>
  );
}

export function CancellationsPlace({ here }: { here: Here }) {
  return (
    <Work<EsimCancellationJob>
      here={here}
      place="cancellations"
      hint={t.cancellationsHint}
      without="failed"
      load={(select) => here.api.cancellations(select)}
      keyOf={({ id }) => id}
      since={({ since }) => since}
      columns={[
        stage(),
        { name: t.credit, number: true, cell: ({ creditAmount }) => creditAmount && t.usdc(creditAmount) },
        { name: t.refund, number: true, cell: ({ refundAmount }) => refundAmount && t.usdc(refundAmount) },
      ]}
      acts={(row) => <CancellationActs here={here} row={row} />}
    />
  );
}

function CancellationActs({ here, row }: { here: Here; row: EsimCancellationJob }) {
  if (row.status !== "operator_review") return null;
  const path = `esim/orders/${encodeURIComponent(row.orderId)}`;
  const retry: Act = {
    title: t.goOn, preview: [t.preview.goOn(word(t.stages, row.stage))], confirm: t.goOn, done: t.done.goOn,
    run: (reason, key) => here.api.act(`${path}/retry-cancel`, key, { reason }),
  };
  const conclude = concluded(here, `${path}/conclude-cancel`, t.usdc(row.refundAmount ?? "0"));
  const concludes = row.stage === "refunding" ? conclude : undefined;
  return <RefundActs here={here} of="EsimCancellation" retry={retry} conclude={concludes} />;
}
