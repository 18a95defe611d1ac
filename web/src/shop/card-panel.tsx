// A card of the wallet, and what its owner does with it.
import type { Card } from "roamcard";
import { useRef, useState } from "preact/hooks";
import { Fact, Message, NoticeBox } from "../lib/parts.js";
import { dollars, texts, when } from "../lib/text.js";
import { useAct } from "./act.js";
import { Plastic } from "./card.js";
import { DetailsPart, LimitsPart, TransactionsPart } from "./card-parts.js";
import { centsOf } from "./cents.js";
import { aboutOf, type Props } from "./page.js";

const t = texts.shop;

export function CardPanel({ card, state, shop }: Props & { card: Card }) {
  const { controls } = state.cardTerms ?? {};
  const usable = card.status === "ACTIVE" || card.status === "FROZEN";
  const balance = state.balances[card.id];
  return (
    <section class="panel card-panel" aria-label={t.yourCard}>
      <div class="card-head">
        <Plastic last4={card.last4} status={card.status} />
        <div class="card-facts">
          <h1>{t.yourCard}</h1>
          <p>
            <span class={`status ${toneOf(card.status)}`}>{t.cardStatus[card.status]}</span>
          </p>
          {card.status === "FROZEN" && <p class="soft">{t.frozenText}</p>}
          {card.status === "ACTIVE" && (
            <div class="balance">
              <span class="soft">{t.balance}</span>
              <strong>{balance ? dollars(balance.availableUsdCents) : t.noBalance}</strong>
              {balance?.asOf && <small>{t.balanceAsOf(when(balance.asOf))}</small>}
            </div>
          )}
        </div>
      </div>
      {card.status === "ACTIVE" && <TopUp state={state} shop={shop} />}
      {card.status === "ACTIVE" && <Reveal card={card} shop={shop} state={state} />}
      {usable && controls?.freeze && <Freeze card={card} shop={shop} state={state} />}
      {controls?.transactions && <TransactionsPart card={card} shop={shop} state={state} />}
      {usable && controls?.limits && <LimitsPart card={card} shop={shop} state={state} />}
      {card.status === "ACTIVE" && controls?.details && <DetailsPart card={card} shop={shop} state={state} />}
    </section>
  );
}

/** How the status of something is coloured. */
function toneOf(status: Card["status"]): string {
  if (status === "ACTIVE") return "good";
  return status === "PENDING" || status === "FROZEN" ? "warn" : "bad";
}

// TopUp shows what of an amount arrives, before anything is signed.
function TopUp({ state, shop }: Props) {
  const terms = state.config?.card;
  const [text, setText] = useState(String((terms?.defaultOrderUsdCents ?? 0) / 100));
  if (!terms) return null;
  const { minOrderUsdCents: min, maxOrderUsdCents: max, loadFeeBps, topupPaused } = terms;
  const cents = centsOf(text);
  const fits = cents !== undefined && cents >= min && cents <= max;
  const fee = fits ? Math.floor((cents * loadFeeBps) / 10_000) : 0;
  const percent = new Intl.NumberFormat(texts.lang, { style: "percent", maximumFractionDigits: 2 });
  const submit = (event: Event) => {
    event.preventDefault();
    if (fits && !topupPaused) shop.sales.open({ kind: "card_topup", cents });
  };
  return (
    <form class="part" onSubmit={submit}>
      <h2>{t.topUp}</h2>
      <div class="row">
        <label class="field">
          <span>{t.topUpAmount}</span>
          <input
            inputMode="decimal"
            value={text}
            aria-invalid={!fits}
            aria-describedby="topup-range"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button class="second" disabled={!fits || topupPaused}>
          {t.continue}
        </button>
      </div>
      <p class="hint left" id="topup-range">
        {t.topUpRange(dollars(min), dollars(max))}
      </p>
      {fits && (
        <dl class="facts">
          <Fact name={t.topUpFee(percent.format(loadFeeBps / 10_000))}>{dollars(fee)}</Fact>
          <Fact name={t.topUpCredit}>
            <strong>{dollars(cents - fee)}</strong>
          </Fact>
        </dl>
      )}
      {topupPaused && <Message tone="warn" title={t.pausedTitle} text={t.pausedText} />}
    </form>
  );
}

function Freeze({ card, shop, state }: Props & { card: Card }) {
  const { busy, notice, run } = useAct();
  const frozen = card.status === "FROZEN";
  const change = () =>
    run(async () => {
      const { cards } = shop.buyer;
      await (frozen ? cards.unfreeze(card.id) : cards.freeze(card.id));
      await shop.owned.cards();
    });
  return (
    <div class="part">
      <button class="second" disabled={busy} onClick={() => void change()}>
        {frozen ? t.unfreeze : t.freeze}
      </button>
      <NoticeBox notice={notice} about={aboutOf(state)} />
    </div>
  );
}

// Reveal shows the number in a part of the page that no script reads, for a minute.
function Reveal({ card, shop, state }: Props & { card: Card }) {
  const place = useRef<HTMLDivElement>(null);
  const { busy, notice, run, cancel } = useAct();
  const [asking, setAsking] = useState(false);
  const [over, setOver] = useState<string | undefined>();
  const reveal = async () => {
    setOver(undefined);
    const { current } = place;
    if (!current) return;
    setAsking(true);
    const done = await run(async (signal) => {
      const { cardPresenter } = await import("./presented.js");
      const present = cardPresenter(current, () => setAsking(false));
      const shown = await shop.buyer.cards.reveal(card.id, { present, signal });
      setOver(shown.reason === "opened_in_browser" ? t.revealPage : t.revealed);
    });
    if (!done) setOver(undefined);
  };
  return (
    <div class="part">
      <h2>{t.labels.number}</h2>
      <p class="soft">{t.revealText}</p>
      <button class="second" disabled={busy} onClick={() => void reveal()}>
        {t.reveal}
      </button>
      {busy && asking && (
        <button class="quiet" onClick={cancel}>
          {texts.cancel}
        </button>
      )}
      <div ref={place} class="secret" />
      {over && (
        <p class="hint left" role="status">
          {over}
        </p>
      )}
      <NoticeBox notice={notice} about={aboutOf(state)} />
    </div>
  );
}
