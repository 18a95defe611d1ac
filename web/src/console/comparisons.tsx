// The comparisons of the books that have ended, and what one of them found.
import type { ReconciliationRun } from "roamcard";
import { Ago, Fact, Facts, List, Pick, Status, When, word } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";

const outcomes = ["agreed", "differed", "incomplete", "failed"] as const;

export function Comparisons({ here }: { here: Here }) {
  const { api, route, turn, watched } = here;
  const { outcome = "" } = route.query;
  return (
    <section class="panel">
      <h2>{t.comparisons}</h2>
      <div class="filters">
        <Pick
          name={t.columns.outcome}
          value={outcome}
          pick={(chosen) => (location.hash = hrefOf("books", undefined, { outcome: chosen }))}
          choices={[
            { value: "", name: t.any },
            ...outcomes.map((each) => ({ value: each, name: t.statuses[each] })),
          ]}
        />
      </div>
      <List
        label={t.comparisons}
        load={(pageToken) => api.reconciliations({ outcome, pageToken })}
        of={`comparisons ${outcome}`}
        mark={watched.summary?.reconciledAt}
        turn={turn}
        keyOf={({ id }) => id}
        empty={t.nothing}
        columns={[
          { name: t.columns.ended, cell: ({ endedAt }) => <Ago at={endedAt} /> },
          {
            name: t.columns.outcome,
            cell: ({ outcome: ended, unread }) => (
              <>
                <Status value={ended} /> {unread && <span class="soft">{word(t.unreadBooks, unread)}</span>}
              </>
            ),
          },
          { name: t.columns.took, number: true, cell: ({ durationMs }) => t.took(durationMs) },
          { name: t.columns.fresh, number: true, cell: ({ opened }) => opened },
          { name: t.columns.gone, number: true, cell: ({ closed }) => closed },
          { name: t.statuses.open, number: true, cell: ({ open }) => open },
          { name: t.statuses.resolved, number: true, cell: ({ resolved }) => resolved },
          { name: t.checked, cell: (run) => <Looked run={run} /> },
        ]}
      />
    </section>
  );
}

/** What a comparison looked at, and what the books were then. */
function Looked({ run }: { run: ReconciliationRun }) {
  const { checked, sums, balances } = run;
  if (!checked) return null;
  return (
    <details>
      <summary>{t.looked(checked)}</summary>
      <Facts>
        <Fact name={t.compared}>
          <When at={run.beganAt} /> – <When at={run.endedAt} />
        </Fact>
        <Fact name={t.blockRange}>
          {run.firstBlock} – {run.lastBlock}
        </Fact>
        <Fact name={t.checked}>{t.checkedOf(checked)}</Fact>
        {sums.map(({ code, open, blocking }) => (
          <Fact key={code} name={code}>
            {t.openOf(open, blocking)}
          </Fact>
        ))}
        {balances.map(({ account, units }) => (
          <Fact key={account} name={account}>
            {t.usdc(units)}
          </Fact>
        ))}
      </Facts>
    </details>
  );
}
