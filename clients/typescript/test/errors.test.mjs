// What a program acts on is in every error, and the package's types need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as roamcard from "roamcard";
import * as node from "roamcard/node";
import { asModules, tsc } from "./support/snippets.mjs";

/** One error of each class that the package exports. */
function everyError() {
  const isError = (value) => typeof value === "function" &&
    (value === roamcard.RoamcardError || value.prototype instanceof roamcard.RoamcardError);
  const classes = Object.values({ ...roamcard, ...node }).filter(isError);
  assert.ok(classes.length > 15, `${classes.length} classes`);
  return classes.map((Kind) => {
    if (Kind === roamcard.ApiError || Kind.prototype instanceof roamcard.ApiError) {
      return new Kind({ status: 404, code: "not_found" });
    }
    if (Kind === roamcard.JournalError) return new Kind("file", "read_only", "text");
    return new Kind(Kind === node.ConfigError ? ["text"] : "text");
  });
}

test("every error has a code of its own, also in JSON", () => {
  const codes = new Map();
  for (const error of everyError()) {
    assert.match(error.code, /^[a-z][a-z_]+$/, error.name);
    assert.equal(JSON.parse(JSON.stringify(error)).code, error.code);
    if (!(error instanceof roamcard.ApiError)) codes.set(error.code, [...(codes.get(error.code) ?? []), error.name]);
  }
  // The bases have none of their own.
  assert.deepEqual(codes.get("failed"), ["PaymentError", "RoamcardError"]);
  codes.delete("failed");
  for (const [code, names] of codes) assert.equal(names.length, 1, `${code}: ${names}`);
});

test("the types need no library of a browser", async () => {
  const use =
    'import { type CallOptions, Roamcard } from "../index.js";\nimport { fromEnv } from "../node/index.js";\n' +
    "export const used: [typeof Roamcard, typeof fromEnv] = [Roamcard, fromEnv];\n" +
    'export const options: CallOptions = { headers: { "x-gateway": "1" } };\n';
  const told = await asModules([use], (folder, names) =>
    tsc(
      folder, "--noEmit", "--strict", "--target", "es2022", "--lib", "es2023", "--types", "node", "--module",
      "nodenext", "--moduleResolution", "nodenext", ...names,
    ),
  );
  assert.deepEqual(told.filter((line) => !line.includes("node_modules")), []);
});
