// Plays Stripe.js, as far as Issuing Elements need it.
"use strict";

{
  const here = new URL(".", document.currentScript.src);
  window.Stripe = (key) => ({
    async createEphemeralKeyNonce({ issuingCard }) {
      const body = new URLSearchParams({ key, card: issuingCard });
      const answer = await fetch(new URL("elements/nonce", here), { method: "POST", body });
      return answer.ok ? answer.json() : { error: { message: "no nonce" } };
    },
    elements: () => ({
      create: (kind, { issuingCard, nonce, ephemeralKeySecret }) => ({
        mount(selector) {
          const frame = document.createElement("iframe");
          const query = new URLSearchParams({ kind, card: issuingCard, nonce, secret: ephemeralKeySecret });
          frame.src = new URL(`elements/frame?${query}`, here);
          frame.title = kind;
          document.querySelector(selector).append(frame);
        },
      }),
    }),
  });
}
