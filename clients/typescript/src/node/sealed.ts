// A card as it comes: sealed to a key that exists here, and for this once.
import { RevealError } from "../errors.js";
import type { SealedCredentials } from "../gen/roamcard/v1/card_pb.js";
import type { Presented, Presenter } from "../presenter.js";
import { Recipient, suiteName } from "./hpke.js";

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
      const recipient = new Recipient();
      return {
        recipientKey: recipient.publicKey.toString("base64"),
        show: async (cardId, sealed, signal) => show(opened(recipient, cardId, sealed), signal),
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

function opened(recipient: Recipient, cardId: string, sealed: SealedCredentials): Credentials {
  if (sealed.suite !== suiteName) throw new RevealError(`the card is sealed by ${sealed.suite}, not ${suiteName}`);
  const [enc, ciphertext] = [sealed.enc, sealed.ciphertext].map((text) => Buffer.from(text, "base64"));
  let card: Credentials;
  try {
    card = JSON.parse(recipient.open(enc!, ciphertext!, Buffer.from("roamcard card reveal v1"), Buffer.from(cardId)).toString("utf8")) as Credentials;
  } catch {
    // The reason could quote the number.
    throw new RevealError("what was sealed cannot be opened");
  }
  if (!/^\d{12,19}$/.test(card.number) || !/^\d{3,4}$/.test(card.securityCode)) throw new RevealError("what was sealed is not a card");
  return card;
}
