// What makes the console live: one cheap read, again and again, that leaves no audit record. Lists and orders are read
// when it says that they have changed, and not more often than every `keepMs`.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Summary } from "roamcard";
import type { OperatorApi } from "./api.js";

const everyMs = 5_000;
/** How long a view is not read again after a read, however much changes. */
const keepMs = 15_000;

export interface Watched {
  summary: Summary | undefined;
  /** When the last answer came; undefined before the first. */
  at: number | undefined;
  /** The last read got no answer. */
  lost: boolean;
  /** Reads now. */
  look: () => void;
}

/** Watches while the page is seen, and an order's version too if there is one. */
export function useWatch(api: OperatorApi, orderId: string | undefined): Watched {
  const [state, setState] = useState<Omit<Watched, "look">>({ summary: undefined, at: undefined, lost: false });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") {
        try {
          const summary = await api.summary(orderId);
          if (!over) setState({ summary, at: Date.now(), lost: false });
        } catch {
          if (!over) setState((last) => ({ ...last, lost: true }));
        }
      }
      if (!over) timer = setTimeout(() => void look(), everyMs);
    };
    const seen = () => {
      if (document.visibilityState === "visible") void look();
    };
    document.addEventListener("visibilitychange", seen);
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [api, orderId, asked]);
  return { ...state, look: () => setAsked((n) => n + 1) };
}

export interface Reading<T> {
  value: T | undefined;
  error: unknown;
  /** A read is under way. */
  busy: boolean;
  read: () => void;
}

/**
 * What a read gives. It is read again when `key` changes, at once, and when `mark` does, which says that what it is
 * about has changed, after a rest.
 */
export function useRead<T>(read: () => Promise<T>, key: string, mark?: string): Reading<T> {
  const [state, setState] = useState<Omit<Reading<T>, "read">>({ value: undefined, error: undefined, busy: true });
  const [turn, setTurn] = useState(0);
  const last = useRef({ key, mark, at: 0 });
  useEffect(() => {
    let over = false;
    const other = last.current.key !== key;
    last.current = { key, mark, at: Date.now() };
    setState((was) => ({ value: other ? undefined : was.value, error: undefined, busy: true }));
    read().then(
      (value) => !over && setState({ value, error: undefined, busy: false }),
      (error: unknown) => !over && setState((was) => ({ ...was, error, busy: false })),
    );
    return () => {
      over = true;
    };
  }, [key, turn]);
  useEffect(() => {
    if (mark === undefined || mark === last.current.mark) return;
    if (last.current.mark === undefined) {
      last.current.mark = mark; // the first word of the watch is no change
      return;
    }
    const wait = last.current.at + keepMs - Date.now();
    const timer = setTimeout(() => setTurn((n) => n + 1), Math.max(0, wait));
    return () => clearTimeout(timer);
  }, [mark, turn]);
  return { ...state, read: () => setTurn((n) => n + 1) };
}
