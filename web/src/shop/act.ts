// One thing that a part of the page does at a time, and how it went.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Notice, noticeOf } from "../lib/notice.js";

export interface Act {
  busy: boolean;
  notice: Notice | undefined;
  /** Does it, unless something is being done. Whether it went well. */
  run(act: () => Promise<unknown>): Promise<boolean>;
}

/** What a part of the page does; a part that is gone is told nothing any more. */
export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const [notice, setNotice] = useState<Notice | undefined>();
  const there = useRef(true);
  useEffect(() => () => void (there.current = false), []);
  const run = async (act: () => Promise<unknown>) => {
    if (busy) return false;
    setBusy(true);
    setNotice(undefined);
    try {
      await act();
      return there.current;
    } catch (error) {
      if (there.current) setNotice(noticeOf(error));
      return false;
    } finally {
      if (there.current) setBusy(false);
    }
  };
  return { busy, notice, run };
}

/** What is read once a part of the page is shown, and again when `again` is called. */
export function useRead<T>(read: () => Promise<T>, of: unknown): { value: T | undefined; act: Act; again: () => void } {
  const [value, setValue] = useState<T | undefined>();
  const act = useAct();
  const again = () => void act.run(async () => setValue(await read()));
  useEffect(again, [of]);
  return { value, act, again };
}
