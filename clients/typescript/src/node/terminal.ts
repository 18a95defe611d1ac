// Shows a card or an eSIM in the terminal, on a screen of its own that leaves nothing behind.
import type { ReadStream, WriteStream } from "node:tty";
import { openEsim } from "../esim-parts.js";
import type { EsimPresenter, Presented, Presenter } from "../presenter.js";
import { expiry, grouped, sealedPresenter } from "../sealed.js";

const enter = "\x1b[?1049h\x1b[2J\x1b[H";
const leave = "\x1b[2J\x1b[?1049l";

/**
 * Shows the card, or the eSIM, on the terminal's alternate screen until a key is pressed, or for a minute. It refuses
 * pipes and files.
 */
export function terminalPresenter({ input = process.stdin, output = process.stdout, timeoutMs = 60_000 }: {
  input?: ReadStream; output?: WriteStream; timeoutMs?: number;
} = {}): Presenter & EsimPresenter {
  const shown = async (lines: string[], signal: AbortSignal | undefined): Promise<Presented> => {
    if (!input.isTTY || !output.isTTY) return { presented: false, reason: "no_terminal" };
    return show(lines, input, output, timeoutMs, signal);
  };
  return {
    ...sealedPresenter((card, signal) =>
      shown([grouped(card.number), `valid to ${expiry(card)}   code ${card.securityCode}`], signal),
    ),
    presentEsim: async (secret, signal) => {
      const esim = openEsim(secret);
      return shown(
        [esim.lpa, `SM-DP+ address ${esim.smdpAddress}`, `activation code ${esim.matchingId}`, `ICCID ${esim.iccid}`],
        signal,
      );
    },
  };
}

function show(
  lines: string[],
  input: ReadStream,
  output: WriteStream,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Presented> {
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
    output.write(`${enter}\r\n${lines.map((line) => `  ${line}\r\n`).join("")}\r\n  Press any key to hide it.\r\n`);
  });
}
