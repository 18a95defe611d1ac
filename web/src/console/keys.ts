// The keyboard. Keys of one letter can be switched off, for who dictates or uses a screen reader.
import { useEffect } from "preact/hooks";
import { hrefOf, type Place } from "./route.js";

/** The letter of each place after `g`. */
export const letters: Record<Place, string> = {
  orders: "o", approvals: "p", transfers: "t", findings: "f", books: "b", fees: "e", closings: "c", cancellations: "x",
  jobs: "j", switches: "s", gauges: "v", audit: "a",
};

export interface Keys {
  on: boolean;
  help: () => void;
  refresh: () => void;
}

/** Listens for keys, unless something is typed or a dialog is open. */
export function useKeys({ on, help, refresh }: Keys): void {
  useEffect(() => {
    if (!on) return;
    let goes = false;
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !free(event.target)) return;
      const { key } = event;
      const went = goes;
      goes = false;
      if (went) {
        const place = Object.entries(letters).find(([, letter]) => letter === key)?.[0] as Place | undefined;
        if (place) location.hash = hrefOf(place);
        else return;
      } else if (key === "g") goes = true;
      else if (key === "?") help();
      else if (key === "r") refresh();
      else if (key === "/") document.querySelector<HTMLElement>("#search")?.focus();
      else if (key === "j") step(1);
      else if (key === "k") step(-1);
      else if (key === "n" || key === "p") document.querySelector<HTMLElement>(`[data-page="${key}"]`)?.click();
      else if (key === "d") document.querySelector<HTMLElement>("[data-act]")?.focus();
      else if (key === "u") document.querySelector<HTMLElement>("[data-up]")?.click();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [on, help, refresh]);
}

function free(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open]")) return false;
  return !(target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]"));
}

// step moves to the row after or before the one with the focus.
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  next?.querySelector<HTMLElement>("a, button")?.focus();
}
