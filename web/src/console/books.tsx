// What the books show: transfers that belong to no order, differences, and the last comparison.
import { useState } from "preact/hooks";
import type { Finding, Reconciliation, UnmatchedTransfer } from "roamcard";
import { dollars } from "../lib/text.js";
import { Comparisons } from "./comparisons.js";
import { kindOf, orderColumns, OrderLink } from "./orders.js";
import {
  type Act, ActButton, Ago, Badge, Code, Fact, Facts, Failure, List, Pick, Rows, Status, When, word,
} from "./parts.js";
import { hrefOf, type Place } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";
import { useRead } from "./watch.js";

const resolutions = ["refunded_by_hand", "donation", "known"] as const;

function OpenFilter({ place, value, query = {} }: { place: Place; value: string; query?: Record<string, string> }) {
  return (
    <Pick
      name={t.columns.status}
      value={value}
      pick={(status) => (location.hash = hrefOf(place, undefined, { ...query, status }))}
      choices={(["open", "resolved"] as const).map((each) => ({ value: each, name: t.statuses[each] }))}
    />
  );
}

const keyOf = ({ transaction, logIndex }: UnmatchedTransfer) => `${transaction}/${logIndex}`;

export function TransfersPlace({ here }: { here: Here }) {
  const { api, route, turn, watched } = here;
  const status = route.query.status ?? "open";
  const [chosen, setChosen] = useState<UnmatchedTransfer>();
  return (
    <>
      <h1>{t.places.transfers}</h1>
      <p class="hint">{t.transfersHint}</p>
      <div class="filters">
        <OpenFilter place="transfers" value={status} />
      </div>
      <List
        label={t.places.transfers}
        load={(pageToken) => api.transfers({ status, pageToken })}
        of={status}
        mark={watched.summary && String(watched.summary.openTransfers)}
        turn={turn}
        keyOf={keyOf}
        empty={status === "open" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.seen, cell: ({ seenAt }) => <Ago at={seenAt} /> },
          { name: t.columns.amount, number: true, cell: ({ amount }) => t.usdc(amount) },
          { name: t.columns.wallet, cell: ({ from }) => <Code value={from} /> },
          { name: t.columns.transaction, cell: ({ transaction }) => <Code value={transaction} /> },
          {
            name: t.columns.status,
            cell: ({ status: now, resolution, operator, reason }) => (
              <>
                <Status value={now} /> {resolution && word(t.resolutions, resolution)}
                {operator && <span class="soft strange"> {t.said(operator, reason ?? "")}</span>}
              </>
            ),
          },
          {
            name: t.decide,
            cell: (row) => (
              <div class="row-acts">
                <button
                  type="button"
                  class="act"
                  aria-expanded={chosen !== undefined && keyOf(chosen) === keyOf(row)}
                  onClick={() => setChosen(row)}
                >
                  {t.payersOrders}
                </button>
                {row.status === "open" && (
                  <ActButton me={here.me} of="ResolveTransfer" onClick={() => here.ask(resolveTransfer(here, row))}>
                    {t.resolve}
                  </ActButton>
                )}
              </div>
            ),
          },
        ]}
      />
      {chosen && (
        <section class="panel">
          <h2>{t.payersOrders}</h2>
          <p>
            <Code value={chosen.from} /> · {t.usdc(chosen.amount)} · <When at={chosen.seenAt} />
          </p>
          <List
            label={t.payersOrders}
            columns={orderColumns}
            load={(pageToken) => api.orders({ owner: chosen.from, pageToken })}
            of={chosen.from}
            turn={turn}
            keyOf={({ orderId }) => orderId}
            empty={t.noOrders}
          />
        </section>
      )}
    </>
  );
}

function resolveTransfer(here: Here, row: UnmatchedTransfer): Act {
  return {
    title: t.resolveTransfer, confirm: t.resolve, final: true, done: t.done.resolve,
    preview: [t.preview.transfer(t.usdc(row.amount), row.from), t.preview.transferMoves],
    values: { resolution: "refunded_by_hand" },
    fields: (values, set) => (
      <fieldset class="field">
        <legend>{t.resolution}</legend>
        {resolutions.map((each) => (
          <label key={each} class="check">
            <input
              type="radio"
              name="resolution"
              checked={values.resolution === each}
              onChange={() => set("resolution", each)}
            />
            <span>
              {t.resolutions[each]} <small class="soft">{t.resolutionsDo[each]}</small>
            </span>
          </label>
        ))}
      </fieldset>
    ),
    run: (reason, key, { resolution }) =>
      here.api.act(`transfers/${row.transaction}/${row.logIndex}/resolve`, key, { resolution, reason }),
  };
}

export function FindingsPlace({ here }: { here: Here }) {
  const { api, route, turn, watched } = here;
  const { status = "open", code } = route.query;
  const sum = watched.summary;
  const resolve = (row: Finding): Act => ({
    title: t.resolveFinding, confirm: t.resolve, done: t.done.resolve,
    preview: [
      <span class="strange">{row.detail}</span>, row.blocks ? t.preview.findingBlocks : t.preview.findingBlocksNot,
      row.code === "transfer_unmatched" ? t.preview.findingTransfer : t.preview.findingAgain,
    ],
    run: (reason, key) => api.act(`findings/${row.id}/resolve`, key, { reason }),
  });
  return (
    <>
      <h1>{t.places.findings}</h1>
      <p class="hint">{t.findingsHint}</p>
      <div class="filters">
        <OpenFilter place="findings" value={status} query={{ ...(code && { code }) }} />
        {code && (
          <p class="searched">
            <span class="mono">{code}</span> <a href={hrefOf("findings", undefined, { status })}>{t.clear}</a>
          </p>
        )}
      </div>
      <List
        label={t.places.findings}
        load={(pageToken) => api.findings({ status, code, pageToken })}
        of={`${status} ${code ?? ""}`}
        mark={sum && `${sum.openFindings} ${sum.blockingFindings}`}
        turn={turn}
        keyOf={({ id }) => id}
        empty={status === "open" ? t.booksAgree : t.nothing}
        columns={[
          { name: t.columns.seen, cell: ({ firstSeenAt }) => <Ago at={firstSeenAt} /> },
          {
            name: t.columns.code,
            cell: (row) => (
              <>
                <a class="mono" href={hrefOf("findings", undefined, { status, code: row.code })}>
                  {row.code}
                </a>{" "}
                {row.blocks && row.status === "open" && <Badge tone="bad">{t.blocks}</Badge>}
              </>
            ),
          },
          { name: t.columns.detail, cell: ({ detail }) => <span class="strange">{detail}</span> },
          {
            name: t.columns.subject,
            cell: ({ orderId, subject, product }) => (
              <>
                {orderId ? <OrderLink id={orderId} /> : <Code value={subject} />}
                {product && <span class="soft"> {kindOf(product)}</span>}
              </>
            ),
          },
          {
            name: t.decide,
            cell: (row) =>
              row.status === "open" ? (
                <ActButton me={here.me} of="ResolveFinding" onClick={() => here.ask(resolve(row))}>
                  {t.resolve}
                </ActButton>
              ) : (
                <span class="soft strange">{t.said(row.operator ?? "", row.reason ?? "")}</span>
              ),
          },
        ]}
      />
    </>
  );
}

export function BooksPlace({ here }: { here: Here }) {
  const { api, watched, turn } = here;
  const at = watched.summary?.reconciledAt;
  const { value, error, busy, read } = useRead(() => api.reconciliation(), `books ${turn}`);
  const [running, setRunning] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const [compared, setCompared] = useState(0);
  const compare = async () => {
    setRunning(true);
    setFailed(undefined);
    try {
      await api.reconcile();
      here.say(t.done.compare);
      setCompared((n) => n + 1);
      read();
    } catch (problem) {
      setFailed(problem);
    }
    setRunning(false);
  };
  return (
    <>
      <h1>{t.places.books}</h1>
      <p class="hint">{t.booksHint}</p>
      <div class="row-acts">
        <ActButton me={here.me} of="Reconcile" disabled={running} onClick={() => void compare()}>
          {running ? t.working : t.compare}
        </ActButton>
        {at && value?.at && Date.parse(at) > Date.parse(value.at) && (
          <button type="button" class="quiet" onClick={read}>
            {t.newer}
          </button>
        )}
      </div>
      {(error ?? failed) !== undefined && <Failure error={error ?? failed} retry={read} />}
      {!value && !error && <p class="empty">{busy ? t.loading : t.neverCompared}</p>}
      {value && <Report report={value} />}
      <Comparisons here={{ ...here, turn: turn + compared }} />
    </>
  );
}

function Report({ report }: { report: Reconciliation }) {
  const { checked, sums, balances } = report;
  return (
    <>
      <Facts>
        <Fact name={t.compared}>
          <When at={report.at} /> · <Ago at={report.at} />
        </Fact>
        <Fact name={t.complete}>{report.completeAt ? <When at={report.completeAt} /> : t.notYet}</Fact>
        <Fact name={t.blockRange}>
          {report.firstBlock} – {report.lastBlock}
        </Fact>
        <Fact name={t.spent}>{dollars(report.spentUsdCents)}</Fact>
        {checked && <Fact name={t.checked}>{t.checkedOf(checked)}</Fact>}
      </Facts>
      <section class="panel">
        <h2>{t.places.findings}</h2>
        {sums.length === 0 ? (
          <p class="empty">{t.booksAgree}</p>
        ) : (
          <Rows
            label={t.places.findings}
            rows={sums}
            keyOf={({ code }) => code}
            columns={[
              {
                name: t.columns.code,
                cell: ({ code }) => (
                  <a class="mono" href={hrefOf("findings", undefined, { code })}>
                    {code}
                  </a>
                ),
              },
              { name: t.statuses.open, number: true, cell: ({ open }) => open },
              { name: t.blocks, number: true, cell: ({ blocking }) => blocking },
            ]}
          />
        )}
      </section>
      <section class="panel">
        <h2>{t.ledger}</h2>
        <Rows
          label={t.ledger}
          rows={balances}
          keyOf={({ account }) => account}
          columns={[
            { name: t.columns.account, cell: ({ account }) => <span class="mono">{account}</span> },
            { name: t.columns.amount, number: true, cell: ({ units }) => t.usdc(units) },
          ]}
        />
      </section>
    </>
  );
}
