// Operators do the work that is left over after a sale: fees, closings, cancellations and jobs that wait for them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { dev, launch, press, rpc, says } from "./paying.mjs";
import {
  admin, bought, boughtCard, confirm, goTo, held, looked, minted, operating, places, pressIn, sandbox, second, sent,
  settledPage, undone, until,
} from "./operating.mjs";

const timeout = 240_000;
const dollars = 1_000_000n;
let browser;
/** An eSIM that was delivered, and whose payment was undone. */
let gone;

before(async () => {
  browser = await launch({ strict: true });
  gone = await undone(() => bought(15, `undone-${process.pid}`));
}, { timeout });
after(() => browser?.close());

/** A card that is delivered, with its account at the issuer, which was opened last. */
async function delivered(sale) {
  const { order: { issuance } } = await until(
    "delivered", () => admin(`orders/${sale.order.orderId}`),
    ({ order }) => order.status === "fulfilled" && order.issuance?.cardId,
  );
  const { cards } = await sandbox("control/books");
  return { ...sale, card: issuance.cardId, account: cards.at(-1).id };
}

/** A card whose holder has spent all of it before its issue fee was withdrawn. */
async function spent(index) {
  const { cards } = await sandbox("control/books");
  await sandbox("control/faults", { op: "move", mode: "slow", times: 1, delayMs: 3_000 });
  const sale = await boughtCard(index, `spent-${process.pid}-${index}`);
  const { id: account, balanceCents } = await until(
    "opened", async () => (await sandbox("control/books")).cards.at(-1),
    (last) => last && last.id !== cards.at(-1)?.id && last.status === "live",
  );
  await sandbox(`control/cards/${account}`, { spendCents: balanceCents });
  await until("owed", () => feeOf(sale), (fee) => fee?.status === "failed" && fee.outstanding);
  return { ...sale, account };
}

/** A card whose fee is taken. */
async function ready(sale) {
  const found = await delivered(sale);
  await until("the fee", () => feeOf(found), (fee) => fee?.status === "succeeded");
  return found;
}

const of = ({ order }, all) => all.find(({ orderId }) => orderId === order.orderId);
const feeOf = async (sale) => of(sale, (await admin("card-issue-fee/jobs")).jobs);
const closingOf = async (sale) => of(sale, (await admin("card-closings")).closings);
const cancellationOf = async (sale) => of(sale, (await admin("esim-cancellations")).cancellations);
const parked = (work) => work?.status === "operator_review";

/** What an owner's call answers. */
async function ofOwner({ session }, path, method = "GET") {
  const answer = await fetch(`${dev.baseUrl}/api/${path}`, { method, headers: session });
  const body = await answer.text();
  assert.equal(answer.status, 200, body);
  return JSON.parse(body);
}

/** How often an action was recorded with a reason. */
async function recorded(action, reason) {
  const { records } = await admin(`audit?action=${action}`);
  return records.filter((record) => record.reason === reason).length;
}

test("a fee that is owed is withdrawn again once there is money, or written off", { timeout }, async () => {
  const [rich, poor] = [await spent(16), await spent(17)];
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/fees?status=failed");
  await says(tab, poor.order.orderId);
  await says(tab, "owed");
  await looked(tab, notes, "fees-owed");

  // In vain first: the card is still empty.
  const { version } = await feeOf(rich);
  await pressIn(tab, rich.order.orderId, "Withdraw again");
  await says(tab, "under a new reference");
  await looked(tab, notes, "fee-retry");
  await confirm(tab, "in vain");
  await says(tab, "The withdrawal is queued again.");
  await until("failed again", () => feeOf(rich), (fee) => fee.status === "failed" && fee.version > version);
  await sandbox(`control/cards/${rich.account}`, { refundCents: 2500 });
  await press(tab, "Refresh");
  await settledPage(tab);
  await pressIn(tab, rich.order.orderId, "Withdraw again");
  await confirm(tab, "the merchant gave it back");
  await until("taken", () => feeOf(rich), (fee) => fee.status === "succeeded" && !fee.outstanding);

  await pressIn(tab, poor.order.orderId, "Read at the issuer");
  await says(tab, "Read at the issuer.");
  assert.equal((await feeOf(poor)).outstanding, true, "reading takes nothing");
  await pressIn(tab, poor.order.orderId, "Write off");
  await says(tab, "becomes a cost");
  await looked(tab, notes, "fee-write-off");
  await confirm(tab, "a gift, ticket 19");
  await says(tab, "The fee is written off.");
  await says(tab, "written off");
  const fee = await feeOf(poor);
  assert.deepEqual([fee.status, fee.outstanding, fee.writtenOff], ["failed", false, true]);
  assert.equal(await recorded("fee_job.retry", "in vain"), 1);
  assert.equal(await recorded("fee_job.write_off", "a gift, ticket 19"), 1);
  await tab.close();
});

test("a card is closed by two operators, and goes on after its issuer refused", { timeout }, async () => {
  const sale = await ready(await boughtCard(18, `closed-${process.pid}`));
  const { address } = sale.owner.account;
  const was = await held(address);
  // By the issuer's staff: nothing is withdrawn from it.
  await sandbox(`control/cards/${sale.account}`, { state: "locked" });
  const { tab, notes } = await operating(browser, { token: await minted("dora", "treasurer") });
  await goTo(tab, "#/closings");
  await press(tab, "Close the card");
  await tab.waitForSelector("dialog[open] input");
  await tab.type("dialog[open] input", sale.card);
  await looked(tab, notes, "close-card");
  await confirm(tab, "its owner asked");
  await says(tab, "It waits for a second operator.");
  assert.equal(await closingOf(sale), undefined);
  const other = await operating(browser, { token: second.token });
  await goTo(other.tab, "#/approvals");
  await pressIn(other.tab, "card.close", "Approve");
  await confirm(other.tab, "seen");
  await says(other.tab, "Approved.");
  await other.tab.close();

  const waiting = await until("parked", () => closingOf(sale), parked);
  assert.equal(waiting.stage, "locking");
  await says(tab, sale.order.orderId);
  await looked(tab, notes, "closing-waits");
  await sandbox(`control/cards/${sale.account}`, { state: "live" });
  await pressIn(tab, sale.order.orderId, "Let it go on");
  await says(tab, "It continues from its stage: Locking.");
  await looked(tab, notes, "closing-goes-on");
  await confirm(tab, "the staff unlocked it");
  await says(tab, "It goes on.");
  const closed = await until("closed", () => closingOf(sale), ({ status }) => status === "succeeded");
  assert.deepEqual([closed.stage, closed.remainderUsdCents], ["closed", 1500]);
  assert.equal(await held(address), was + 15n * dollars);
  assert.equal(await recorded("card_closing.retry", "the staff unlocked it"), 1);
  await tab.close();
});

/** Calls what waits with a refund refunded by hand: by units that are sent to the owner of a sale. */
async function concludes(tab, { owner, order }, units, look) {
  const { transaction } = await sent(dev.wallets[0].address, units, owner.account.address);
  await rpc("anvil_mine", ["0x3"]);
  await pressIn(tab, order.orderId, "Refunded by hand");
  await says(tab, "The ledger posts it");
  await tab.type("dialog[open] input", transaction);
  await look?.();
  await confirm(tab, "sent from the safe");
  return transaction;
}

test("a closing whose refund cannot be made is concluded by a transaction", { timeout }, async () => {
  const sale = await undone(async () => ready(await boughtCard(19, `by-hand-${process.pid}`)));
  await admin(`cards/${sale.card}/close`, { reason: "its owner asked" }, await minted("dana", "treasurer"));
  const { approvals } = await admin("approvals?status=pending");
  const { id } = approvals.find(({ subject }) => subject === sale.card);
  await admin(`approvals/${id}/approve`, { reason: "seen" }, second.token);
  assert.equal((await until("parked", () => closingOf(sale), parked)).stage, "refunding");
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/closings");
  await says(tab, "the payment was undone");
  await concludes(tab, sale, 15n * dollars - 1n);
  await tab.waitForSelector("dialog[open] [role=alert]");
  assert.equal((await closingOf(sale)).stage, "refunding", "another amount concludes nothing");
  await press(tab, "Cancel");
  notes.complaints.length = 0; // what was refused is an error in the browser's console
  await concludes(tab, sale, 15n * dollars, () => looked(tab, notes, "conclude"));
  await says(tab, "It goes on.");
  const closed = await until("closed", () => closingOf(sale), ({ status }) => status === "succeeded");
  assert.equal(closed.stage, "closed");
  const { postings } = await admin(`orders/${sale.order.orderId}/review`);
  assert.equal(postings.filter(({ kind }) => /return/.test(kind)).length, 1, JSON.stringify(postings));
  await tab.close();
});

test("a cancellation that waits goes on with its stage, however often, and ends by a transaction",
  { timeout }, async () => {
  const { owner, order: { orderId } } = gone;
  await ofOwner(owner, `esim/orders/${orderId}/cancel`, "POST");
  const find = () => cancellationOf(gone);
  assert.equal((await until("parked", find, parked)).stage, "refunding");
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/cancellations");
  await says(tab, orderId);
  await looked(tab, notes, "cancellation-waits");
  const before = await held(owner.account.address);
  await pressIn(tab, orderId, "Let it go on");
  await says(tab, "It continues from its stage: Refunding.");
  await confirm(tab, "the treasury is there");
  await says(tab, "It goes on.");
  assert.equal(await recorded("esim_cancellation.retry", "the treasury is there"), 1);
  // It comes back, as nothing has changed: what was never paid is not refunded.
  const { refundAmount } = await until("parked again", find, parked);
  assert.equal(await held(owner.account.address), before);

  await press(tab, "Refresh");
  await settledPage(tab);
  const look = () => looked(tab, notes, "cancellation-conclude");
  const transaction = await concludes(tab, gone, BigInt(refundAmount), look);
  await says(tab, "It goes on.");
  assert.equal((await until("ended", find, ({ status }) => status === "succeeded")).stage, "refunded");
  const { cancellation } = await ofOwner(owner, `esim/orders/${orderId}/profile`);
  assert.deepEqual([cancellation.status, cancellation.transaction], ["refunded", transaction]);
  assert.equal(await held(owner.account.address), before + BigInt(refundAmount), "and nothing more");
  await tab.close();
});

test("a cancellation that its supplier did not answer is refunded, on chain and in the books",
  { timeout }, async () => {
  const sale = await bought(9, `given-back-${process.pid}`);
  const { owner, order: { orderId } } = sale;
  await until("delivered", () => admin(`orders/${orderId}`), ({ order }) => order.status === "fulfilled");
  const find = () => cancellationOf(sale);
  const profile = () => ofOwner(owner, `esim/orders/${orderId}/profile`);
  const takenBack = async () => {
    const { esims } = await sandbox("esim-access/control/books");
    return esims.filter(({ status }) => status === "cancelled").length;
  };
  const [was, before] = [await held(owner.account.address), await takenBack()];
  // More requests break than are made while it is waited for twice, 15 s each; the rest are withdrawn below.
  for (let i = 0; i < 200; i++) await sandbox("esim-access/control/faults", { op: "cancel", mode: "timeout_before" });
  await ofOwner(owner, `esim/orders/${orderId}/cancel`, "POST");
  const waiting = await until("parked", find, parked);
  assert.deepEqual([waiting.stage, waiting.creditAmount], ["cancelling", undefined]);
  assert.equal((await profile()).cancellation.status, "review");

  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/cancellations");
  await says(tab, "the supplier does not say whether the profile is cancelled");
  await looked(tab, notes, "cancellation-unanswered");
  // In vain first: nothing is refunded before the supplier has confirmed.
  await pressIn(tab, orderId, "Let it go on");
  await says(tab, "It continues from its stage: Cancelling.");
  await confirm(tab, "in vain");
  await says(tab, "It goes on.");
  await until("parked again", find, (work) => parked(work) && work.since > waiting.since);
  assert.deepEqual([await held(owner.account.address), await takenBack()], [was, before]);

  await sandbox("esim-access/control/faults", undefined, "DELETE");
  await press(tab, "Refresh");
  await settledPage(tab);
  await pressIn(tab, orderId, "Let it go on");
  await looked(tab, notes, "cancellation-goes-on");
  await confirm(tab, "the supplier answers again, ticket 23");
  await says(tab, "It goes on.");
  const done = await until("refunded", find, ({ status }) => status === "succeeded");
  const refund = BigInt(done.refundAmount);
  assert.equal(done.stage, "refunded");
  assert.ok(refund > 0n && refund <= sale.price, `${refund} of ${sale.price}`);
  assert.equal(await held(owner.account.address), was + refund);
  const { cancellation, status } = await profile();
  assert.deepEqual([status, cancellation.status], ["cancelled", "refunded"]);
  assert.equal(cancellation.refundAmount, done.refundAmount);
  assert.equal((await rpc("eth_getTransactionReceipt", [cancellation.transaction])).status, "0x1");
  assert.equal(await takenBack(), before + 1, "the supplier took it back once");

  const { postings, order } = await admin(`orders/${orderId}/review`);
  assert.equal(order.status, "fulfilled", "the sale stays what it was");
  const posted = (kind) => postings.filter((each) => each.kind === kind);
  const moved = ([posting, ...more]) => {
    assert.ok(posting && more.length === 0, JSON.stringify(postings));
    const of = (account) => account.replace(`:${orderId}`, "");
    return Object.fromEntries(posting.entries.map(({ account, units }) => [of(account), BigInt(units)]));
  };
  const credit = BigInt(done.creditAmount);
  assert.deepEqual(moved(posted("cancelled")),
    { "supplier:float": credit, "cost:esim": -credit, "revenue:esim": refund, customer: -refund });
  assert.deepEqual(moved(posted("remainder_returned")), { customer: refund, "treasury:usdc": -refund });
  assert.equal(await recorded("esim_cancellation.retry", "in vain"), 1);
  assert.equal(await recorded("esim_cancellation.retry", "the supplier answers again, ticket 23"), 1);

  await goTo(tab, "#/cancellations?status=succeeded");
  await says(tab, orderId);
  await says(tab, "Refunded");
  await looked(tab, notes, "cancellation-refunded");
  await goTo(tab, `#/orders/${orderId}`);
  await says(tab, "the supplier answers again, ticket 23");
  await looked(tab, notes, "order-given-back");
  await tab.close();
});

test("a job that has stopped is put back, and dropped", { timeout }, async () => {
  const { payments: [{ id: payment }] } = await admin(`orders/${gone.order.orderId}`);
  const find = async () => {
    const { jobs } = await admin("jobs?kind=payment_confirm");
    return jobs.find(({ uniqueKey }) => uniqueKey === payment);
  };
  const stopped = await until("parked", find, parked);
  assert.match(stopped.lastError, /the payment was undone: cancelled/);
  const { tab, notes } = await operating(browser);
  await goTo(tab, "#/jobs?kind=payment_confirm&status=operator_review");
  await says(tab, "the payment was undone: cancelled");
  await looked(tab, notes, "jobs-stopped");
  const row = `${payment.slice(0, 6)}…${payment.slice(-4)}`;
  await pressIn(tab, row, "Retry");
  await says(tab, "It goes back into the queue");
  await looked(tab, notes, "job-retry");
  await confirm(tab, "to see");
  await says(tab, "The job is queued again.");
  const again = await until("parked again", find, (job) => parked(job) && job.version > stopped.version);
  await press(tab, "Refresh");
  await settledPage(tab);
  await pressIn(tab, row, "Drop");
  await says(tab, "This cannot be taken back");
  await looked(tab, notes, "job-drop");
  await confirm(tab, "the buyer took the money back");
  await says(tab, "The job is dropped.");
  await assert.rejects(admin(`jobs/${again.id}`), /job_not_found/);
  assert.equal(await recorded("job.retry", "to see"), 1);
  assert.equal(await recorded("job.drop", "the buyer took the money back"), 1);
  await tab.close();
});

/** What makes the page scroll sideways. */
function sticksOut() {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  const all = [...document.querySelectorAll("body *")];
  const wide = all.filter((each) => each.getBoundingClientRect().right > innerWidth);
  return ["the page", ...wide.slice(-5).map((each) => each.outerHTML.slice(0, 200))];
}

test("what strangers write is text", { timeout }, async () => {
  const { order } = gone;
  const bait = `"><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>{{7*7}}\u202e${"w".repeat(200)}`;
  const baited = (value) => {
    if (Array.isArray(value)) return value.map(baited);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, member]) =>
        [name, textual(name) && typeof member === "string" ? bait : baited(member)]));
    return value;
  };
  const texts =
    /reason|detail|lastError|actor|operator|edBy$|value|name|subject|before|after|step|stage|kind|code|role|uniqueKey/i;
  const textual = (name) => texts.test(name);
  const { tab, notes } = await operating(browser);
  await tab.setRequestInterception(true);
  tab.on("request", async (request) => {
    const url = new URL(request.url());
    if (!url.pathname.startsWith("/api/admin/") || request.method() !== "GET") return request.continue();
    const answer = await fetch(request.url(), { headers: request.headers() });
    const body = JSON.stringify(baited(await answer.json()));
    return request.respond({ status: answer.status, contentType: "application/json", body });
  });
  const more = [
    "fees?status=any", "closings?status=any", "cancellations?status=any", "approvals?status=approved",
    `orders/${order.orderId}`,
  ];
  for (const place of [...places, ...more]) {
    await goTo(tab, `#/${place}`);
    assert.equal(await tab.evaluate(() => window.pwned), undefined, place);
    assert.equal(await tab.evaluate(() => document.querySelectorAll("img, main script").length), 0, place);
    for (const width of [1280, 900, 360]) {
      await tab.setViewport({ width, height: 900 });
      assert.deepEqual(await tab.evaluate(sticksOut), [], `${place} is wider than ${width} px`);
    }
  }
  assert.ok((await says(tab, "window.pwned=1")).includes("{{7*7}}"));
  assert.deepEqual(notes.complaints, []);
  await looked(tab, notes, "hostile");
  await tab.close();
});

