// A card as it comes: sealed to a key that exists here, and for this once.
import { RevealError } from "./errors.js";
import { Recipient, suiteName } from "./hpke.js";
import type { Presented, Presenter } from "./presenter.js";
import type { SealedCredentials } from "./results.js";

/** What a merchant asks for. It is handed to the page or the terminal and to nobody else. */
export interface Credentials {
  number: string;
  expiryMonth: number;
  expiryYear: number;
  securityCode: string;
}

/** A presenter that opens the card and hands it to `show`, which must keep it to the person's eyes. */
export function sealedPresenter(show: (card: Credentials, signal?: AbortSignal) => Promise<Presented>): Presenter {
  return {
    async prepare() {
      const recipient = await Recipient.create();
      return {
        recipientKey: btoa(String.fromCharCode(...recipient.publicKey)),
        show: async (cardId, sealed, signal) => show(await opened(recipient, cardId, sealed), signal),
      };
    },
  };
}

/** A number in fours. */
export function grouped(number: string): string {
  return number.replace(/(.{4})(?=.)/g, "$1 ");
}

/** The end of a card's life, as cards print it. */
export function expiry(card: Credentials): string {
  return `${String(card.expiryMonth).padStart(2, "0")}/${String(card.expiryYear % 100).padStart(2, "0")}`;
}

async function opened(recipient: Recipient, cardId: string, sealed: SealedCredentials): Promise<Credentials> {
  if (sealed.suite !== suiteName) throw new RevealError(`the card is sealed by ${sealed.suite}, not ${suiteName}`);
  const text = new TextEncoder();
  let card: Partial<Credentials>;
  try {
    const [enc, ciphertext] = [bytesOf(sealed.enc), bytesOf(sealed.ciphertext)];
    const bytes = await recipient.open(enc, ciphertext, text.encode("roamcard card reveal v1"), text.encode(cardId));
    card = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Credentials>;
  } catch {
    // The reason could quote the number.
    throw new RevealError("what was sealed cannot be opened");
  }
  const { number, securityCode, expiryMonth, expiryYear } = card;
  const fits =
    /^\d{12,19}$/.test(String(number)) && /^\d{3,4}$/.test(String(securityCode)) &&
    Number.isSafeInteger(expiryMonth) && Number.isSafeInteger(expiryYear);
  if (!fits) throw new RevealError("what was sealed is not a card");
  return card as Credentials;
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}
