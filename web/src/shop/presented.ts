// How cards and eSIMs are shown, in the language and the colours of the page.
import type { Presenter } from "roamcard";
import { elementPresenter, type PresenterOptions } from "roamcard/browser";
import { texts } from "../lib/text.js";

const options: PresenterOptions = {
  labels: texts.shop.labels,
  style:
    "section{border-color:var(--line);border-radius:14px;padding:18px;margin-top:12px;max-width:none;font-size:1rem}" +
    "dl{margin:0}dt{color:var(--soft)}dd{font-size:1.25rem;margin:0 0 12px}" +
    "button{min-height:44px;border:1px solid var(--edge);border-radius:12px;background:none;color:inherit}" +
    "canvas{display:block;width:min(100%,16rem);margin:0 auto 14px;background:#fff;border-radius:8px}" +
    "a{display:block;padding:10px 0;color:var(--accent)}" +
    ":focus-visible{outline:3px solid var(--accent);outline-offset:2px}",
};

/** Shows a card, which is hidden after a minute; `begins` is called when there is something to see. */
export function cardPresenter(place: Element, begins: () => void): Presenter {
  const { prepare, openPage } = elementPresenter(place, options);
  return {
    prepare: async () => {
      const { recipientKey, show } = await prepare();
      return { recipientKey, show: (...given) => (begins(), show(...given)) };
    },
    openPage: async (...given) => (begins(), openPage!(...given)),
  };
}

/** Shows an eSIM, which takes a moment longer to scan. */
export function esimPresenter(place: Element) {
  return elementPresenter(place, { ...options, timeoutMs: 5 * 60_000 });
}
