// Shows a card in Stripe's own elements: a nonce that Stripe.js makes is exchanged for a key, once.
"use strict";

const meta = (name) => document.querySelector(`meta[name="${name}"]`).content;
const said = document.getElementById("said");

try {
  const card = meta("card");
  const stripe = window.Stripe(meta("publishable-key"));
  const { nonce, error } = await stripe.createEphemeralKeyNonce({ issuingCard: card });
  if (error) throw new Error("no nonce");
  const answer = await fetch(new URL("unlock", import.meta.url), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: meta("unlock"), nonce }),
  });
  if (!answer.ok) throw new Error("no key");
  const { secret } = await answer.json();
  const elements = stripe.elements();
  const shown = {
    number: "issuingCardNumberDisplay", expiry: "issuingCardExpiryDisplay", code: "issuingCardCvcDisplay",
  };
  for (const [id, kind] of Object.entries(shown)) {
    elements.create(kind, { issuingCard: card, nonce, ephemeralKeySecret: secret }).mount(`#${id}`);
  }
} catch {
  said.textContent = "The card could not be shown. Ask for it again.";
}
