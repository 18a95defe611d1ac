// The present values of what sales depend on. Reading them leaves no audit record.
import { useEffect, useState } from "preact/hooks";
import type { Gauges } from "roamcard";
import { Ago, Badge, Code, Failure, Rows, Status, When, word } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";
import { useRead } from "./watch.js";

const everyMs = 10_000;
/** A node is late from this age of its block on: sales stop at a minute. */
const lateSeconds = 30;

export function GaugesPlace({ here }: { here: Here }) {
  const { api, turn } = here;
  const [beat, setBeat] = useState(0);
  const { value, error, read } = useRead(() => api.gauges(), `gauges ${turn}`, String(beat));
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") setBeat((n) => n + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <h1>{t.places.gauges}</h1>
      {error !== undefined && <Failure error={error} retry={read} />}
      {!value && !error && <p class="empty">{t.loading}</p>}
      {value && <Values gauges={value} />}
    </>
  );
}

function Values({ gauges: { asOf, floats, accounts, jobs, nodes } }: { gauges: Gauges }) {
  return (
    <>
      <p class="hint">
        {t.asOf} <When at={asOf} />
      </p>
      <section class="panel">
        <h2>{t.floats}</h2>
        <Rows
          label={t.floats}
          rows={floats}
          keyOf={({ provider }) => provider}
          columns={[
            { name: t.provider, cell: ({ provider }) => provider },
            { name: t.columns.amount, number: true, cell: ({ units }) => t.usdc(units) },
          ]}
        />
      </section>
      <section class="panel">
        <h2>{t.accounts}</h2>
        <Rows
          label={t.accounts}
          rows={accounts}
          keyOf={({ name, address }) => `${name} ${address}`}
          columns={[
            { name: t.columns.account, cell: ({ name }) => word(t.accountNames, name) },
            { name: t.columns.address, cell: ({ address }) => <Code value={address} /> },
            {
              name: t.columns.amount, number: true,
              cell: ({ units, wei }) => {
                if (wei !== undefined) return t.ether(wei);
                return units !== undefined ? t.usdc(units) : t.unread;
              },
            },
          ]}
        />
      </section>
      <section class="panel">
        <h2>{t.nodes}</h2>
        <Rows
          label={t.nodes}
          rows={nodes}
          keyOf={({ node }) => node}
          columns={[
            { name: t.node, cell: ({ node }) => node },
            { name: t.block, number: true, cell: ({ block }) => block },
            {
              name: t.age, number: true,
              cell: ({ ageSeconds }) => (
                <Badge tone={ageSeconds < lateSeconds ? "good" : "bad"}>{t.seconds(ageSeconds)}</Badge>
              ),
            },
          ]}
        />
      </section>
      <section class="panel">
        <h2>{t.places.jobs}</h2>
        {jobs.length === 0 ? (
          <p class="empty">{t.noJobs}</p>
        ) : (
          <Rows
            label={t.places.jobs}
            rows={jobs}
            keyOf={(job) => JSON.stringify(job)}
            columns={[
              {
                name: t.columns.job,
                cell: ({ kind, status }) => (
                  <a class="mono" href={hrefOf("jobs", undefined, { kind, status })}>
                    {kind}
                  </a>
                ),
              },
              { name: t.columns.status, cell: ({ status }) => <Status value={status} /> },
              { name: t.count, number: true, cell: ({ count }) => count },
              { name: t.oldest, cell: ({ oldest }) => <Ago at={oldest} /> },
            ]}
          />
        )}
      </section>
    </>
  );
}
