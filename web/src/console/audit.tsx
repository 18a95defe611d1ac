// What operators did, and a file of it.
import { useRef, useState } from "preact/hooks";
import { ApiError, type AuditRecord } from "roamcard";
import type { OperatorApi, Query } from "./api.js";
import { csvOf } from "./csv.js";
import { OrderLink } from "./orders.js";
import { Failure, List, When } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";

const columns = ["id", "at", "actor", "action", "subject", "reason", "before", "after"] as const;
type Format = "csv" | "ndjson";

export function AuditPlace({ here }: { here: Here }) {
  const { api, route, turn } = here;
  const { actor, action, subject, since, until } = route.query;
  const query: Query = { actor, action, subject, since, until };
  return (
    <>
      <h1>{t.places.audit}</h1>
      <p class="hint">{t.auditHint}</p>
      <Filters query={route.query} />
      <Export api={api} query={query} />
      <List
        label={t.places.audit}
        load={(pageToken) => api.audit({ ...query, pageToken })}
        of={JSON.stringify(query)}
        turn={turn}
        keyOf={({ id }) => id}
        empty={t.nothing}
        columns={[
          { name: t.columns.at, cell: ({ at }) => <When at={at} /> },
          { name: t.columns.operator, cell: (row) => <span class="strange">{row.actor}</span> },
          { name: t.columns.action, cell: (row) => <span class="mono strange">{row.action}</span> },
          {
            name: t.columns.subject,
            cell: (row) =>
              row.subject.startsWith("ord_") ? (
                <OrderLink id={row.subject} />
              ) : (
                <span class="mono strange">{row.subject}</span>
              ),
          },
          { name: t.reason, cell: ({ reason }) => <span class="strange">{reason}</span> },
          {
            name: t.change,
            cell: ({ before, after }) => (
              <span class="mono small strange">
                {[before, after].filter((each) => each !== undefined).join(" → ")}
              </span>
            ),
          },
        ]}
      />
    </>
  );
}

function Filters({ query }: { query: Record<string, string> }) {
  const [values, setValues] = useState(query);
  const field = (name: "actor" | "action" | "subject", label: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        class="mono"
        autocomplete="off"
        spellcheck={false}
        value={values[name] ?? ""}
        onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value.trim() })}
      />
    </label>
  );
  const time = (name: "since" | "until", label: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={localOf(values[name])}
        onInput={(event) => {
          const at = new Date(event.currentTarget.value);
          setValues({ ...values, [name]: Number.isNaN(at.getTime()) ? "" : at.toISOString() });
        }}
      />
    </label>
  );
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        location.hash = hrefOf("audit", undefined, values);
      }}
    >
      {field("actor", t.columns.operator)}
      {field("action", t.columns.action)}
      {field("subject", t.columns.subject)}
      {time("since", t.since)}
      {time("until", t.until)}
      <button type="submit" class="act">
        {t.select}
      </button>
    </form>
  );
}

// localOf is a time as an input of the browser has it.
function localOf(time: string | undefined): string {
  const at = new Date(time ?? "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function Export({ api, query }: { api: OperatorApi; query: Query }) {
  const [read, setRead] = useState<number>();
  const [error, setError] = useState<unknown>();
  const stop = useRef(false);
  const run = async (format: Format) => {
    stop.current = false;
    setError(undefined);
    setRead(0);
    try {
      const records: AuditRecord[] = [];
      for (let pageToken: string | undefined; ; ) {
        const { items, next } = await patiently(() => api.audit({ ...query, pageSize: 100, pageToken }));
        records.push(...items);
        setRead(records.length);
        if (stop.current) return;
        if (!next) break;
        pageToken = next;
      }
      save(format, records);
    } catch (problem) {
      setError(problem);
    } finally {
      setRead(undefined);
    }
  };
  return (
    <div class="export">
      {read === undefined ? (
        <>
          <button type="button" class="act" onClick={() => void run("csv")}>
            {t.exportAs("CSV")}
          </button>
          <button type="button" class="act" onClick={() => void run("ndjson")}>
            {t.exportAs("NDJSON")}
          </button>
        </>
      ) : (
        <>
          <span role="status">{t.exporting(read)}</span>
          <button type="button" class="quiet" onClick={() => (stop.current = true)}>
            {t.cancel}
          </button>
        </>
      )}
      {error !== undefined && <Failure error={error} />}
    </div>
  );
}

// patiently waits where the service asks to: a long trail is more than a minute's requests.
async function patiently<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || tries > 5) throw error;
      await new Promise((done) => setTimeout(done, error.retryAfterMs ?? 5_000));
    }
  }
}

// fileOf is the records as a file.
function fileOf(format: Format, records: AuditRecord[]): string {
  if (format === "ndjson") return records.map((each) => `${JSON.stringify(each)}\n`).join("");
  return csvOf(columns, records);
}

function save(format: Format, records: AuditRecord[]): void {
  const kind = format === "csv" ? "text/csv" : "application/x-ndjson";
  const url = URL.createObjectURL(new Blob([fileOf(format, records)], { type: kind }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `audit-${new Date().toISOString().slice(0, 10)}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
