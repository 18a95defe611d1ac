// Shows a card or an eSIM once, in a page on this machine.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { RevealError } from "../errors.js";
import { openEsim } from "../esim-parts.js";
import type { EsimPresenter, Presented, Presenter } from "../presenter.js";
import type { EsimCredentials } from "../results.js";
import { type Credentials, expiry, grouped, sealedPresenter } from "../sealed.js";

/** How long the page stays after it was seen, for the browser to finish. */
const afterglow = 1_500;

const headers = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/**
 * Shows the card, or the eSIM with its QR code, in a page that this process serves on loopback, at an address nobody
 * can guess, one time; it is gone after that, or after a minute. `open` takes the address to the person: the system's
 * browser when absent. Whoever has the address can see the page once, so give it to nobody but the person. A page of
 * the service's, for cards whose issuer shows them there only, is opened as it is.
 */
export function pagePresenter({
  open,
  timeoutMs = 60_000,
}: { open?: (url: string) => unknown; timeoutMs?: number } = {}): Presenter & EsimPresenter {
  const openLocal = open ?? openBrowser;
  return {
    async openPage(url) {
      await (open ?? startBrowser)(url);
      return { presented: false, reason: "opened_in_browser" };
    },
    ...sealedPresenter((card, signal) => new Page(cardHtml(card)).shown(openLocal, timeoutMs, signal)),
    presentEsim: async (esim, signal) => new Page(esimHtml(openEsim(esim))).shown(openLocal, timeoutMs, signal),
  };
}

class Page {
  readonly #path = `/${randomBytes(24).toString("base64url")}`;
  readonly #server: Server = createServer((request, response) => this.#answer(request, response));
  #html: string | undefined;
  #seen: () => void = () => undefined;

  constructor(html: string) {
    this.#html = html;
  }

  async shown(open: (url: string) => unknown, timeoutMs: number, signal: AbortSignal | undefined): Promise<Presented> {
    await new Promise<void>((done, fail) => this.#server.once("error", fail).listen(0, "127.0.0.1", done));
    try {
      const over = new Promise<Presented>((done) => {
        this.#seen = () => done({ presented: true });
        setTimeout(() => done({ presented: false, reason: "timeout" }), timeoutMs).unref();
        signal?.addEventListener("abort", () => done({ presented: false, reason: "closed" }), { once: true });
        if (signal?.aborted) done({ presented: false, reason: "closed" });
      });
      await open(`http://${this.#host}${this.#path}`);
      return await over;
    } finally {
      this.#html = undefined;
      setTimeout(() => this.#close(), afterglow).unref();
    }
  }

  get #host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  // answer shows the page to the first who asks rightly. Another host name or a foreign page means that somebody
  // tricked the browser into asking.
  #answer(request: IncomingMessage, response: ServerResponse): void {
    const site = request.headers["sec-fetch-site"] ?? "none";
    const right =
      request.method === "GET" &&
      request.url === this.#path &&
      request.headers.host === this.#host &&
      ["none", "same-origin"].includes(String(site));
    if (!right) return void response.writeHead(404, headers).end();
    const html = this.#html;
    this.#html = undefined;
    if (!html)
      return void response
        .writeHead(410, { ...headers, "content-type": "text/plain; charset=utf-8" })
        .end("This was shown already.\n");
    response.writeHead(200, { ...headers, "content-type": "text/html; charset=utf-8" });
    response.end(html, () => this.#seen());
  }
}

// What the pages show needs no escaping: the parts are checked to be what they should.

function cardHtml(card: Credentials): string {
  return page(
    "Your card",
    `<dl><dt>Number</dt><dd>${grouped(card.number)}</dd><dt>Valid to</dt><dd>${expiry(card)}</dd>` +
      `<dt>Code</dt><dd>${card.securityCode}</dd></dl>`,
  );
}

function esimHtml({ lpa, iccid, smdpAddress, matchingId, qrPng }: EsimCredentials): string {
  return page(
    "Your eSIM",
    `<img src="${qrPng}" alt="${lpa}" width="300">
<dl><dt>SM-DP+ address</dt><dd>${smdpAddress}</dd><dt>Activation code</dt><dd>${matchingId}</dd>
<dt>ICCID</dt><dd>${iccid}</dd></dl>`,
  );
}

function page(title: string, content: string): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title>
<style>body{font:1.2rem system-ui;display:grid;place-items:center;min-height:90vh;margin:0}
main{border:1px solid;border-radius:1rem;padding:2rem}
dd{font:1.6rem ui-monospace,monospace;margin:0 0 1rem}p{max-width:26rem}</style>
<main>${content}
<p>Shown once. Close this window when you are done; it cannot be loaded again.</p></main></html>
`;
}

function openBrowser(url: string): void {
  // Without a browser the address goes to the person's terminal, never to what reads this process's output.
  void startBrowser(url).catch(() => process.stderr.isTTY && process.stderr.write(`Open ${url} to see it.\n`));
}

function startBrowser(url: string): Promise<void> {
  const command = { darwin: "open", win32: "explorer" }[process.platform as string] ?? "xdg-open";
  const child = spawn(command, [url], { stdio: "ignore", detached: true });
  child.unref();
  return new Promise((done, fail) => {
    child.once("spawn", done);
    child.once("error", () => fail(new RevealError("no browser can be opened here")));
  });
}
