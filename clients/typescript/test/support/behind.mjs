// A client behind the fault proxy, and what went through it.
import assert from "node:assert/strict";
import { MemoryStore, Roamcard } from "roamcard";
import { pagePresenter } from "roamcard/node";
import { look } from "roamcard/testing";
import { startFaultProxy } from "../../../testing/fault-proxy.mjs";
import { dev } from "./shared.mjs";

/** A policy that lets the tests buy. */
export const autonomous = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };

/** A client behind a fault proxy, with a wallet that counts its signatures of payments. */
export async function behindProxy(t, account, options = {}) {
  const proxy = await startFaultProxy(dev.baseUrl);
  t.after(() => proxy.close());
  const signatures = [];
  const signer = {
    address: account.address,
    signMessage: (m) => account.signMessage(m),
    signTypedData: (data) => (signatures.push(data), account.signTypedData(data)),
  };
  const make = (more = {}) =>
    new Roamcard({
      baseUrl: proxy.baseUrl,
      origin: dev.baseUrl,
      signer,
      policy: autonomous,
      store: new MemoryStore(),
      ...options,
      ...more,
    });
  return { proxy, signatures, make, client: make() };
}

/** What an asynchronous iterable yields. */
export async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

/** A presenter of pages whose person looks, which keeps what the browser is given and what it shows. */
export function looking() {
  const seen = {};
  const presenter = pagePresenter({
    open: async (url) => Object.assign(seen, { opened: url, html: (await look(url)).html }),
  });
  return { seen, presenter };
}

/** Every PAYMENT-SIGNATURE that was sent. */
export const payments = (proxy) => proxy.requests.map((r) => r.payment).filter(Boolean);

/** Checks that a payment was signed once and that every request of it had the same bytes. */
export function assertSameBytes(proxy, signatures, sends) {
  const sent = payments(proxy);
  assert.equal(signatures.length, 1, "the signatures");
  assert.equal(new Set(sent).size, 1, "the different payments sent");
  if (sends !== undefined) assert.equal(sent.length, sends, "how often it was sent");
}
