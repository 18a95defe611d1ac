// Shows a card or an eSIM once, in a page on this machine.
import { spawn } from "node:child_process";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { RevealError } from "../errors.js";
import { openEsim } from "../esim-parts.js";
import type { EsimPresenter, Presented, Presenter } from "../presenter.js";
import type { EsimCredentials } from "../results.js";
import { type Credentials, expiry, grouped, sealedPresenter } from "../sealed.js";
import { checkFolder, programEnvironment } from "./custody.js";

/** How long the page stays after it was seen, for the browser to finish. */
const afterglow = 1_500;

const headers = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; frame-ancestors 'none'; " +
    "base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // The button's post tells its origin: with no-referrer it would be null, as that of a stranger's page.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/**
 * Shows the card, or the eSIM with its QR code, in a page that this process serves on loopback, one time; it is gone
 * after that, or after a minute. The browser opens a file that only this user can read, and the file posts the page's
 * secret: it is on no command line, which everybody on the machine can read. The page belongs to the browser that came
 * first, and shows the card when the person presses its button. `open` takes the file's address, which is no secret, to
 * the person: the system's browser when absent. A page of the service's, for cards whose issuer shows them there only,
 * is opened in the same way.
 */
export function pagePresenter({
  open = openBrowser,
  timeoutMs = 60_000,
}: { open?: (url: string) => unknown; timeoutMs?: number } = {}): Presenter & EsimPresenter {
  const show = (page: Page, signal?: AbortSignal) => page.shown(open, timeoutMs, signal);
  return {
    openPage: (url, signal) => show(new Page("Your card", { leads: url }), signal),
    ...sealedPresenter((card, signal) => show(new Page("Your card", { content: cardHtml(card) }), signal)),
    presentEsim: async (esim, signal) => show(new Page("Your eSIM", { content: esimHtml(openEsim(esim)) }), signal),
  };
}

const doubled =
  "This page was opened before, by another window. It shows nothing any more. If that window was not yours, somebody " +
  "else may have seen what it had: freeze the card, and ask again.";

type State = "waits" | "opened" | "shown" | "led" | "interrupted" | "doubled";

/**
 * Is shown to one browser, once: a post of / with the secret of the file gets a button and a cookie, and a post of
 * /show with both gets the content. The secret works once. Who comes with it a second time is another browser than the
 * first, and one of them is not the person's: then nothing is shown any more.
 */
class Page {
  readonly #server: Server = createServer((request, response) => {
    this.#answer(request, response).catch(() => response.destroy());
  });
  readonly #secret = randomText();
  readonly #leads: string | undefined;
  #content: string | undefined;
  #cookie = "";
  #token = "";
  #state: State = "waits";
  #over: () => void = () => undefined;

  constructor(readonly title: string, { content, leads }: { content?: string; leads?: string }) {
    this.#content = content;
    this.#leads = leads;
  }

  async shown(open: (url: string) => unknown, timeoutMs: number, signal: AbortSignal | undefined): Promise<Presented> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const folder = await pageFolder();
    try {
      const file = join(folder, "open.html");
      await writeFile(file, this.#file(), { mode: 0o600, flag: "wx" });
      const ended = new Promise<"timeout" | "closed" | "over">((done) => {
        this.#over = () => done("over");
        setTimeout(() => done("timeout"), timeoutMs).unref();
        signal?.addEventListener("abort", () => done("closed"), { once: true });
        if (signal?.aborted) done("closed");
      });
      await open(pathToFileURL(file).href);
      const why = await ended;
      // Somebody who comes again meanwhile was the second one.
      if (why === "over") await new Promise((done) => setTimeout(done, afterglow));
      return this.#outcome(why);
    } finally {
      this.#content = undefined;
      this.#server.close();
      this.#server.closeAllConnections();
      await rm(folder, { recursive: true, force: true }); // what it says is used up
    }
  }

  #outcome(why: "timeout" | "closed" | "over"): Presented {
    if (this.#state === "shown") return { presented: true };
    if (this.#state === "led") return { presented: false, reason: "opened_in_browser" };
    if (this.#state === "doubled") return { presented: false, reason: "opened_elsewhere" };
    if (this.#state === "interrupted") return { presented: false, reason: "interrupted" };
    if (why === "timeout" && this.#state === "opened") return { presented: false, reason: "not_pressed" };
    return { presented: false, reason: why === "timeout" ? "timeout" : "closed" };
  }

  get #host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #file(): string {
    const secret = `<input type="hidden" name="secret" value="${this.#secret}">`;
    const form = `<form method="post" action="http://${this.#host}/">${secret}<button>Continue</button></form>`;
    return page(this.title, `${form}<script>document.forms[0].submit()</script>`);
  }

  #end(state: State): void {
    this.#state = state;
    this.#over();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url?.split("?")[0];
    if (request.headers.host !== this.#host || (path !== "/" && path !== "/show")) return say(response, 404, "");
    if (request.method !== "POST") {
      response.setHeader("allow", "POST");
      return say(response, 405, "There is nothing here. Open the file that you were told.");
    }
    if (!alone(request)) return say(response, 403, "This page is opened by itself, in a window of its own.");
    const form = await formOf(request);
    return path === "/" ? this.#open(request, response, form) : this.#show(request, response, form);
  }

  // open gives the page to the browser that comes first with the file's secret. A file has the origin null.
  #open(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): void {
    if (!comes(request, "null", "none", "cross-site") || !same(form.get("secret"), this.#secret))
      return say(response, 403, "This page is opened by its own file.");
    if (this.#state !== "waits") {
      this.#content = undefined;
      this.#end("doubled");
      return say(response, 410, doubled);
    }
    if (this.#leads !== undefined) {
      this.#end("led");
      const leading = { ...headers, "referrer-policy": "no-referrer", location: this.#leads };
      return void response.writeHead(303, leading).end();
    }
    [this.#state, this.#cookie, this.#token] = ["opened", randomText(), randomText()];
    response.setHeader("set-cookie", `roamcard=${this.#cookie}; Path=/; HttpOnly; SameSite=Strict`);
    const token = `<input type="hidden" name="token" value="${this.#token}">`;
    const form_ = `<form method="post" action="/show">${token}<button>Show it</button></form>`;
    const asks = "<p>It is shown once. Make sure that nobody else sees your screen.</p>";
    answer(response, 200, page(this.title, asks + form_));
  }

  // show shows the content to the person who pressed the button, in the browser that has the page. The cookie alone
  // would not do: other ports of this machine get it, too.
  #show(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): void {
    const cookies = (request.headers.cookie ?? "").split(";").map((c) => c.trim());
    const bound = this.#cookie !== "" && cookies.some((c) => same(c, `roamcard=${this.#cookie}`));
    if (!comes(request, `http://${this.#host}`, "same-origin") || !bound || !same(form.get("token"), this.#token))
      return say(response, 403, "This button is pressed in the window that has it.");
    const content = this.#content;
    this.#content = undefined;
    if (this.#state !== "opened" || content === undefined)
      return say(response, 410, "This page was shown once. Ask for it again.");
    this.#state = "interrupted"; // until it is written
    const once_ = "<p>Shown once. Close this window when you are done; it cannot be loaded again.</p>";
    response.once("close", () => this.#over());
    answer(response, 200, page(this.title, content + once_), () => {
      if (this.#state === "interrupted") this.#end("shown");
    });
  }
}

/** Whether a request is a navigation of a whole window, as far as its browser says. */
function alone({ headers: told }: IncomingMessage): boolean {
  const [mode = "navigate", dest = "document"] = [told["sec-fetch-mode"], told["sec-fetch-dest"]];
  return mode === "navigate" && dest === "document" && told["sec-purpose"] === undefined;
}

/** Whether a request comes from one of these origins and sites, as far as its browser says. */
function comes({ headers: told }: IncomingMessage, origin: string, ...sites: string[]): boolean {
  const site = told["sec-fetch-site"];
  return (told.origin ?? origin) === origin && (site === undefined || sites.includes(String(site)));
}

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  let text = "";
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > 4096) return new URLSearchParams(); // no secret is so long
  }
  return new URLSearchParams(text);
}

function same(given: string | null, secret: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return given !== null && timingSafeEqual(digest(given), digest(secret));
}

function randomText(): string {
  return randomBytes(32).toString("base64url");
}

function say(response: ServerResponse, status: number, text: string): void {
  answer(response, status, page("roamcard", `<p>${text}</p>`));
}

function answer(response: ServerResponse, status: number, html: string, written?: () => void): void {
  response.writeHead(status, { ...headers, "content-type": "text/html; charset=utf-8" }).end(html, written);
}

// A folder that this user alone can read, where others cannot put another one in its place. A browser in a snap sees
// another /tmp, and of the home what is not hidden.
async function pageFolder(): Promise<string> {
  const snaps = process.platform === "linux" && (await stat(join(homedir(), "snap")).catch(() => undefined));
  const own = snaps && snaps.isDirectory() && (await mkdtemp(join(homedir(), "roamcard-")).catch(() => undefined));
  if (own) return own;
  const folder = await mkdtemp(join(tmpdir(), "roamcard-"));
  try {
    checkFolder(folder);
    return folder;
  } catch (error) {
    await rm(folder, { recursive: true });
    throw new RevealError((error as Error).message);
  }
}

// What the pages show needs no escaping: the parts are checked to be what they should.

function cardHtml(card: Credentials): string {
  return (
    `<dl><dt>Number</dt><dd>${grouped(card.number)}</dd><dt>Valid to</dt><dd>${expiry(card)}</dd>` +
    `<dt>Code</dt><dd>${card.securityCode}</dd></dl>`
  );
}

function esimHtml({ lpa, iccid, smdpAddress, matchingId, qrPng }: EsimCredentials): string {
  return `<img src="${qrPng}" alt="${lpa}" width="300">
<dl><dt>SM-DP+ address</dt><dd>${smdpAddress}</dd><dt>Activation code</dt><dd>${matchingId}</dd>
<dt>ICCID</dt><dd>${iccid}</dd></dl>`;
}

function page(title: string, content: string): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title>
<style>body{font:1.2rem system-ui;display:grid;place-items:center;min-height:90vh;margin:0}
main{border:1px solid;border-radius:1rem;padding:2rem}button{font:inherit;padding:.6rem 1.5rem}
dd{font:1.6rem ui-monospace,monospace;margin:0 0 1rem}p{max-width:26rem}</style>
<main>${content}</main></html>
`;
}

function openBrowser(url: string): Promise<void> {
  const command = { darwin: "open", win32: "explorer" }[process.platform as string] ?? "xdg-open";
  const child = spawn(command, [url], { stdio: "ignore", detached: true, env: programEnvironment() });
  child.unref();
  return new Promise((done, fail) => {
    child.once("spawn", done);
    child.once("error", () => {
      // Without a browser the address goes to the person's terminal. Only this user can read the file.
      if (!process.stderr.isTTY) return fail(new RevealError("no browser can be opened here"));
      process.stderr.write(`Open ${url} within a minute; it shows once.\n`);
      done();
    });
  });
}
