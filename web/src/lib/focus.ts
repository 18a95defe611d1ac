// Where the keyboard is: what has the focus may go away with what was done with it.

/**
 * Keeps the focus on the page. Without it, browsers put it back to the top when the element that has it is removed. It
 * goes to what was around that, or, when that was a dialog, to what had it before.
 */
export function keepFocus(): void {
  // The element and all around it, from the inside out, and the same of what had the focus before a dialog opened.
  let path: HTMLElement[] = [];
  let before: HTMLElement[] = [];
  const around = (at: EventTarget | null): HTMLElement[] => {
    const all: HTMLElement[] = [];
    for (let each = at instanceof HTMLElement ? at : null; each && each !== document.body; each = each.parentElement)
      all.push(each);
    return all;
  };
  const isDialog = (each: HTMLElement): boolean => each instanceof HTMLDialogElement;
  document.addEventListener("focusin", ({ target }) => {
    const next = around(target);
    if (next.some(isDialog) && !path.some(isDialog)) before = path;
    path = next;
  });
  document.addEventListener("pointerdown", ({ target }) => {
    const takes = "a, button, input, select, textarea, summary, [tabindex]";
    if (target instanceof Element && !target.closest(takes)) path = [];
  });
  new MutationObserver(() => {
    const [last] = path;
    const shown = !last || (last.isConnected && !path.some((each) => isDialog(each) && !each.matches("[open]")));
    if (shown || (document.activeElement !== document.body && document.activeElement !== null)) return;
    const next = [...path.filter((each) => !path.some(isDialog)), ...before].find((each) => each.isConnected);
    if (!next) return;
    if (next.tabIndex < 0) next.tabIndex = -1; // a program may put the focus on it, a key does not
    next.focus({ preventScroll: true });
  }).observe(document.body, { attributeFilter: ["open"], childList: true, subtree: true });
}
