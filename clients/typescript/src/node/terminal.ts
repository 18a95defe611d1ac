// Shows a card in the terminal, on a screen of its own that leaves nothing behind.
import type { ReadStream, WriteStream } from "node:tty";
import type { Presented, Presenter } from "../roamcard.js";
import { type Credentials, expiry, grouped, sealedPresenter } from "./sealed.js";

const enter = "\x1b[?1049h\x1b[2J\x1b[H";
const leave = "\x1b[2J\x1b[?1049l";

/** Shows the card on the terminal's alternate screen until a key is pressed, or for a minute. It refuses pipes and files. */
export function terminalPresenter({ input = process.stdin, output = process.stdout, timeoutMs = 60_000 }: {
  input?: ReadStream; output?: WriteStream; timeoutMs?: number;
} = {}): Presenter {
  return sealedPresenter(async (card, signal) => {
    if (!input.isTTY || !output.isTTY) return { presented: false, reason: "no_terminal" };
    return show(card, input, output, timeoutMs, signal);
  });
}

function show(card: Credentials, input: ReadStream, output: WriteStream, timeoutMs: number, signal: AbortSignal | undefined): Promise<Presented> {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      input.off("data", end).setRawMode(false).pause();
      signal?.removeEventListener("abort", end);
      output.write(leave);
      done({ presented: true });
    };
    const timer = setTimeout(end, timeoutMs);
    input.setRawMode(true).resume().once("data", end);
    signal?.addEventListener("abort", end, { once: true });
    output.write(`${enter}\r\n  ${grouped(card.number)}\r\n  valid to ${expiry(card)}   code ${card.securityCode}\r\n\r\n  Press any key to hide it.\r\n`);
  });
}
