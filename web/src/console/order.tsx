// One order: its full history, and what can be decided about it.
import type { AuditRecord, OrderInspection, OrderReview } from "roamcard";
import { dollars } from "../lib/text.js";
import { decisionsOf } from "./decide.js";
import { kindOf } from "./orders.js";
import { ActButton, Ago, Code, Fact, Facts, Failure, Rows, Status, When, word } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";
import { useRead } from "./watch.js";

export interface Whole {
  history: OrderInspection;
  review: OrderReview;
}

export function OrderPlace({ here, id }: { here: Here; id: string }) {
  const { api, watched, turn } = here;
  const version = watched.summary?.orderVersion;
  const { value, error, busy, read } = useRead(
    async (): Promise<Whole> => {
      const [history, review] = await Promise.all([api.inspect(id), api.review(id)]);
      return { history, review };
    },
    `${id} ${turn}`,
    version === undefined ? undefined : String(version),
  );
  const shown = value?.review.order?.orderId === id ? value : undefined;
  const item = shown?.review.order;
  const behind = shown && version !== undefined && version !== shown.review.order?.version;
  return (
    <>
      <p class="up">
        <a href={hrefOf("orders")} data-up>
          ← {t.places.orders}
        </a>
      </p>
      <h1>{item ? `${kindOf(item.kind)}, ${dollars(item.amountUsdCents)}` : t.order}</h1>
      {error !== undefined && <Failure error={error} retry={read} />}
      {behind && (
        <div class="message warn" role="status">
          <strong>{t.changed}</strong>
          <button type="button" class="quiet" onClick={read}>
            {t.readAgain}
          </button>
        </div>
      )}
      {!shown && !error && <p class="empty">{t.loading}</p>}
      {shown && <History here={here} whole={shown} busy={busy} />}
    </>
  );
}

function History({ here, whole, busy }: { here: Here; whole: Whole; busy: boolean }) {
  const { history, review } = whole;
  const item = review.order;
  if (!item) return null;
  return (
    <div aria-busy={busy}>
      <Facts>
        <Fact name={t.columns.status}>
          <Status value={item.status} /> <Ago at={item.since} />
        </Fact>
        <Fact name={t.columns.blocks}>
          <span class="strange">{item.reason}</span>
        </Fact>
        <Fact name={t.order}>
          <span class="mono">{item.orderId}</span>
        </Fact>
        <Fact name={t.columns.wallet}>
          <Code value={item.owner} />{" "}
          <a href={hrefOf("orders", undefined, { owner: item.owner })}>{t.ordersOfWallet}</a>
        </Fact>
        <Fact name={t.columns.created}>
          <When at={item.createdAt} />
          {history.requestId && (
            <>
              {" "}
              · {t.askedBy} <Code value={history.requestId} />
            </>
          )}
        </Fact>
        <Fact name={t.version}>{item.version}</Fact>
        {item.pendingApproval && (
          <Fact name={t.places.approvals}>
            <a href={hrefOf("approvals")}>
              {t.approval.about(
                item.pendingApproval.action, dollars(item.pendingApproval.amountUsdCents),
                item.pendingApproval.requestedBy,
              )}
            </a>
          </Fact>
        )}
        {history.order?.issuance?.cardId && (
          <Fact name={t.card}>
            <Code value={history.order.issuance.cardId} />
          </Fact>
        )}
      </Facts>
      <Actions here={here} whole={whole} />
      <Timeline history={history} />
      <Payments history={history} />
      <Relayed review={review} />
      <Provider history={history} />
      <Books review={review} />
    </div>
  );
}

function Actions({ here, whole }: { here: Here; whole: Whole }) {
  const { allowedActions } = whole.review;
  const decisions = decisionsOf(here, whole);
  const { operations } = here.me;
  const may = (action: string) => operations.includes(action === "prove_payment" ? "ProvePayment" : "DecideOrder");
  return (
    <section class="panel">
      <h2>{t.decide}</h2>
      <ul class="actions">
        {allowedActions.map(({ action, allowed, reason }) => {
          const can = allowed && may(action);
          return (
            <li key={action}>
              <button
                type="button"
                class={can ? "act" : "act off"}
                disabled={!can || decisions[action] === undefined}
                data-act={can ? "" : undefined}
                onClick={async () => {
                  const act = await decisions[action]?.();
                  if (act) here.ask(act);
                }}
              >
                {word(t.actions, action)}
              </button>
              <span class="soft strange">
                {can ? word(t.actionsDo, action) : allowed ? t.notYours : reason}
              </span>
            </li>
          );
        })}
        {decisions.close_card && (
          <li>
            <ActButton me={here.me} of="CloseCard" onClick={async () => here.ask(await decisions.close_card!())}>
              {t.closeCard}
            </ActButton>
            <span class="soft">{t.closeCardDoes}</span>
          </li>
        )}
      </ul>
    </section>
  );
}

function Timeline({ history }: { history: OrderInspection }) {
  return (
    <section class="panel">
      <h2>{t.timeline}</h2>
      <ol class="timeline">
        {history.timeline.map((move) => (
          <li key={move.version}>
            <p>
              <When at={move.at} /> · <strong>{word(t.statuses, move.to)}</strong>{" "}
              <span class="soft">
                {t.from} {word(t.statuses, move.from)}, {t.by} {move.actor}
              </span>
            </p>
            {move.reason && <p class="strange">{move.reason}</p>}
            {move.requestId && (
              <p class="soft">
                {t.askedBy} <Code value={move.requestId} />
              </p>
            )}
            {move.evidence.length > 0 && (
              <dl class="evidence">
                {move.evidence.map(({ name, value }, i) => (
                  <div key={i}>
                    <dt>{name}</dt>
                    <dd class="mono strange">{value}</dd>
                  </div>
                ))}
              </dl>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Payments({ history: { payments, refund } }: { history: OrderInspection }) {
  return (
    <section class="panel">
      <h2>{t.payments}</h2>
      {payments.length === 0 ? (
        <p class="empty">{t.nothing}</p>
      ) : (
        <Rows
          label={t.payments}
          rows={payments}
          keyOf={({ id }) => id}
          columns={[
            { name: t.columns.status, cell: ({ status }) => <Status value={status} /> },
            { name: t.columns.amount, number: true, cell: ({ amount }) => t.usdc(amount) },
            { name: t.columns.payer, cell: ({ payer }) => <Code value={payer} /> },
            { name: t.columns.transaction, cell: ({ transaction }) => <Code value={transaction} /> },
            { name: t.nonce, cell: ({ nonce }) => <Code value={nonce} /> },
            { name: t.columns.settled, cell: ({ settledAt }) => <When at={settledAt} /> },
            { name: t.columns.why, cell: ({ deadReason }) => <span class="strange">{deadReason}</span> },
          ]}
        />
      )}
      {refund && (
        <>
          <h3>{t.refund}</h3>
          <Facts>
            <Fact name={t.columns.status}>
              <Status value={refund.status} />
            </Fact>
            <Fact name={t.columns.amount}>{t.usdc(refund.amount)}</Fact>
            <Fact name={t.to}>
              <Code value={refund.to} />
            </Fact>
            <Fact name={t.treasury}>
              <Code value={refund.treasury} />
            </Fact>
            <Fact name={t.columns.transaction}>
              <Code value={refund.transaction} />
            </Fact>
            <Fact name={t.columns.settled}>
              <When at={refund.settledAt} />
            </Fact>
          </Facts>
        </>
      )}
    </section>
  );
}

function Relayed({ review: { transactions } }: { review: OrderReview }) {
  if (transactions.length === 0) return null;
  return (
    <section class="panel">
      <h2>{t.relayed}</h2>
      <Rows
        label={t.relayed}
        rows={transactions}
        keyOf={({ paymentId, nonce }) => `${paymentId} ${nonce}`}
        columns={[
          { name: t.columns.at, cell: ({ signedAt }) => <When at={signedAt} /> },
          { name: t.columns.status, cell: ({ status }) => <Status value={status} /> },
          {
            name: t.columns.transaction,
            cell: ({ hashes }) => hashes.map((hash) => <Code key={hash} value={hash} />),
          },
          { name: t.relayer, cell: ({ relayer }) => <Code value={relayer} /> },
          { name: t.accountNonce, number: true, cell: ({ nonce }) => nonce },
        ]}
      />
    </section>
  );
}

function Provider({ history: { references, jobs } }: { history: OrderInspection }) {
  return (
    <section class="panel">
      <h2>{t.provider}</h2>
      {references.length === 0 && jobs.length === 0 && <p class="empty">{t.nothing}</p>}
      {references.length > 0 && (
        <Rows
          label={t.references}
          rows={references}
          keyOf={({ reference }) => reference}
          columns={[
            { name: t.columns.step, cell: ({ step }) => <span class="strange">{step}</span> },
            { name: t.version, number: true, cell: ({ version }) => version },
            { name: t.references, cell: ({ reference }) => <Code value={reference} /> },
          ]}
        />
      )}
      {jobs.length > 0 && (
        <Rows
          label={t.places.jobs}
          rows={jobs}
          keyOf={({ id }) => id}
          columns={[
            { name: t.columns.job, cell: ({ kind }) => <span class="mono strange">{kind}</span> },
            { name: t.columns.status, cell: ({ status }) => <Status value={status} /> },
            { name: t.columns.attempts, number: true, cell: ({ attempt }) => attempt },
            { name: t.columns.step, cell: ({ step }) => <span class="strange">{step}</span> },
            { name: t.columns.runs, cell: ({ runAt }) => <When at={runAt} /> },
            { name: t.columns.error, cell: ({ lastError }) => <span class="strange">{lastError}</span> },
          ]}
        />
      )}
    </section>
  );
}

function Books({ review: { postings, audit } }: { review: OrderReview }) {
  const entries = postings.flatMap((posting) =>
    posting.entries.map((entry, i) => ({ ...entry, posting, key: `${posting.id} ${i}`, first: i === 0 })),
  );
  const acts = audit.filter(({ reason, before, after }) => [reason, before, after].some((each) => each !== undefined));
  const reads = audit.filter((record) => !acts.includes(record));
  return (
    <>
      <section class="panel">
        <h2>{t.postings}</h2>
        {entries.length === 0 ? (
          <p class="empty">{t.nothing}</p>
        ) : (
          <Rows
            label={t.postings}
            rows={entries}
            keyOf={({ key }) => key}
            columns={[
              { name: t.columns.at, cell: ({ first, posting }) => first && <When at={posting.at} /> },
              {
                name: t.columns.kind,
                cell: ({ first, posting }) => first && <strong class="strange">{posting.kind}</strong>,
              },
              { name: t.columns.account, cell: ({ account }) => <span class="mono strange">{account}</span> },
              { name: t.columns.amount, number: true, cell: ({ units }) => t.usdc(units) },
            ]}
          />
        )}
      </section>
      <section class="panel">
        <h2>{t.places.audit}</h2>
        {acts.length === 0 ? <p class="empty">{t.noActs}</p> : <Records records={acts} />}
        {reads.length > 0 && (
          <details>
            <summary>{t.reads(reads.length)}</summary>
            <Records records={reads} />
          </details>
        )}
      </section>
    </>
  );
}

function Records({ records }: { records: AuditRecord[] }) {
  return (
    <Rows
      label={t.places.audit}
      rows={records}
      keyOf={({ id }) => id}
      columns={[
        { name: t.columns.at, cell: ({ at }) => <When at={at} /> },
        { name: t.columns.operator, cell: ({ actor }) => <span class="strange">{actor}</span> },
        { name: t.columns.action, cell: ({ action }) => <span class="mono strange">{action}</span> },
        { name: t.reason, cell: ({ reason }) => <span class="strange">{reason}</span> },
      ]}
    />
  );
}
