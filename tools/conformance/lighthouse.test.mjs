// Lighthouse audits the pages that strangers open first, as a phone with a slow connection loads them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import lighthouse from "lighthouse";
import * as constants from "lighthouse/core/config/constants.js";
import { dev, keep, launch, orderOf, ownerAt } from "./paying.mjs";

const timeout = 300_000;
/** How often each page is loaded. What a machine does meanwhile is in the time of one load, not in the median's. */
const loads = 3;
/** What Lighthouse's benchmark tells of the phone that it plays: it takes a fast machine for four times as fast. */
const phone = 1750 / 4;
/**
 * How much slower than this machine the phone is, by the benchmark of the last load: a busy machine is nearer to it.
 */
let slowdown = 4;
let browser;

before(async () => {
  // Nothing but the service can be found, whatever a page or the browser itself asks for.
  browser = await launch({
    strict: true, without: ["--single-process"], more: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
  await load(`${dev.baseUrl}/`);
}, { timeout });
after(() => browser?.close());

const ofPaymentRequired = (items) =>
  items.length > 0 && items.every(({ description }) => /status of 402/.test(description));

/** The least median of a page's performance. */
const fast = { shop: 0.95, pay: 0.9, status: 0.95 };

/** The audits that a page cannot pass: why, and what they must have found, which is nothing else. */
const cannotPass = {
  status: {
    "robots-txt": {
      reason: "the page's policy lets nothing be fetched from it, and that is how Lighthouse reads robots.txt",
      holds: ({ explanation }) => /unable to download/.test(explanation),
    },
  },
  pay: {
    "http-status-code": {
      reason: "the link of an order that is not paid is an answer of 402, which x402 defines",
      holds: ({ displayValue }) => displayValue === "402",
    },
    "errors-in-console": {
      reason: "the browser calls that answer an error, and the page asks for the terms once more",
      holds: ({ details }) => ofPaymentRequired(details.items),
    },
    "is-crawlable": {
      reason: "the link of an order is its owner's: X-Robots-Tag keeps it out of search engines",
      holds: ({ details }) => details.items.every(({ source }) => /noindex/.test(JSON.stringify(source))),
    },
  },
};

/** The score of a category, without the audits that the page cannot pass. */
function scoreOf({ categories, audits }, category, except) {
  const refs = categories[category].auditRefs.filter(({ id, weight }) => weight > 0 && !(id in except));
  const total = refs.reduce((sum, { weight }) => sum + weight, 0);
  assert.ok(total > 0, `${category} has no audit`);
  return refs.reduce((sum, { id, weight }) => sum + weight * (audits[id].score ?? 0), 0) / total;
}

/** The audits of a category that are not passed, with what they found. */
function failed({ categories, audits }, category, except) {
  return categories[category].auditRefs
    .filter(({ id, weight }) => weight > 0 && !(id in except) && audits[id].score < 1)
    .map(({ id }) => `${id}: ${audits[id].title} ${JSON.stringify(audits[id].details?.items ?? []).slice(0, 600)}`);
}

/** One load of a page in a tab of its own. */
async function load(url) {
  const tab = await browser.newPage();
  try {
    const throttling = { ...constants.throttling.mobileSlow4G, cpuSlowdownMultiplier: slowdown };
    const flags = { output: ["html", "json"], logLevel: "error", ignoreStatusCode: true, throttling };
    const { lhr, report } = await lighthouse(url, flags, undefined, tab);
    assert.equal(lhr.runtimeError, undefined);
    slowdown = Math.min(4, Math.max(1, lhr.environment.benchmarkIndex / phone));
    return { lhr, report };
  } finally {
    await tab.close();
  }
}

/** Audits a page: its speed by the median of its loads, whose report is kept, and all else at each of them. */
async function audited(t, name, url) {
  const except = cannotPass[name] ?? {};
  const runs = [];
  for (let i = 0; i < loads; i++) {
    const { lhr, report } = await load(url);
    const requests = lhr.audits["network-requests"].details.items.map((each) => each.url);
    assert.ok(requests.length > 0);
    assert.deepEqual(requests.filter((each) => !each.startsWith("data:") && new URL(each).origin !== dev.baseUrl), []);
    for (const [id, { reason, holds }] of Object.entries(except))
      assert.ok(holds(lhr.audits[id]), `${id}, which is left out as ${reason}: ${JSON.stringify(lhr.audits[id])}`);
    for (const category of ["accessibility", "best-practices", "seo"])
      assert.equal(scoreOf(lhr, category, except), 1, failed(lhr, category, except).join("\n"));
    runs.push({ performance: lhr.categories.performance.score, lhr, report });
  }
  runs.sort((a, b) => a.performance - b.performance);
  const { performance, lhr, report } = runs[Math.floor(loads / 2)];
  const [html, json] = report;
  await keep(`lighthouse-${name}.html`, html);
  await keep(`lighthouse-${name}.json`, json);
  const told = ({ performance, lhr }) => `${performance} (${lhr.configSettings.throttling.cpuSlowdownMultiplier})`;
  t.diagnostic(`performance, and how much slower the phone was: ${runs.map(told).join(", ")}`);
  assert.ok(performance >= fast[name], `performance ${performance}: ${failed(lhr, "performance", except).join("\n")}`);
}

test("the shop", { timeout }, (t) => audited(t, "shop", `${dev.baseUrl}/`));

test("the page of an order that can be paid", { timeout }, async (t) => {
  const { orderId, payable_url: link } = await orderOf(await ownerAt(0));
  assert.ok(link.endsWith(orderId));
  await audited(t, "pay", link);
});

test("the page that shows how the service stands", { timeout }, (t) => audited(t, "status", `${dev.baseUrl}/status`));
