// What its owner does with a delivered eSIM: install it, see what is used, add data, give it back.
import type { EsimProfile, Order } from "roamcard";
import { useState } from "preact/hooks";
import { Fact, Message, NoticeBox, Spinner, TransactionLink } from "../lib/parts.js";
import { texts, usdc, when } from "../lib/text.js";
import { useAct, useRead } from "./act.js";
import { sizeOf } from "./data.js";
import { EsimCode } from "./esim-code.js";
import { PlanCard } from "./esims.js";
import { aboutOf, type Props } from "./page.js";

const t = texts.shop;
type Of = Props & { order: Order };

export function EsimOrderParts({ order, state, shop }: Of) {
  const { profile: terms } = state.esimTerms ?? {};
  const { orderId } = order;
  const read = async () => (terms?.status ? shop.buyer.esim.profile(orderId) : undefined);
  const { value: profile, act, again } = useRead(read, orderId);
  const gone = profile?.status === "cancelled" || profile?.cancellation?.status === "refunded";
  return (
    <>
      {!gone && (
        <div class="part">
          <h2>{t.yourEsim}</h2>
          <EsimCode order={order} client={shop.buyer} />
        </div>
      )}
      {terms?.status && (
        <div class="part">
          <h2>{t.usage}</h2>
          <NoticeBox notice={act.notice} about={aboutOf(state)} />
          {act.busy && !profile && <Spinner />}
          {profile && <Profile profile={profile} state={state} />}
          <button class="quiet" disabled={act.busy} onClick={again}>
            {t.refresh}
          </button>
        </div>
      )}
      {terms?.topups && profile && !gone && <MoreData order={order} state={state} shop={shop} />}
      {terms?.cancel && profile?.status === "not_installed" && !profile.cancellation && (
        <GiveBack order={order} state={state} shop={shop} done={again} />
      )}
      {!gone && <NewToken order={order} state={state} shop={shop} />}
    </>
  );
}

function Profile({ profile, state }: { profile: EsimProfile; state: Props["state"] }) {
  const { status, usage, expiresAt, cancellation } = profile;
  const [used, total] = [Number(usage?.usedBytes ?? 0), Number(usage?.totalBytes ?? 0)];
  const words = total > 0 ? t.used(sizeOf(used), sizeOf(total)) : t.usedUnlimited(sizeOf(used));
  return (
    <>
      <dl class="facts">
        <Fact name={t.yourEsim}>{t.profileStatus[status]}</Fact>
        {expiresAt && <Fact name={t.expires}>{when(expiresAt)}</Fact>}
      </dl>
      {usage && total > 0 && <meter min={0} max={total} value={Math.min(used, total)} aria-label={words} />}
      <p class="soft">{usage ? words : t.usageUnknown}</p>
      {cancellation && (
        <Message
          tone={cancellation.status === "refunded" ? "good" : "warn"}
          title={t.cancellation[cancellation.status]}
          text={cancellation.refundAmount ? texts.pay.amountIn(usdc(BigInt(cancellation.refundAmount))) : ""}
        >
          <TransactionLink hash={cancellation.transaction} chain={state.chain} />
        </Message>
      )}
    </>
  );
}

function MoreData({ order, state, shop }: Of) {
  const [open, setOpen] = useState(false);
  return (
    <details class="part" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{t.moreData}</h2>
      </summary>
      {open && <Additions order={order} state={state} shop={shop} />}
    </details>
  );
}

function Additions({ order: { orderId }, state, shop }: Of) {
  const read = async () => (await shop.buyer.esim.topUps(orderId).page()).items;
  const { value: plans, act } = useRead(read, orderId);
  const paused = state.config?.esim?.topupPaused ?? false;
  return (
    <div class="stack">
      <NoticeBox notice={act.notice} about={aboutOf(state)} />
      {paused && <Message tone="warn" title={t.pausedTitle} text={t.pausedText} />}
      {act.busy && !plans && <Spinner />}
      {plans?.length === 0 && <p class="soft">{t.noMoreData}</p>}
      <ul class="plans">
        {plans?.map((plan) => (
          <PlanCard
            key={plan.planId}
            plan={plan}
            disabled={paused}
            buy={() =>
              shop.sales.open({ kind: "esim_topup", cents: plan.priceUsdCents, plan, esimOrderId: orderId })
            }
          />
        ))}
      </ul>
    </div>
  );
}

// GiveBack asks twice: the eSIM is of no use after it.
function GiveBack({ order: { orderId }, state, shop, done }: Of & { done: () => void }) {
  const [sure, setSure] = useState(false);
  const { busy, notice, run } = useAct();
  const give = () => void run(() => shop.buyer.esim.cancel(orderId)).then((went) => went && done());
  return (
    <div class="part">
      <h2>{t.giveBack}</h2>
      <p class="soft">{sure ? t.giveBackSure : t.giveBackText}</p>
      <NoticeBox notice={notice} about={aboutOf(state)} />
      <div class="row">
        {sure ? (
          <>
            <button class="second danger" disabled={busy} onClick={give}>
              {t.giveBackYes}
            </button>
            <button class="quiet" disabled={busy} onClick={() => setSure(false)}>
              {texts.cancel}
            </button>
          </>
        ) : (
          <button class="second" onClick={() => setSure(true)}>
            {t.giveBack}
          </button>
        )}
      </div>
    </div>
  );
}

// NewToken makes the tokens void that were given out. The new one is for programs; the owner has a session.
function NewToken({ order: { orderId }, state, shop }: Of) {
  const [renewed, setRenewed] = useState(false);
  const { busy, notice, run } = useAct();
  const renew = () => void run(() => shop.buyer.esim.rotateToken(orderId)).then(setRenewed);
  return (
    <div class="part">
      <NoticeBox notice={notice} about={aboutOf(state)} />
      {renewed && (
        <p class="hint left" role="status">
          {t.newTokenDone}
        </p>
      )}
      <button class="quiet" disabled={busy} onClick={renew}>
        {t.newToken}
      </button>
    </div>
  );
}
