// The view of cards: one to buy, and those that the wallet has.
import type { Card } from "roamcard";
import { lazy } from "../lib/lazy.js";
import { Fact, Message, NoticeBox } from "../lib/parts.js";
import { dollars, texts } from "../lib/text.js";
import { aboutOf, Gate, Loading, type Props } from "./page.js";

const t = texts.shop;
const CardPanel = lazy<Props & { card: Card }>(async () => (await import("./card-panel.js")).CardPanel);

export function CardView({ state, shop }: Props) {
  const { session, cards, ownedNotice } = state;
  const has = cards?.some(({ status }) => status !== "CLOSED" && status !== "FAILED");
  return (
    <>
      {session === "in" && <NoticeBox notice={ownedNotice} about={aboutOf(state)} />}
      {session === "in" && !cards && !ownedNotice && <Loading text={t.loading} />}
      {cards?.map((card) => <CardPanel key={card.id} card={card} state={state} shop={shop} />)}
      {!has && (session !== "in" || cards) && <BuyCard state={state} shop={shop} />}
      <Gate state={state} shop={shop} />
    </>
  );
}

/** A picture of a card. */
export function Plastic({ last4, status }: { last4?: string | undefined; status?: Card["status"] }) {
  return (
    <div class={`plastic ${status === "ACTIVE" || !status ? "" : "pale"}`} aria-hidden="true">
      <span class="plastic-name">roamcard</span>
      <span class="plastic-chip" />
      <span class="plastic-number">•••• •••• •••• {last4 ?? "••••"}</span>
    </div>
  );
}

function BuyCard({ state, shop }: Props) {
  const { config } = state;
  const terms = config?.card;
  if (!terms) return null;
  const { walletPaymentUsdCents: cents, cardIssueFeeUsdCents, issuePaused } = terms;
  return (
    <section class="hero">
      <div class="hero-text">
        <h1>{t.hero}</h1>
        <p class="lead">{t.heroText}</p>
        <Plastic />
      </div>
      <div class="panel">
        <dl class="facts">
          <Fact name={t.cardPrice}>
            <strong>{dollars(cents)}</strong>
          </Fact>
          <Fact name={t.cardFee}>{dollars(cardIssueFeeUsdCents)}</Fact>
          <Fact name={t.cardCredit}>{dollars(terms.expectedAvailableAfterIssueUsdCents)}</Fact>
          <Fact name={t.cardDelivery}>{t.cardDeliveryText}</Fact>
          <Fact name={t.cardOwner}>{t.cardOwnerText}</Fact>
        </dl>
        {issuePaused && <Message tone="warn" title={t.pausedTitle} text={t.pausedText} />}
        <button
          class="main"
          disabled={issuePaused}
          onClick={() => shop.sales.open({ kind: "card_issue", cents })}
        >
          {t.buyCard(dollars(cents))}
        </button>
        <p class="hint">{t.cardPerOwner}</p>
      </div>
    </section>
  );
}
