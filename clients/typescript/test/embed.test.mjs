// Cards of issuers that show them on a page only: the page is opened in a browser, and nothing else learns its address.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { MemoryStore, RevealError, Roamcard, UntrustedMessageError } from "roamcard";
import { pagePresenter } from "roamcard/node";
import { look } from "roamcard/testing";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { hangsAfter } from "./support/api.mjs";
import { autonomous } from "./support/behind.mjs";
import { launch, missing, placeOf, readable, site } from "./support/browser.mjs";
import { Chain } from "./support/chain.mjs";
import { dataFolder, removeFolder, startDev } from "./support/dev.mjs";
import { problem } from "./support/scripted.mjs";

const servers = {};
const folders = [];

// ROAMCARD_READY and ROAMCARD_READY_LITHIC name servers that run already.
before(async () => {
  const { ROAMCARD_READY: sandbox, ROAMCARD_READY_LITHIC: lithic } = process.env;
  for (const [issuer, ready] of Object.entries({ lithic, sandbox })) {
    if (ready) {
      servers[issuer] = JSON.parse(await readFile(ready, "utf8"));
    } else {
      folders.push(await dataFolder());
      servers[issuer] = await startDev(folders.at(-1), "--issuer", issuer);
    }
  }
});

after(async () => {
  for (const server of Object.values(servers)) await server.stop?.();
  for (const folder of folders) await removeFolder(folder);
});

async function wallet(server) {
  const account = privateKeyToAccount(generatePrivateKey());
  await new Chain(server).mint(account.address, 1_000_000_000n);
  return account;
}

/** A wallet's client with its card; `typed` wallets sign no texts. */
async function owner(issuer, { typed = false, ...options } = {}) {
  const server = servers[issuer];
  const account = await wallet(server);
  const { address, signMessage } = account;
  const signed = [];
  const signer = {
    address, signTypedData: (data) => (signed.push(data.primaryType), account.signTypedData(data)),
    ...(!typed && { signMessage: (m) => (signed.push(m.message), signMessage(m)) }),
  };
  const client = new Roamcard({
    baseUrl: server.baseUrl, signer, policy: autonomous, store: new MemoryStore(), ...options,
  });
  const card = await (await client.cards.purchase()).waitUntilActive({ intervalMs: 200 });
  return { client, card, signed };
}

/** A presenter whose person looks; what the browser is given, and what it shows in the end. */
function browsing() {
  const [given, opened] = [[], []];
  const open = async (url) => {
    given.push(url);
    opened.push(await look(url));
  };
  return { given, opened, present: pagePresenter({ open }) };
}

const press = (url) => fetch(url, { method: "POST" });

/** A network that changes the answers of one method. */
const lying = (method, change) => async (input, init) => {
  const request = new Request(input, init);
  const response = await fetch(request.clone());
  if (!request.url.endsWith(`/${method}`)) return response;
  return change(response, await request.json());
};

test("how cards are shown is declared before one is bought", async () => {
  const kinds = {};
  for (const [issuer, { baseUrl }] of Object.entries(servers)) {
    const client = new Roamcard({ baseUrl, signer: privateKeyToAccount(generatePrivateKey()), policy: autonomous });
    kinds[issuer] = (await client.discovery.card()).credentials.revealKind;
  }
  assert.equal(kinds.lithic, "embed");
  assert.notEqual(kinds.sandbox, "embed");
});

for (const typed of [false, true])
  test(`a ${typed ? "typed signature" : "signature"} opens the page in the browser, once`, async () => {
    const lines = [];
    const note = (...line) => void lines.push(inspect(line, { depth: 9 }));
    const { client, card } = await owner("lithic", { typed, logger: { debug: note, info: note, warn: note } });
    const { given, opened, present } = browsing();
    const shown = await client.cards.reveal(card.id, { present });
    assert.deepEqual(shown, { presented: false, reason: "opened_in_browser" });
    assert.equal(opened.length, 1);
    const [{ url, html }] = opened;
    assert.ok(url.startsWith(`${servers.lithic.baseUrl}/reveal/`));
    assert.equal(html.match(/<iframe /g)?.length, 4);
    assert.equal((await press(url)).status, 410);
    assert.match(lines.join(), /RevealCard|revealCard/);
    assert.ok(!lines.join().includes(url.split("/").at(-1)), "the address is logged");
    // The browser's command line is everybody's.
    assert.match(given[0], /^file:/);
    assert.ok(!given[0].includes(url.split("/").at(-1)));
  });

test("a presenter that is no browser shows nothing, and signs nothing for a page", async () => {
  const { client, card, signed } = await owner("lithic");
  const { prepare } = pagePresenter({ open: assert.fail });
  await assert.rejects(client.cards.reveal(card.id, { present: { prepare } }), RevealError);
  assert.ok(signed.every((text) => !text.includes(card.id)));
});

test("a page of somebody else's is not opened, and not quoted", async () => {
  for (const elsewhere of ["http://127.0.0.2:1/reveal/x", "javascript:alert(1)", "//127.0.0.2/", "no address", ""]) {
    const { client, card } = await owner("lithic", {
      fetch: lying("RevealCard", async (response) => {
        const answer = await response.json();
        return Response.json({ ...answer, embed: { ...answer.embed, url: elsewhere } });
      }),
    });
    const { opened, present } = browsing();
    const error = await client.cards.reveal(card.id, { present }).then(assert.fail, (e) => e);
    assert.ok(error instanceof RevealError, String(error));
    assert.ok(elsewhere === "" || !error.message.includes(elsewhere));
    assert.deepEqual(opened, []);
  }
});

for (const typed of [false, true])
  test(`a relay that says that the service does not seal gets no ${typed ? "typed " : ""}signature`, async () => {
    const sealing = [];
    const { client, card, signed } = await owner("sandbox", {
      typed,
      fetch: lying("CreateRevealChallenge", (response, asked) => {
        sealing.push("recipientKey" in asked);
        return asked.recipientKey ? refusal() : response;
      }),
    });
    const { opened, present } = browsing();
    const before = signed.length;
    await assert.rejects(client.cards.reveal(card.id, { present }), UntrustedMessageError);
    assert.deepEqual([sealing, signed.slice(before), opened], [[true, false], [], []]);
  });

/** What a service answers to a recipient key where it does not seal. */
function refusal() {
  const { status, headers, body } = problem({ status: 409, code: "sealing_missing" });
  return new Response(body, { status, headers });
}

test(
  "in a page the person follows a link to the card, which the page does not see",
  { timeout: 600_000, skip: missing && "tools/conformance is not installed" },
  async (t) => {
    const account = await wallet(servers.lithic);
    const [url, browser] = [await site(t), await launch(t)];
    const tab = await browser.newPage();
    tab.setDefaultTimeout(hangsAfter);
    await tab.exposeFunction("wallet", (method, params) => {
      if (method === "eth_requestAccounts") return [account.address];
      if (method === "personal_sign") return account.signMessage({ message: { raw: params[0] } });
      return account.signTypedData(JSON.parse(params[1]));
    });
    await tab.goto(url);
    await tab.waitForFunction("window.ready");
    const show = (more) =>
      tab.evaluate((...args) => void (window.shown = window.show(...args)), servers.lithic, "cards", more);
    const over = () =>
      tab.evaluate(async () => [await window.shown, document.querySelector("#place").childElementCount]);
    const placed = () => tab.waitForFunction(() => document.querySelector("#place").childElementCount === 1);

    await show({});
    await placed();
    assert.doesNotMatch(await tab.evaluate(readable), /\/reveal\//);
    const link = await placeOf(tab, "A");
    const target = browser.waitForTarget((made) => made.url().includes("/reveal/"));
    await tab.mouse.click(link.x, link.y);
    const page = await (await target).page();
    assert.deepEqual(await over(), [{ presented: false, reason: "opened_in_browser" }, 0]);
    page.setDefaultTimeout(hangsAfter);
    await page.waitForSelector("button");
    assert.equal(await page.evaluate("window.opener"), null);
    await Promise.all([page.waitForNavigation({ waitUntil: "networkidle0" }), page.click("button")]);
    assert.equal(page.frames().length, 5);

    await show({ timeoutMs: 1_000 });
    assert.deepEqual(await over(), [{ presented: false, reason: "timeout" }, 0]);
    await show({});
    await placed();
    const hide = await placeOf(tab, "BUTTON");
    await tab.mouse.click(hide.x, hide.y);
    assert.deepEqual(await over(), [{ presented: false, reason: "closed" }, 0]);
  },
);
