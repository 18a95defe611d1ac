// How the page of an order looks.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Wallet } from "roamcard/browser";
import { clock, dollars, short, texts, usdc } from "../lib/text.js";
import { isMoving, type Notice, type PayFlow, type State, type Step } from "./flow.js";

const t = texts.pay;

interface Props {
  state: State;
  flow: PayFlow;
}

export function PayPage({ state, flow }: Props) {
  const { order, at } = state;
  const title = order ? `${kindOf(order.kind)}, ${dollars(order.amountUsdCents)}` : t.title;
  useEffect(() => {
    document.title = texts.documentTitle(title);
  }, [title]);
  return (
    <div class="shell">
      <header class="brand">
        <Mark />
        <span>roamcard</span>
        {state.chain && state.chain.name !== texts.baseNetwork && <span class="badge">{state.chain.name}</span>}
      </header>
      <main class="sheet" aria-busy={at === "loading"}>
        {order ? <Order state={state} flow={flow} /> : <Without state={state} flow={flow} />}
      </main>
    </div>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="9" />
      <rect class="card" x="7" y="10" width="18" height="13" rx="2.5" />
      <path d="M7 15h18" />
    </svg>
  );
}

// Without is the page before there is an order to show.
function Without({ state: { at, notice }, flow }: Props) {
  if (at === "missing") return <Message tone="bad" title={t.missing} text={t.missingText} heading />;
  if (at === "offline")
    return (
      <Message tone="bad" title={t.offline} text={t.offlineText} requestId={notice?.requestId} heading>
        <button class="quiet" onClick={() => void flow.look()}>
          {texts.retry}
        </button>
      </Message>
    );
  return (
    <div class="waiting" role="status">
      <h1 class="hidden">{t.title}</h1>
      <Spinner />
      {texts.loading}
    </div>
  );
}

function Order({ state, flow }: Props) {
  const { at, order } = state;
  if (!order) return null;
  const [, about = order.description] = /^[^:]*: (.*)$/s.exec(order.description) ?? [];
  return (
    <>
      <section class="what">
        <p class="kind">{kindOf(order.kind)}</p>
        <h1 class="price">{dollars(order.amountUsdCents)}</h1>
        <p class="units">{t.amountIn(usdc(BigInt(order.amount)))}</p>
        <p class="about" lang="en">
          {about}
        </p>
      </section>
      <dl class="facts">
        <Fact name={t.payee}>
          <Address value={order.payTo} />
        </Fact>
        <Fact name={t.network}>{state.chain?.name}</Fact>
        <Fact name={t.owner}>
          <span class="mono">{order.owner}</span>
        </Fact>
        {at === "open" && order.expiresAt && (
          <Fact name={t.expires}>
            <TimeLeft until={order.expiresAt} over={() => void flow.look()} />
          </Fact>
        )}
      </dl>
      {at === "open" && <Paying state={state} flow={flow} />}
      {at === "paid" && <Paid state={state} />}
      {at === "closed" && <Closed state={state} />}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

// Address shows an address short, and whole to who asks.
function Address({ value }: { value: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    void navigator.clipboard?.writeText(value).then(
      () => setCopied(true),
      () => undefined,
    );
  return (
    <button class="address mono" title={value} onClick={copy}>
      {short(value)} <span class="copy">{copied ? t.copied : t.copy}</span>
    </button>
  );
}

function TimeLeft({ until, over }: { until: string; over: () => void }) {
  const left = () => Date.parse(until) - Date.now();
  const [ms, setMs] = useState(left);
  useEffect(() => {
    const timer = setInterval(() => {
      setMs(left());
      if (left() <= 0) over();
    }, 1000);
    return () => clearInterval(timer);
  }, [until]);
  return (
    <span role="timer" class={ms < 120_000 ? "urgent" : undefined}>
      {clock(ms)}
    </span>
  );
}

// Paying is what there is to do while the order can be paid.
function Paying({ state, flow }: Props) {
  const { order, notice, step, wallet, wallets, account, balance, ready } = state;
  if (!order) return null;
  const blocked = notice?.kind === "notPayable" || notice?.kind === "unavailable";
  return (
    <section class="do">
      <NoticeBox state={state} />
      {step ? (
        <Waiting step={step} wallet={wallet} chain={state.chain?.name ?? ""} cancel={() => flow.cancel()} />
      ) : wallet ? (
        <>
          <p class="account">
            <Icon wallet={wallet} />
            <span>
              <span>{t.connected(short(account ?? ""))}</span>
              {balance !== undefined && <small>{t.balance(usdc(balance))}</small>}
            </span>
          </p>
          {ready ? (
            <button class="main" disabled={blocked} onClick={() => void flow.pay()}>
              {t.payNow(dollars(order.amountUsdCents))}
            </button>
          ) : (
            <button class="main" onClick={() => void flow.recheck()}>
              {texts.retry}
            </button>
          )}
          <button class="quiet" onClick={() => flow.leave()}>
            {t.otherWallet}
          </button>
          <p class="hint">{t.terms}</p>
        </>
      ) : (
        <Wallets wallets={wallets} owner={order.owner} disabled={blocked} choose={(each) => void flow.choose(each)} />
      )}
    </section>
  );
}

interface WalletsProps {
  wallets: Wallet[];
  owner: string;
  disabled: boolean;
  choose: (wallet: Wallet) => void;
}

function Wallets({ wallets, owner, disabled, choose }: WalletsProps) {
  if (wallets.length === 0)
    return (
      <div class="none" role="status">
        <p>
          <strong>{t.noWallet}</strong>
        </p>
        <p class="hint">{t.noWalletHint}</p>
      </div>
    );
  return (
    <>
      <h2>{t.choose}</h2>
      <ul class="wallets">
        {wallets.map((wallet) => (
          <li key={wallet.id}>
            <button class="wallet" disabled={disabled} onClick={() => choose(wallet)}>
              <Icon wallet={wallet} />
              <span>{wallet.name || t.unnamedWallet}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="hint">{t.chooseHint(owner)}</p>
    </>
  );
}

function Icon({ wallet }: { wallet: Wallet }) {
  if (wallet.icon === undefined) return <span class="icon" aria-hidden="true" />;
  return <img class="icon" src={wallet.icon} alt="" width="32" height="32" />;
}

interface WaitingProps {
  step: Step;
  wallet: Wallet | undefined;
  chain: string;
  cancel: () => void;
}

function Waiting({ step, wallet, chain, cancel }: WaitingProps) {
  const says: Record<Step, string> = {
    connecting: t.connecting(wallet?.name || t.unnamedWallet),
    switching: t.switching(chain),
    checking: t.checking,
    signing: t.signing,
    sending: t.sending,
  };
  return (
    <>
      <div class="waiting" role="status">
        <Spinner />
        <span>{says[step]}</span>
      </div>
      {step === "signing" && <p class="hint">{t.otherTab}</p>}
      {step !== "sending" && step !== "checking" && (
        <button class="quiet" onClick={cancel}>
          {texts.cancel}
        </button>
      )}
    </>
  );
}

function Spinner() {
  return <span class="spinner" aria-hidden="true" />;
}

// Paid is how far a payment of this browser has come.
function Paid({ state }: { state: State }) {
  const { progress, step, order } = state;
  const status = progress?.status ?? "settling";
  const done = status === "fulfilled";
  const transaction = progress?.payment?.transaction;
  const ended = outcomeOf(status);
  return (
    <section class="do">
      <NoticeBox state={state} />
      {step === "sending" && (
        <div class="waiting" role="status">
          <Spinner />
          <span>{t.sending}</span>
        </div>
      )}
      {!step && !ended && (
        <Message
          tone="good"
          title={done ? texts.pay.done : t.paid}
          text={done ? `${deliveredOf(order?.kind)} ${t.deliveredText}` : t.paidText}
        />
      )}
      {ended}
      <Steps signed settled={!["payment_required", "settling"].includes(status)} delivered={done} over={!!ended} />
      {transaction && state.chain?.explorerUrl && (
        <p class="hint">
          <a href={`${state.chain.explorerUrl}/tx/${transaction}`} rel="noreferrer noopener" target="_blank">
            {t.transaction}
          </a>
        </p>
      )}
    </section>
  );
}

// Closed is an order that nobody can pay any more.
function Closed({ state: { order } }: { state: State }) {
  const status = order?.status ?? "";
  if (status === "expired")
    return (
      <section class="do">
        <Message tone="bad" title={t.expired} text={t.expiredText} />
      </section>
    );
  const [done, ended] = [status === "fulfilled", outcomeOf(status)];
  const text = done ? `${deliveredOf(order?.kind)} ${t.deliveredText}` : t.paidText;
  return (
    <section class="do">
      {ended ?? <Message tone="good" title={t.paidElsewhere} text={text} />}
      <Steps signed settled={status !== "settling"} delivered={done} over={!isMoving(status) && !done} />
    </section>
  );
}

// outcomeOf tells of an order that is not delivered.
function outcomeOf(status: string): ComponentChildren | undefined {
  if (status === "refund_pending")
    return <Message tone="warn" title={t.refundPending} text={t.refundPendingText} />;
  if (status === "refunded") return <Message tone="warn" title={t.refunded} text={t.refundedText} />;
  if (status === "operator_review") return <Message tone="warn" title={t.review} text={t.reviewText} />;
  return undefined;
}

interface StepsProps {
  signed: boolean;
  settled: boolean;
  delivered: boolean;
  /** It goes no further. */
  over: boolean;
}

function Steps({ signed, settled, delivered, over }: StepsProps) {
  const all: [string, boolean][] = [
    [t.stepSigned, signed],
    [t.stepSettled, settled],
    [t.stepDelivered, delivered],
  ];
  const now = over ? -1 : all.findIndex(([, done]) => !done);
  return (
    <ol class="steps" aria-label={t.progress}>
      {all.map(([name, done], i) => (
        <li
          key={name}
          class={done ? "done" : i === now ? "now" : undefined}
          aria-current={i === now ? "step" : undefined}
        >
          <span>{name}</span>
          {done && <span class="hidden">({t.stepDone})</span>}
        </li>
      ))}
    </ol>
  );
}

function NoticeBox({ state }: { state: State }) {
  const { notice } = state;
  if (!notice) return null;
  const [tone, title, text] = wordsOf(notice, state);
  return <Message tone={tone} title={title} text={text} requestId={notice.requestId} />;
}

type Tone = "good" | "warn" | "bad";

function wordsOf({ kind, detail }: Notice, { order, account, balance, chain }: State): [Tone, string, string] {
  const network = chain?.name ?? "";
  switch (kind) {
    case "wrongWallet":
      return ["warn", t.wrongWallet, t.wrongWalletText(order?.owner ?? "", short(account ?? "?"))];
    case "poor":
      return ["warn", t.poor, t.poorText(usdc(balance ?? 0n), usdc(BigInt(order?.amount ?? 0)), network)];
    case "refused":
      return ["warn", t.refused, t.refusedText];
    case "wrongChain":
      return ["warn", t.wrongChain, t.wrongChainText(network)];
    case "walletFailed":
      return ["bad", t.walletFailed, t.walletFailedText];
    case "unavailable":
      return ["warn", t.unavailable, t.unavailableText];
    case "notPayable":
      return ["bad", t.notPayable, detail ?? ""];
    case "rejected":
      return ["bad", t.rejected, `${t.rejectedText} ${detail ?? ""}`.trim()];
    case "clock":
      return ["bad", t.clock, t.clockText];
    case "unknown":
      return ["warn", t.unknown, t.unknownText];
    case "offline":
      return ["bad", t.offline, t.offlineText];
    case "failed":
      return ["bad", t.failed, detail ?? ""];
  }
}

interface MessageProps {
  tone: Tone;
  title: string;
  text: string;
  requestId?: string | undefined;
  heading?: boolean;
  children?: ComponentChildren;
}

function Message({ tone, title, text, requestId, heading, children }: MessageProps) {
  return (
    <div class={`message ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {heading ? <h1>{title}</h1> : <h2>{title}</h2>}
      {text && <p>{text}</p>}
      {requestId && <p class="mono small">{t.requestId(requestId)}</p>}
      {children}
    </div>
  );
}

function kindOf(kind: string): string {
  return (texts.kinds as Record<string, string>)[kind] ?? texts.otherKind;
}

function deliveredOf(kind: string | undefined): string {
  return (t.delivered as Record<string, string>)[kind ?? ""] ?? "";
}
