// What the pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Wallet, WalletChain } from "roamcard/browser";
import { type About, type Notice, type Tone, wordsOf } from "./notice.js";
import { clock, short, texts } from "./text.js";
import type { Step } from "./wallet.js";

const t = texts.pay;

/** The name of the service, and the network when it is not the real one. */
export function Brand({ chain, children }: { chain: WalletChain | undefined; children?: ComponentChildren }) {
  return (
    <header class="brand">
      <Mark />
      <span>roamcard</span>
      {chain && chain.name !== texts.baseNetwork && <span class="badge">{chain.name}</span>}
      {children}
    </header>
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

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

// Address shows an address short, and whole to who asks.
export function Address({ value }: { value: string }) {
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

interface WalletsProps {
  wallets: Wallet[];
  title: string;
  hint?: string | undefined;
  disabled: boolean;
  choose: (wallet: Wallet) => void;
}

export function Wallets({ wallets, title, hint, disabled, choose }: WalletsProps) {
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
      <h2>{title}</h2>
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
      {hint && <p class="hint">{hint}</p>}
    </>
  );
}

export function Icon({ wallet }: { wallet: Wallet }) {
  if (wallet.icon === undefined) return <span class="icon" aria-hidden="true" />;
  return <img class="icon" src={wallet.icon} alt="" width="32" height="32" />;
}

interface WaitingProps {
  step: Step;
  wallet: Wallet | undefined;
  chain: string;
  /** The payment is in the block that is being built. */
  preconfirmed?: boolean | undefined;
  cancel: () => void;
}

export function Waiting({ step, wallet, chain, preconfirmed, cancel }: WaitingProps) {
  const says: Record<Step, string> = {
    connecting: t.connecting(wallet?.name || t.unnamedWallet),
    switching: t.switching(chain),
    checking: t.checking,
    signing: t.signing,
    sending: preconfirmed ? t.preconfirmed : t.sending,
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

export function Spinner() {
  return <span class="spinner" aria-hidden="true" />;
}

// outcomeOf tells of an order that is not delivered.
export function outcomeOf(status: string): ComponentChildren | undefined {
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

export function Steps({ signed, settled, delivered, over }: StepsProps) {
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

/** A notice, if there is one. */
export function NoticeBox({ notice, about }: { notice: Notice | undefined; about: About }) {
  if (!notice) return null;
  const [tone, title, text] = wordsOf(notice, about);
  return <Message tone={tone} title={title} text={text} requestId={notice.requestId} />;
}

interface MessageProps {
  tone: Tone;
  title: string;
  text: string;
  requestId?: string | undefined;
  heading?: boolean;
  children?: ComponentChildren;
}

export function Message({ tone, title, text, requestId, heading, children }: MessageProps) {
  return (
    <div class={`message ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {heading ? <h1>{title}</h1> : <h2>{title}</h2>}
      {text && <p>{text}</p>}
      {requestId && <p class="mono small">{t.requestId(requestId)}</p>}
      {children}
    </div>
  );
}

interface PayButtonProps {
  text: string;
  notice: Notice | undefined;
  disabled?: boolean;
  pay: () => void;
}

/** The button that asks the wallet: not before what it has signed for this can no longer be taken. */
export function PayButton({ text, notice, disabled, pay }: PayButtonProps) {
  const [over, setOver] = useState<string | undefined>();
  const { retryAt } = notice ?? {};
  const waits = retryAt !== undefined && retryAt !== over && Date.parse(retryAt) > Date.now();
  return (
    <>
      {waits && (
        <p class="hint">
          {t.signAgainIn} <TimeLeft until={retryAt} over={() => setOver(retryAt)} />
        </p>
      )}
      <button class="main" disabled={disabled || waits} onClick={pay}>
        {text}
      </button>
    </>
  );
}

export function TimeLeft({ until, over }: { until: string; over: () => void }) {
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

/** Where a transaction is looked up, where there is such a place. */
export function TransactionLink({ hash, chain }: { hash: string | undefined; chain: WalletChain | undefined }) {
  if (!hash || !chain?.explorerUrl) return null;
  return (
    <a href={`${chain.explorerUrl}/tx/${hash}`} rel="noreferrer noopener" target="_blank">
      {t.transaction}
    </a>
  );
}
