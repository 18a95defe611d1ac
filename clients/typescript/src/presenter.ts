// How cards and eSIMs reach a person, and nobody else.
import type { EsimCredentials, SealedCredentials } from "./results.js";
import type { Secret } from "./secret.js";

/** Shows a card to a person, and keeps it from everybody else, this package included. */
export interface Presenter {
  /** Makes the key pair that this one card is sealed to. */
  prepare(): Promise<Showing>;
  /**
   * Opens a page of the service's in a browser, for cards whose issuer shows them on a page only. The address is a
   * secret like the card: it goes to the browser and nowhere else, its command line included. Without it such cards
   * cannot be shown.
   */
  openPage?(url: string, signal?: AbortSignal): Promise<Presented>;
}

/** One card about to be shown. */
export interface Showing {
  /** The X25519 public key: 32 bytes, base64. */
  readonly recipientKey: string;
  /** Opens the card where the person sees it, and resolves when that is over. */
  show(cardId: string, sealed: SealedCredentials, signal?: AbortSignal): Promise<Presented>;
}

/** Shows an eSIM to a person, and keeps it from everybody else. */
export interface EsimPresenter {
  presentEsim(esim: Secret<EsimCredentials>, signal?: AbortSignal): Promise<Presented>;
}

/**
 * Whether a card or an eSIM was seen. It never says what was on it. Of a page of the service's, which is opened in the
 * browser, that is not known. not_pressed: the page was opened, and nobody pressed its button. opened_elsewhere: it was
 * opened twice, so one of the two was not the person's browser.
 */
export interface Presented {
  presented: boolean;
  reason?:
    | "timeout"
    | "closed"
    | "no_terminal"
    | "opened_in_browser"
    | "not_pressed"
    | "opened_elsewhere"
    | "interrupted";
}
