// What goes on after a sale and waits for an operator: issue fees, closings of cards, cancellations of eSIMs.
import type { CardClosing, EsimCancellationJob, FeeJob } from "roamcard";
import { dollars } from "../lib/text.js";
import { closeCard, TransactionField } from "./decide.js";
import { OrderLink } from "./orders.js";
import { type Act, Ago, Badge, Code, type Column, List, Pick, Status, word } from "./parts.js";
import { hrefOf, type Place } from "./route.js";
import { type Here, waiting } from "./shell.js";
import { t } from "./text.js";

const statuses = ["operator_review", "failed", "queued", "processing", "succeeded"] as const;

interface FilterProps {
  place: Place;
  value: string;
  without?: string;
}

function StatusFilter({ place, value, without }: FilterProps) {
  return (
    <div class="filters">
      <Pick
        name={t.columns.status}
        value={value}
        pick={(status) => (location.hash = hrefOf(place, undefined, { status: status || "any" }))}
        choices={[
          { value: "", name: t.any },
          ...statuses.filter((each) => each !== without).map((each) => ({ value: each, name: t.statuses[each] })),
        ]}
      />
    </div>
  );
}

// statusOf is the status that a place shows: what waits unless somebody has chosen.
function statusOf({ route }: Here): string {
  const { status = "operator_review" } = route.query;
  return status === "any" ? "" : status;
}

const id = <T extends { id: string }>(row: T) => row.id;
const why = <T extends { reason?: string | undefined }>(): Column<T> => ({
  name: t.columns.why,
  cell: ({ reason }) => <span class="strange">{reason}</span>,
});

export function FeesPlace({ here }: { here: Here }) {
  const { api, turn, watched } = here;
  const status = statusOf(here);
  return (
    <>
      <h1>{t.places.fees}</h1>
      <p class="hint">{t.feesHint}</p>
      <StatusFilter place="fees" value={status} />
      <List
        label={t.places.fees}
        load={(pageToken) => api.feeJobs({ status, pageToken })}
        of={status}
        mark={watched.summary && String(waiting("fees", watched.summary))}
        turn={turn}
        keyOf={id}
        empty={status === "operator_review" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.waits, cell: ({ createdAt }) => <Ago at={createdAt} /> },
          { name: t.columns.order, cell: ({ orderId }) => <OrderLink id={orderId} /> },
          { name: t.columns.card, cell: ({ cardId }) => <Code value={cardId} /> },
          {
            name: t.columns.status,
            cell: (row) => (
              <>
                <Status value={row.status} /> {row.outstanding && <Badge tone="warn">{t.owed}</Badge>}{" "}
                {row.writtenOff && <Badge>{t.writtenOff}</Badge>}
              </>
            ),
          },
          { name: t.columns.amount, number: true, cell: ({ amountUsdCents }) => dollars(amountUsdCents) },
          why<FeeJob>(),
          { name: t.decide, cell: (row) => <FeeActs here={here} row={row} /> },
        ]}
      />
    </>
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
      here.say(String(error));
    }
    here.again();
  };
  return (
    <div class="row-acts">
      {row.status !== "succeeded" && (
        <button type="button" class="act" onClick={() => void reconcile()}>
          {t.feeReconcile}
        </button>
      )}
      {row.status === "failed" && !row.writtenOff && (
        <button type="button" class="act" onClick={() => here.ask(act("retry", [t.preview.feeRetry], t.done.feeRetry))}>
          {t.feeRetry}
        </button>
      )}
      {row.outstanding && (
        <button
          type="button"
          class="act"
          onClick={() => here.ask(act("write-off", [t.preview.feeWriteOff], t.done.feeWriteOff))}
        >
          {t.feeWriteOff}
        </button>
      )}
    </div>
  );
}

export function ClosingsPlace({ here }: { here: Here }) {
  const { api, turn, watched } = here;
  const status = statusOf(here);
  return (
    <>
      <h1>{t.places.closings}</h1>
      <p class="hint">
        {t.closingsHint}{" "}
        <button type="button" class="act" onClick={() => here.ask(closeCard(api, undefined))}>
          {t.closeCard}
        </button>
      </p>
      <StatusFilter place="closings" value={status} without="failed" />
      <List
        label={t.places.closings}
        load={(pageToken) => api.closings({ status, pageToken })}
        of={status}
        mark={watched.summary && String(waiting("closings", watched.summary))}
        turn={turn}
        keyOf={id}
        empty={status === "operator_review" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.waits, cell: ({ createdAt }) => <Ago at={createdAt} /> },
          { name: t.columns.order, cell: ({ orderId }) => <OrderLink id={orderId} /> },
          { name: t.columns.card, cell: ({ cardId }) => <Code value={cardId} /> },
          { name: t.columns.status, cell: (row) => <Status value={row.status} /> },
          { name: t.columns.stage, cell: ({ stage }) => word(t.stages, stage) },
          {
            name: t.remainder, number: true,
            cell: ({ remainderUsdCents }) => remainderUsdCents !== undefined && dollars(remainderUsdCents),
          },
          why<CardClosing>(),
          { name: t.decide, cell: (row) => <ClosingActs here={here} row={row} /> },
        ]}
      />
    </>
  );
}

function ClosingActs({ here, row }: { here: Here; row: CardClosing }) {
  if (row.status !== "operator_review") return null;
  const path = `card-closings/${row.id}`;
  const retry: Act = {
    title: t.goOn, preview: [t.preview.goOn(word(t.stages, row.stage))], confirm: t.goOn, done: t.done.goOn,
    run: (reason, key) => here.api.act(`${path}/retry`, key, { reason }),
  };
  const conclude: Act = {
    title: t.conclude, confirm: t.conclude, final: true, done: t.done.goOn,
    preview: [t.preview.conclude(dollars(row.remainderUsdCents ?? 0)), t.preview.concludeBooks],
    fields: (values, set) => <TransactionField value={values.transaction} set={(value) => set("transaction", value)} />,
    run: (reason, key, values) =>
      here.api.act(`${path}/conclude`, key, { reason, transaction: values.transaction?.trim() ?? "" }),
  };
  return (
    <div class="row-acts">
      <button type="button" class="act" onClick={() => here.ask(retry)}>
        {t.goOn}
      </button>
      {row.stage === "refunding" && (
        <button type="button" class="act" onClick={() => here.ask(conclude)}>
          {t.conclude}
        </button>
      )}
    </div>
  );
}

export function CancellationsPlace({ here }: { here: Here }) {
  const { api, turn, watched } = here;
  const status = statusOf(here);
  return (
    <>
      <h1>{t.places.cancellations}</h1>
      <p class="hint">{t.cancellationsHint}</p>
      <StatusFilter place="cancellations" value={status} without="failed" />
      <List
        label={t.places.cancellations}
        load={(pageToken) => api.cancellations({ status, pageToken })}
        of={status}
        mark={watched.summary && String(waiting("cancellations", watched.summary))}
        turn={turn}
        keyOf={id}
        empty={status === "operator_review" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.waits, cell: ({ since }) => <Ago at={since} /> },
          { name: t.columns.order, cell: ({ orderId }) => <OrderLink id={orderId} /> },
          { name: t.columns.status, cell: (row) => <Status value={row.status} /> },
          { name: t.columns.stage, cell: ({ stage }) => word(t.stages, stage) },
          { name: t.credit, number: true, cell: ({ creditAmount }) => creditAmount && t.usdc(creditAmount) },
          { name: t.refund, number: true, cell: ({ refundAmount }) => refundAmount && t.usdc(refundAmount) },
          why<EsimCancellationJob>(),
          { name: t.decide, cell: (row) => <CancellationActs here={here} row={row} /> },
        ]}
      />
    </>
  );
}

function CancellationActs({ here, row }: { here: Here; row: EsimCancellationJob }) {
  if (row.status !== "operator_review") return null;
  const act: Act = {
    title: t.goOn, preview: [t.preview.goOn(word(t.stages, row.stage))], confirm: t.goOn, done: t.done.goOn,
    run: (reason, key) =>
      here.api.act(`esim/orders/${encodeURIComponent(row.orderId)}/retry-cancel`, key, { reason }),
  };
  return (
    <div class="row-acts">
      <button type="button" class="act" onClick={() => here.ask(act)}>
        {t.goOn}
      </button>
    </div>
  );
}
