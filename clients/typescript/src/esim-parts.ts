// An eSIM about to be shown.
import { RevealError } from "./errors.js";
import type { EsimCredentials } from "./results.js";
import type { Secret } from "./secret.js";

/** The eSIM, when its parts are what a page and a terminal can show as they are. */
export function openEsim(secret: Secret<EsimCredentials>): EsimCredentials {
  const esim = secret.reveal();
  const parts = /^LPA:1\$([A-Za-z0-9.-]+)\$([A-Za-z0-9.-]*)(?:\$\d+(?:\.\d+)+)?$/.exec(esim.lpa);
  const fits =
    parts?.[1] === esim.smdpAddress && parts[2] === esim.matchingId && /^\d{18,22}$/.test(esim.iccid) &&
    /^data:image\/png;base64,[A-Za-z0-9+/=]+$/.test(esim.qrPng);
  // The reason could quote the code.
  if (!fits) throw new RevealError("what came is not an eSIM");
  return esim;
}
