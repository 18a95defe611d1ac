// What an operator can do with an order, each with what will happen.
import { dollars, short } from "../lib/text.js";
import type { OperatorApi } from "./api.js";
import type { Whole } from "./order.js";
import type { Act } from "./parts.js";
import type { Here } from "./shell.js";
import { t } from "./text.js";

/** The acts on an order by the names of the actions, each made when it is asked for. */
export function decisionsOf({ api, watched }: Here, { history, review }: Whole): Record<string, () => Promise<Act>> {
  const order = review.order;
  if (!order) return {};
  const { orderId, version, status, owner, amountUsdCents } = order;
  const path = `orders/${encodeURIComponent(orderId)}`;
  const decide = (action: string) => (reason: string, key: string) =>
    api.act(`${path}/decide`, key, { action, reason, version });
  const stays = t.preview.version(version);
  const amount = dollars(amountUsdCents);
  const moves = (to: keyof typeof t.statuses) => t.preview.moves(t.statuses[status], t.statuses[to]);
  const acts: Record<string, () => Promise<Act>> = {
    refund: async () => ({
      title: t.actions.refund,
      preview: [
        t.preview.refund(amount, owner), await treasuryOf(api), moves("refund_pending"), t.preview.refundEnds, stays,
      ],
      confirm: t.confirm.refund(amount), final: true, run: decide("refund"), done: t.done.refund,
    }),
    retry: async () => ({
      title: t.actions.retry,
      preview: [t.preview.retry, t.preview.retryReference(history.references.length), moves("provisioning"), stays],
      confirm: t.confirm.retry, run: decide("retry"), done: t.done.retry,
    }),
    fulfilled: async () => ({
      title: t.actions.fulfilled,
      preview: [t.preview.fulfilled, t.preview.fulfilledBooks(amount), moves("fulfilled"), stays],
      confirm: t.confirm.fulfilled, final: true, run: decide("fulfilled"), done: t.done.fulfilled,
    }),
    prove_payment: async () => ({
      title: t.actions.prove_payment,
      preview: [t.preview.prove(amount, short(owner)), moves("settled"), stays],
      confirm: t.confirm.prove, done: t.done.prove,
      fields: (values, set) => (
        <TransactionField value={values.transaction} set={(value) => set("transaction", value)} />
      ),
      run: (reason, key, values) =>
        api.act(`${path}/payment`, key, { transaction: values.transaction?.trim() ?? "", reason, version }),
    }),
  };
  const card = history.order?.issuance?.cardId;
  if (card && watched) acts.close_card = async () => closeCard(api, card);
  return acts;
}

/** The act that closes a card. */
export function closeCard(api: OperatorApi, card: string | undefined): Act {
  return {
    title: t.closeCard, preview: [t.preview.closeCard, t.preview.closeCardRest], confirm: t.confirm.closeCard,
    final: true, done: t.done.closeCard, values: { card: card ?? "" },
    fields: (values, set) => (
      <label class="field">
        <span>{t.card}</span>
        <input
          class="mono"
          required
          autocomplete="off"
          spellcheck={false}
          value={values.card ?? ""}
          onInput={(event) => set("card", event.currentTarget.value)}
        />
      </label>
    ),
    run: (reason, key, values) =>
      api.act(`cards/${encodeURIComponent(values.card?.trim() ?? "")}/close`, key, { reason }),
  };
}

interface TransactionFieldProps {
  value: string | undefined;
  set: (value: string) => void;
}

/** Asks for the hash of a transaction. */
export function TransactionField({ value, set }: TransactionFieldProps) {
  return (
    <label class="field">
      <span>{t.columns.transaction}</span>
      <input
        class="mono"
        required
        pattern="\s*0x[0-9a-fA-F]{64}\s*"
        placeholder="0x…"
        autocomplete="off"
        spellcheck={false}
        value={value ?? ""}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

// treasuryOf says what the treasury has, where the service can tell.
async function treasuryOf(api: OperatorApi): Promise<string> {
  try {
    const { accounts } = await api.gauges();
    const treasury = accounts.find(({ name }) => name === "treasury");
    if (treasury?.units !== undefined) return t.preview.treasury(t.usdc(treasury.units));
  } catch {
    // The refund waits for the treasury in any case.
  }
  return t.preview.treasuryUnknown;
}
