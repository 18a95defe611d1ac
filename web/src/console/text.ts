// The texts of the console in the person's language.
import { texts } from "../lib/text.js";
import { de } from "../text/console-de.js";
import { en, type ConsoleTexts } from "../text/console-en.js";

const catalogues: Record<string, ConsoleTexts> = { en, de };

export const t: ConsoleTexts = catalogues[texts.lang] ?? en;
