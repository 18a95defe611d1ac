// The decisions that wait for a second operator.
import type { Approval } from "roamcard";
import { dollars } from "../lib/text.js";
import { OrderLink } from "./orders.js";
import { type Act, ActButton, Ago, Code, List, Pick, Status, When } from "./parts.js";
import { hrefOf } from "./route.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";

const statuses = ["pending", "approved", "rejected", "expired"] as const;

export function ApprovalsPlace({ here }: { here: Here }) {
  const { api, me, route, turn } = here;
  const status = route.query.status ?? "pending";
  return (
    <>
      <h1>{t.places.approvals}</h1>
      <p class="hint">{t.approvalsHint}</p>
      <div class="filters">
        <Pick
          name={t.columns.status}
          value={status}
          pick={(value) => (location.hash = hrefOf("approvals", undefined, { status: value }))}
          choices={statuses.map((value) => ({ value, name: t.statuses[value] }))}
        />
      </div>
      <List
        label={t.places.approvals}
        load={(pageToken) => api.approvals({ status, pageToken })}
        of={status}
        turn={turn}
        keyOf={({ id }) => id}
        empty={status === "pending" ? t.nothingWaits : t.nothing}
        columns={[
          { name: t.columns.waits, cell: ({ requestedAt }) => <Ago at={requestedAt} /> },
          {
            name: t.columns.action,
            cell: ({ action, amountUsdCents, requestedBy }) => (
              <>
                <span class="mono strange">{action}</span>
                <br />
                <span class="strange">{`${dollars(amountUsdCents)} · ${requestedBy}`}</span>
              </>
            ),
          },
          { name: t.columns.subject, cell: (row) => <Subject row={row} /> },
          { name: t.reason, cell: ({ reason }) => <span class="strange">{reason}</span> },
          {
            name: t.columns.status,
            cell: ({ status: now, decidedBy, expiresAt }) => (
              <>
                <Status value={now} />{" "}
                {now === "pending" ? <When at={expiresAt} /> : <span class="strange">{decidedBy}</span>}
              </>
            ),
          },
          { name: t.decide, cell: (row) => <Decisions here={here} row={row} mine={row.requestedBy === me.operator} /> },
        ]}
      />
    </>
  );
}

function Subject({ row: { action, subject } }: { row: Approval }) {
  return action.startsWith("order.") ? <OrderLink id={subject} /> : <Code value={subject} />;
}

function Decisions({ here, row, mine }: { here: Here; row: Approval; mine: boolean }) {
  if (row.status !== "pending") return null;
  const act = (what: "approve" | "reject"): Act => ({
    title: t.approval[what], confirm: t.approval[what], final: what === "approve", done: t.done[what],
    preview: [t.approval.about(row.action, dollars(row.amountUsdCents), row.requestedBy), t.preview[what]],
    run: (reason, key) => here.api.act(`approvals/${encodeURIComponent(row.id)}/${what}`, key, { reason }),
  });
  return (
    <div class="row-acts">
      <ActButton me={here.me} of="ApproveDecision" disabled={mine} onClick={() => here.ask(act("approve"))}>
        {t.approval.approve}
      </ActButton>
      <ActButton me={here.me} of="RejectDecision" onClick={() => here.ask(act("reject"))}>
        {t.approval.reject}
      </ActButton>
      {mine && <small class="soft">{t.approval.mine}</small>}
    </div>
  );
}
