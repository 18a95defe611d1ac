// The jobs that have stopped, and the kill switches.
import type { Job, Switch } from "roamcard";
import { kindOf } from "./orders.js";
import { type Act, ActButton, Ago, Badge, Code, Failure, List, Pick, Rows, Status, When } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";
import { useRead } from "./watch.js";

const statuses = ["operator_review", "failed", "queued", "processing", "succeeded"] as const;

export function JobsPlace({ here }: { here: Here }) {
  const { api, route, turn, watched } = here;
  const { status, kind } = route.query;
  const stopped = watched.summary?.stoppedJobs;
  const select = (change: Record<string, string>) => {
    location.hash = hrefOf("jobs", undefined, { ...route.query, ...change });
  };
  return (
    <>
      <h1>{t.places.jobs}</h1>
      <p class="hint">{t.jobsHint}</p>
      <div class="filters">
        <Pick
          name={t.columns.status}
          value={status ?? ""}
          pick={(value) => select({ status: value })}
          choices={[
            { value: "", name: t.stopped },
            ...statuses.map((value) => ({ value, name: t.statuses[value] })),
          ]}
        />
        <label class="field">
          <span>{t.columns.kind}</span>
          <input
            class="mono"
            autocomplete="off"
            spellcheck={false}
            value={kind ?? ""}
            onChange={(event) => select({ kind: event.currentTarget.value.trim() })}
          />
        </label>
      </div>
      <List
        label={t.places.jobs}
        load={(pageToken) => api.jobs({ status, kind, pageToken })}
        of={`${status ?? ""} ${kind ?? ""}`}
        mark={stopped && JSON.stringify(stopped)}
        turn={turn}
        keyOf={({ id }) => id}
        empty={status ? t.nothing : t.nothingWaits}
        columns={[
          { name: t.columns.created, cell: ({ createdAt }) => <Ago at={createdAt} /> },
          { name: t.columns.job, cell: (row) => <span class="mono strange">{row.kind}</span> },
          { name: t.columns.subject, cell: ({ uniqueKey }) => <Code value={uniqueKey} /> },
          { name: t.columns.status, cell: (row) => <Status value={row.status} /> },
          {
            name: t.columns.attempts, number: true,
            cell: ({ attemptsUsed, maxAttempts }) => `${attemptsUsed} / ${maxAttempts}`,
          },
          { name: t.columns.error, cell: ({ lastError }) => <span class="strange">{lastError}</span> },
          { name: t.decide, cell: (row) => <JobActs here={here} row={row} /> },
        ]}
      />
    </>
  );
}

function JobActs({ here, row }: { here: Here; row: Job }) {
  const act = (what: "retry" | "drop"): Act => ({
    title: t.jobActs[what], confirm: t.jobActs[what], final: what === "drop",
    done: t.done[what === "retry" ? "job" : "drop"],
    preview: [
      what === "retry" ? t.preview.jobRetry(row.maxAttempts) : t.preview.jobDrop(row.kind, row.uniqueKey),
      t.preview.version(row.version),
    ],
    run: (reason, key) => here.api.act(`jobs/${row.id}/${what}`, key, { reason, version: row.version }),
  });
  const [retry, drop] = ["retry", "drop"].map((name) => row.allowedActions.find(({ action }) => action === name));
  if (!retry?.allowed && !drop?.allowed) return <small class="soft strange">{retry?.reason}</small>;
  return (
    <div class="row-acts">
      {retry?.allowed && (
        <ActButton me={here.me} of="RetryJob" onClick={() => here.ask(act("retry"))}>
          {t.jobActs.retry}
        </ActButton>
      )}
      {drop?.allowed && (
        <ActButton me={here.me} of="DropJob" onClick={() => here.ask(act("drop"))}>
          {t.jobActs.drop}
        </ActButton>
      )}
    </div>
  );
}

export function SwitchesPlace({ here }: { here: Here }) {
  const { api, turn } = here;
  const { value, error, read } = useRead(() => api.switches(), `switches ${turn}`);
  const nameOf = (product: string) =>
    product.startsWith("provider.") ? `${t.provider}: ${product.slice("provider.".length)}` : kindOf(product);
  const act = ({ product, paused }: Switch): Act => ({
    title: paused ? t.resume(nameOf(product)) : t.pause(nameOf(product)),
    confirm: paused ? t.resume(nameOf(product)) : t.pause(nameOf(product)),
    preview: paused
      ? [t.preview.resume]
      : [product.startsWith("provider.") ? t.preview.pauseProvider : t.preview.pause, t.preview.pauseClaimed],
    done: t.done.switch,
    run: (reason, key) => api.act(`switches/${encodeURIComponent(product)}`, key, { paused: !paused, reason }),
  });
  return (
    <>
      <h1>{t.places.switches}</h1>
      <p class="hint">{t.switchesHint}</p>
      {error !== undefined && <Failure error={error} retry={read} />}
      {!value && !error && <p class="empty">{t.loading}</p>}
      {value && (
        <Rows
          label={t.places.switches}
          rows={value}
          keyOf={({ product }) => product}
          columns={[
            { name: t.sale, cell: ({ product }) => <strong>{nameOf(product)}</strong> },
            {
              name: t.columns.status,
              cell: ({ paused, pausedByConfig }) => (
                <>
                  <Badge tone={paused || pausedByConfig ? "bad" : "good"}>
                    {paused || pausedByConfig ? t.paused : t.selling}
                  </Badge>{" "}
                  {pausedByConfig && <span class="soft">{t.pausedByConfig}</span>}
                </>
              ),
            },
            { name: t.reason, cell: ({ reason }) => <span class="strange">{reason}</span> },
            {
              name: t.columns.operator,
              cell: ({ operator, changedAt }) => (
                <>
                  {operator} <When at={changedAt} />
                </>
              ),
            },
            {
              name: t.decide,
              cell: (row) => (
                <ActButton me={here.me} of="SetSwitch" onClick={() => here.ask(act(row))}>
                  {row.paused ? t.resumeShort : t.pauseShort}
                </ActButton>
              ),
            },
          ]}
        />
      )}
    </>
  );
}

