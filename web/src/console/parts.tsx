// What the places of the console are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, type Approval, type OperatorIdentity } from "roamcard";
import { short } from "../lib/text.js";
import { type Slice, wordsOf } from "./api.js";
import { t } from "./text.js";
import { useRead } from "./watch.js";

/** A text of few values in words; what is unknown is shown as it is. */
export function word(words: Record<string, string>, value: string): string {
  return words[value] ?? value;
}

export function Badge({ tone = "plain", children }: { tone?: string; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const tones: Record<string, string> = {
  operator_review: "warn", failed: "bad", refund_pending: "warn", open: "warn", pending: "warn", fulfilled: "good",
  succeeded: "good", paid: "good", refunded: "good", resolved: "good", approved: "good", dead: "bad", rejected: "bad",
  agreed: "good", differed: "warn", incomplete: "warn",
};

/** A status, in words and a colour. */
export function Status({ value }: { value: string }) {
  return <Badge tone={tones[value]}>{word(t.statuses, value)}</Badge>;
}

/** How long ago a time was, with the time itself for who points at it. */
export function Ago({ at }: { at: string | undefined }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (at === undefined) return null;
  return (
    <time dateTime={at} title={t.time(at)}>
      {t.ago(now - Date.parse(at))}
    </time>
  );
}

/** A time of the day. */
export function When({ at }: { at: string | undefined }) {
  if (at === undefined) return null;
  return <time dateTime={at}>{t.time(at)}</time>;
}

/** An address, a hash or an id: short, and whole to who copies it. */
export function Code({ value }: { value: string | undefined }) {
  const [copied, setCopied] = useState(false);
  if (!value) return null;
  const copy = () =>
    void navigator.clipboard?.writeText(value).then(
      () => setCopied(true),
      () => undefined,
    );
  const shown = value.length > 30 ? short(value) : value;
  return (
    <button type="button" class="code mono" title={value} onClick={copy}>
      {copied ? t.copied : shown}
      <span class="hidden"> {t.copy}</span>
    </button>
  );
}

interface ActButtonProps {
  me: OperatorIdentity;
  /** The operation that it asks for. */
  of: string;
  disabled?: boolean | undefined;
  onClick: () => void;
  children: ComponentChildren;
}

/** A button that does something; off for those whose role does not cover it. */
export function ActButton({ me, of, disabled, onClick, children }: ActButtonProps) {
  const may = me.operations.includes(of);
  return (
    <button
      type="button"
      class={may ? "act" : "act off"}
      disabled={disabled || !may}
      title={may ? undefined : t.notYours}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { text, code, requestId } = wordsOf(error);
  return (
    <div class="message bad" role="alert">
      <strong>{word(t.problems, code) === code ? t.failed : word(t.problems, code)}</strong>
      <p>{text}</p>
      {requestId && <p class="mono small">{t.request(requestId)}</p>}
      {retry && (
        <button type="button" class="quiet" onClick={retry}>
          {t.again}
        </button>
      )}
    </div>
  );
}

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Of numbers, which stand at the right. */
  number?: boolean;
}

interface ListProps<T> {
  label: string;
  columns: Column<T>[];
  load: (pageToken: string | undefined) => Promise<Slice<T>>;
  /** What the list is of: another one begins at its first page. */
  of: string;
  /** What says that the list has changed. */
  mark?: string | undefined;
  /** Rises when somebody asks to read again. */
  turn: number;
  keyOf: (row: T) => string;
  empty: string;
}

/** A list by its pages. */
export function List<T>({ label, columns, load, of, mark, turn, keyOf, empty }: ListProps<T>) {
  const [pages, setPages] = useState<{ of: string; tokens: (string | undefined)[] }>({ of, tokens: [undefined] });
  const { tokens } = pages.of === of ? pages : { tokens: [undefined] };
  const token = tokens.at(-1);
  const { value, error, busy, read } = useRead(() => load(token), `${of} ${token ?? ""} ${turn}`, mark);
  const shown = useRef<Slice<T> | undefined>(undefined);
  if (value) shown.current = value;
  const page = value ?? (busy ? shown.current : undefined);
  const go = (next: (string | undefined)[]) => setPages({ of, tokens: next });
  return (
    <section class="list" aria-label={label} aria-busy={busy}>
      {error !== undefined && <Failure error={error} retry={read} />}
      {page && page.items.length === 0 && <p class="empty">{empty}</p>}
      {page && page.items.length > 0 && <Rows columns={columns} rows={page.items} keyOf={keyOf} label={label} />}
      {!page && !error && <p class="empty">{t.loading}</p>}
      {(tokens.length > 1 || page?.next) && (
        <nav class="pages" aria-label={t.pages}>
          <button type="button" data-page="p" disabled={tokens.length < 2} onClick={() => go(tokens.slice(0, -1))}>
            {t.previous}
          </button>
          <span>{t.page(tokens.length)}</span>
          <button type="button" data-page="n" disabled={!page?.next} onClick={() => go([...tokens, page?.next])}>
            {t.next}
          </button>
        </nav>
      )}
    </section>
  );
}

interface RowsProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
}

/**
 * Rows. A table that is too wide scrolls in its own place, by the keyboard too. On a narrow page each row is a card,
 * whose cells name their columns; the roles stay a table's.
 */
export function Rows<T>({ label, columns, rows, keyOf }: RowsProps<T>) {
  return (
    <div class="rows" role="group" aria-label={label} tabIndex={0}>
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ name, number }) => (
              <th key={name} role="columnheader" scope="col" class={number ? "number" : undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={keyOf(row)} role="row" data-row>
              {columns.map(({ name, cell, number }) => (
                <td key={name} role="cell" data-name={name} class={number ? "number" : undefined}>
                  <div>{cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What is chosen from. */
export interface Choice {
  value: string;
  name: string;
}

interface PickProps {
  name: string;
  value: string;
  choices: Choice[];
  pick: (value: string) => void;
}

export function Pick({ name, value, choices, pick }: PickProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <select value={value} onChange={(event) => pick(event.currentTarget.value)}>
        {choices.map((each) => (
          <option key={each.value} value={each.value}>
            {each.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Something that an operator is about to do. */
export interface Act {
  title: string;
  /** What will happen, in sentences. */
  preview: ComponentChildren[];
  confirm: string;
  /** It cannot be taken back. */
  final?: boolean;
  fields?: (values: Record<string, string>, set: (name: string, value: string) => void) => ComponentChildren;
  /** Values that the fields begin with. */
  values?: Record<string, string>;
  /** Does it, under a key that stays the same however often it is tried. */
  run: (reason: string, key: string, values: Record<string, string>) => Promise<unknown>;
  done: string;
}

interface DialogProps {
  act: Act;
  close: (done?: string) => void;
  /** Reads again what the act is about. */
  reread: () => void;
}

/** What an act answers when it waits for a second operator, not when another one that it has overtaken does. */
function waitsForApproval(answer: unknown): boolean {
  const { pendingApproval, status } = (answer ?? {}) as { pendingApproval?: Approval; status?: string };
  return (pendingApproval?.status === "pending" && !pendingApproval.outdated) || status === "approval_pending";
}

/** Asks for a reason, shows what will happen, and does it. */
export function Dialog({ act, close, reread }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [key] = useState(() => `console-${crypto.randomUUID()}`);
  const [reason, setReason] = useState("");
  const [values, setValues] = useState(act.values ?? {});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  const run = async () => {
    if (busy || reason.trim() === "") return;
    setBusy(true);
    setError(undefined);
    try {
      const answer = await act.run(reason.trim(), key, values);
      close(waitsForApproval(answer) ? t.done.waits : act.done);
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const stale = error instanceof ApiError && error.code === "version_changed";
  const confirmed = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={() => close()} onKeyDown={confirmed}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <h2 id={id}>{act.title}</h2>
        <ul class="preview">
          {act.preview.map((line, i) => (
            <li key={i}>{line}</li>
          ))}
          {act.final && <li class="final">{t.final}</li>}
        </ul>
        {act.fields?.(values, (name, value) => setValues((was) => ({ ...was, [name]: value })))}
        <label class="field">
          <span>{t.reason}</span>
          <textarea
            required
            autofocus={!act.fields}
            maxLength={500}
            rows={3}
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          <small>{t.reasonHint}</small>
        </label>
        {error !== undefined && <Failure error={error} />}
        <div class="buttons">
          <button type="button" class="quiet" onClick={() => close()}>
            {t.cancel}
          </button>
          {stale ? (
            <button
              type="button"
              class="main"
              onClick={() => {
                close();
                reread();
              }}
            >
              {t.readAgain}
            </button>
          ) : (
            <button type="submit" class={act.final ? "main danger" : "main"} disabled={busy}>
              {busy ? t.working : act.confirm}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
