// Puts published.json, what the fakes say of the service, into the testing packages of the three languages.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const text = readFileSync(at("published.json"), "utf8");
mkdirSync(at("../python/src/roamcard/testing/"), { recursive: true });
writeFileSync(at("../go/roamcard/roamcardtest/published.json"), text);
writeFileSync(at("../python/src/roamcard/testing/published.json"), text);
writeFileSync(
  at("../typescript/src/testing/published.ts"),
  "// Made of clients/testing/published.json by tools/gen.sh.\n" +
    `export const text = ${JSON.stringify(JSON.stringify(JSON.parse(text)))};\n`,
);
