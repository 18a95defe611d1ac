// The unions of words in results are those that the service documents.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");
const source = await readFile(join(root, "src/results.ts"), "utf8");
const folder = join(root, "../../proto/roamcard/v1");
const protos = (await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), "utf8")))).join(
  "\n",
);

/** The words of a union: by its name, or as it stands. */
function wordsOf(type) {
  const [, named] = new RegExp(`export type ${type} =([^;]*);`).exec(source) ?? [];
  return (named ?? type)
    .split("|")
    .map((part) => part.trim())
    .flatMap((part) => {
      const [, word] = /^"([\w.]+)"$/.exec(part) ?? [];
      if (word) return [word];
      return /^\w+$/.test(part) && part !== type ? wordsOf(part) : [];
    })
    .sort();
}

/** What a message says of a member: its comment, and the rule that it has in a request. */
function documented(message, member) {
  const name = member.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const [body] = new RegExp(`message ${message} \\{[\\s\\S]*?\\n\\}`).exec(protos);
  const [, comment, options] = new RegExp(
    `((?:  //.*\\n)*)  (?:optional )?string ${name} = \\d+(.*(?:\\n    .*)*)`,
  ).exec(body);
  // How the command line calls it is no rule. The rule lists words, or is a pattern of them.
  const rule = options.replace(/\(flag\) = \{[^}]*\}/, "");
  const pattern = /"\^\((.*)\)\$"/.exec(rule);
  const words = pattern ? pattern[1].split("|") : [...rule.matchAll(/"(\w+)"/g)].map(([, word]) => word);
  return { comment, rule: words.filter((word) => /^\w+$/.test(word)).sort() };
}

test("every word of a union stands in the documentation of its member", () => {
  const members = [...source.matchAll(/"roamcard\.v1\.(\w+)\.(\w+)": (.*);/g)];
  assert.ok(members.length > 15, `${members.length} members`);
  for (const [, message, member, type] of members) {
    const { comment } = documented(message, member);
    // A queued order's status is documented where one is asked for, and so is what a transfer is resolved as.
    if (comment === "" || message === "ReviewItem" || message === "JobRecord") continue;
    if (message === "Approval" && member === "resolution") continue;
    assert.ok(wordsOf(type).length > 1, `the words of ${message}.${member}`);
    for (const word of wordsOf(type)) assert.match(comment, new RegExp(`\\b${word}\\b`), `${message}.${member}`);
  }
});

test("no word is missing of those that can be asked for", () => {
  for (const [message, member, type] of [
    ["ListOrderQueueRequest", "status", "OrderStatus"],
    ["ListFeeJobsRequest", "status", "JobStatus"],
    ["ListCardClosingsRequest", "status", "WorkStatus"],
    ["ListEsimCancellationsRequest", "status", "WorkStatus"],
    ["SetSwitchRequest", "product", "SwitchName"],
    ["ResolveTransferRequest", "resolution", "TransferResolution"],
    ["ListFindingsRequest", "status", '"open" | "resolved"'],
    ["ListReconciliationsRequest", "outcome", "ReconciliationOutcome"],
    ["ListEsimPlansRequest", "type", '"country" | "region"'],
  ]) {
    assert.deepEqual(wordsOf(type), documented(message, member).rule, message);
  }
});
