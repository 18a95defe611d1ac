// A real terminal: a command in a pseudo-terminal of its own, with somebody who presses keys.
import { spawn } from "node:child_process";

/** Where a program leaves the terminal's own screen for the other one, and comes back. */
export const otherScreen = /\x1b\[\?1049h([\s\S]*?)\x1b\[\?1049l/g;

/**
 * Runs a shell command in a terminal. keys are pairs of what to wait for and what to press then, each once and in turn.
 * Resolves to the exit code and everything that the terminal was sent.
 */
export async function inTerminal(command, { cwd, env, keys = [] }) {
  const child = spawn("script", ["--quiet", "--flush", "--return", "--command", command, "/dev/null"], { cwd, env });
  let output = "";
  let seen = 0;
  const waiting = [...keys];
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
    while (waiting.length > 0) {
      const at = output.indexOf(waiting[0][0], seen);
      if (at < 0) return;
      seen = at + waiting[0][0].length;
      child.stdin.write(waiting.shift()[1]);
    }
  });
  const code = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  return { code, output };
}

/** The pixels of a QR code that is drawn with half blocks, dark on light, for jsQR. */
export function pixelsOf(lines, scale = 4) {
  const rows = lines.flatMap((line) => {
    const cells = [...line];
    return [cells.map((c) => c === "█" || c === "▀"), cells.map((c) => c === "█" || c === "▄")];
  });
  const width = Math.max(...rows.map((row) => row.length)) * scale;
  const height = rows.length * scale;
  const data = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const lit = rows[Math.floor(y / scale)][Math.floor(x / scale)] ?? false;
      data.fill(lit ? 255 : 0, (y * width + x) * 4, (y * width + x) * 4 + 3);
    }
  }
  return { data, width, height };
}
