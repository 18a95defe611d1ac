// One thing that a part of the page does at a time, and how it went.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Notice, noticeOf } from "../lib/notice.js";

export interface Act {
  busy: boolean;
  notice: Notice | undefined;
  /** Does it, unless something is being done. Whether it went well. */
  run(act: (signal: AbortSignal) => Promise<unknown>): Promise<boolean>;
  /** Gives it up, and ignores what becomes of it. */
  cancel(): void;
}

/** What a part of the page does; a part that is gone is told nothing any more. */
export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const [notice, setNotice] = useState<Notice | undefined>();
  const current = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => current.current?.abort(), []);
  const run = async (act: (signal: AbortSignal) => Promise<unknown>) => {
    if (busy) return false;
    const { signal } = (current.current = new AbortController());
    setBusy(true);
    setNotice(undefined);
    try {
      await act(signal);
      return !signal.aborted;
    } catch (error) {
      if (!signal.aborted) setNotice(noticeOf(error));
      return false;
    } finally {
      if (!signal.aborted) setBusy(false);
    }
  };
  const cancel = () => {
    current.current?.abort();
    setBusy(false);
  };
  return { busy, notice, run, cancel };
}

/** What is read once a part of the page is shown, and again when `again` is called. */
export function useRead<T>(read: () => Promise<T>, of: unknown): { value: T | undefined; act: Act; again: () => void } {
  const [value, setValue] = useState<T | undefined>();
  const act = useAct();
  const again = () => void act.run(async () => setValue(await read()));
  useEffect(again, [of]);
  return { value, act, again };
}
