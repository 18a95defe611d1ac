// Shows a card or an eSIM in a page, where the page's own code and whoever reads its document do not see it.
import { openEsim } from "../esim-parts.js";
import type { EsimPresenter, Presented, Presenter } from "../presenter.js";
import type { EsimCredentials } from "../results.js";
import { type Credentials, expiry, grouped, sealedPresenter } from "../sealed.js";

// Taken before other code of the page can put something else in their place.
const attachShadow = Element.prototype.attachShadow;
const append = Element.prototype.append;

/** What the presenter writes; English when absent. */
export interface PresenterLabels {
  number: string;
  expiry: string;
  securityCode: string;
  smdpAddress: string;
  activationCode: string;
  iccid: string;
  /** The links that install an eSIM on the device that shows them. */
  ios: string;
  android: string;
  hide: string;
  openPage: string;
}

const english: PresenterLabels = {
  number: "Number",
  expiry: "Valid to",
  securityCode: "Code",
  smdpAddress: "SM-DP+ address",
  activationCode: "Activation code",
  iccid: "ICCID",
  ios: "Install on this iPhone or iPad",
  android: "Install on this Android device",
  hide: "Hide",
  openPage: "Open the card in a window of its own",
};

/** How a presenter shows things. */
export interface PresenterOptions {
  /** How long they are shown; a minute when absent. */
  timeoutMs?: number;
  labels?: Partial<PresenterLabels>;
  /** More style, for what is in the presenter: section, dl, dt, dd, canvas, a and button. */
  style?: string;
}

/**
 * Shows the card, or the eSIM with its QR code and its links for phones, inside an element of the page, until the
 * person closes it, the page is left or a minute is over; then it is removed. It stands in a closed shadow root:
 * neither the document's text nor a query finds it. That keeps it from scripts that read pages, not from an extension
 * or a screenshot. An element that is not in the document, or in a page that nobody looks at, shows nothing to anybody:
 * `presented` is false.
 *
 * A card whose issuer shows it on a page of the service's only has a link here instead, which the person follows into a
 * window of its own: browsers open windows for a person's click, and a wallet has asked for a signature since the last.
 */
export function elementPresenter(
  element: Element,
  { timeoutMs = 60_000, labels, style = "" }: PresenterOptions = {},
): Presenter & EsimPresenter {
  const words = { ...english, ...labels };
  const place = { element, timeoutMs, style, hide: words.hide };
  return {
    ...sealedPresenter(async (card, signal) => shown(place, cardParts(card, words), signal)),
    openPage: async (url, signal) => {
      const stop = new AbortController();
      const end = () => stop.abort();
      let followed = false;
      const link = made("a", words.openPage);
      Object.assign(link, { href: url, target: "_blank", rel: "noopener noreferrer" });
      // The link stands until the browser has followed it.
      link.addEventListener("click", () => ((followed = true), setTimeout(end)));
      signal?.addEventListener("abort", end);
      if (signal?.aborted) end();
      const { reason } = await ended(place, [link], stop.signal);
      signal?.removeEventListener("abort", end);
      return { presented: false, reason: followed ? "opened_in_browser" : reason };
    },
    presentEsim: async (secret, signal) => {
      const esim = openEsim(secret);
      return shown(place, [await qrCode(esim), ...links(esim, words), ...esimParts(esim, words)], signal);
    },
  };
}

/** Where something is shown, and how. */
interface Place {
  element: Element;
  timeoutMs: number;
  style: string;
  hide: string;
}

async function shown(place: Place, parts: Node[], signal: AbortSignal | undefined): Promise<Presented> {
  const { seen, reason } = await ended(place, parts, signal);
  return seen ? { presented: true } : { presented: false, reason };
}

/** How it ended that something was shown: whether anybody can have seen it, and why it is over. */
interface Ending {
  seen: boolean;
  reason: "timeout" | "closed";
}

function ended(
  { element, timeoutMs, style, hide }: Place, parts: Node[], signal: AbortSignal | undefined,
): Promise<Ending> {
  const { promise, resolve } = ending<Ending>();
  if (!element.isConnected || signal?.aborted) return Promise.resolve({ seen: false, reason: "closed" });
  let seen = false;
  const look = () => void (seen ||= document.visibilityState === "visible" && host.isConnected);
  const end = (reason: "timeout" | "closed") => {
    look();
    host.remove();
    content.replaceChildren();
    resolve({ seen, reason });
  };
  const close = () => end("closed");
  const host = document.createElement("div");
  const root = attachShadow.call(host, { mode: "closed" });
  const content = frame(parts, hide, close);
  root.adoptedStyleSheets = [sheet(style)];
  root.append(content);
  append.call(element, host);
  look();
  const timer = setTimeout(() => end("timeout"), timeoutMs);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", close);
  signal?.addEventListener("abort", close);
  void promise.finally(() => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
    window.removeEventListener("pagehide", close);
    signal?.removeEventListener("abort", close);
  });
  return promise;
}

function ending<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}

// A sheet made by script is no inline style, which a page may forbid.
function sheet(style: string): CSSStyleSheet {
  const made = new CSSStyleSheet();
  made.replaceSync(
    ":host{display:block}" +
      "section{border:1px solid;border-radius:1rem;padding:1.5rem;max-width:26rem;font:1.1rem system-ui}" +
      "dd{font:1.5rem ui-monospace,monospace;margin:0 0 1rem;overflow-wrap:anywhere}" +
      "canvas{width:100%;max-width:18rem}button{font:inherit;padding:.5rem 1rem}" +
      "a{display:block;margin:0 0 1rem;color:inherit}" + style,
  );
  return made;
}

function frame(parts: Node[], hide: string, close: () => void): HTMLElement {
  const button = made("button", hide);
  button.addEventListener("click", close);
  const content = made("section");
  content.append(...parts, button);
  return content;
}

function cardParts(card: Credentials, words: PresenterLabels): Node[] {
  return [
    list([
      [words.number, grouped(card.number)],
      [words.expiry, expiry(card)],
      [words.securityCode, card.securityCode],
    ]),
  ];
}

function esimParts({ iccid, smdpAddress, matchingId }: EsimCredentials, words: PresenterLabels): Node[] {
  return [
    list([
      [words.smdpAddress, smdpAddress],
      [words.activationCode, matchingId],
      [words.iccid, iccid],
    ]),
  ];
}

// links install the eSIM on the phone that shows them. They are https addresses, or they are left out.
function links({ installUrls }: EsimCredentials, words: PresenterLabels): Node[] {
  const { ios, android } = installUrls ?? {};
  const all: [string, string | undefined][] = [[words.ios, ios], [words.android, android]];
  return all
    .filter(([, href]) => href !== undefined && URL.canParse(href) && new URL(href).protocol === "https:")
    .map(([text, href]) => Object.assign(made("a", text), { href, target: "_blank", rel: "noopener noreferrer" }));
}

// qrCode draws the code. An image by its data URL would be what many pages' policies forbid.
async function qrCode({ qrPng }: EsimCredentials): Promise<HTMLCanvasElement> {
  const bytes = Uint8Array.from(atob(qrPng.slice(qrPng.indexOf(",") + 1)), (c) => c.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: image.width, height: image.height });
  canvas.getContext("2d")?.drawImage(image, 0, 0);
  return canvas;
}

function list(entries: [string, string][]): HTMLElement {
  const all = made("dl");
  for (const [name, value] of entries) all.append(made("dt", name), made("dd", value));
  return all;
}

function made(name: string, text = ""): HTMLElement {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
