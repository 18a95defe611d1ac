// What the tests of the shop share: a person's hands and eyes.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dev, says, shot } from "./paying.mjs";

const require = createRequire(import.meta.url);
const clients = createRequire(new URL("../../clients/typescript/package.json", import.meta.url));
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const jsQR = clients("jsqr");
const { PNG } = clients("pngjs");
const still = { name: "prefers-reduced-motion", value: "reduce" };

/** Presses the button, link or summary with a text: on the sheet, while there is one. */
export async function push(tab, text) {
  const find = (wanted) => {
    const all = (document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a, summary");
    const named = (each) => each.getAttribute("aria-label") ?? each.innerText;
    return [...all].find((each) => named(each).includes(wanted) && !each.disabled);
  };
  const handle = await tab.waitForFunction(find, { timeout: 60_000 }, text).catch(async (error) => {
    const said = await tab.evaluate(() => document.body.innerText);
    throw new Error(`there is no "${text}" to press in: ${said}`, { cause: error });
  });
  await handle.asElement().click();
}

/** Writes into the field with a label. */
export async function fill(tab, label, text) {
  const find = (wanted) => [...document.querySelectorAll("label")].find((each) => each.innerText.includes(wanted));
  const field = await (await tab.waitForFunction(find, { timeout: 60_000 }, label)).asElement().$("input, select");
  await field.click({ count: 3 });
  await field.press("Backspace");
  await field.type(text);
}

/** Connects the wallet of a tab. */
export async function connect(tab, name = "Test wallet") {
  await push(tab, "Connect wallet");
  await push(tab, name);
  await tab.waitForFunction(() => !document.querySelector("dialog[open] .wallets, dialog[open] .waiting"));
}

/** Signs the connected wallet in, on the view that asks for it. */
export async function signIn(tab) {
  await push(tab, "Sign in");
  await tab.waitForFunction(() => !document.querySelector(".gate"));
}

/** Goes to a view of the shop without loading it again. */
export function go(tab, hash) {
  return tab.evaluate((to) => void (location.hash = to), hash);
}

/** Checks a state of the page: nothing keeps people out, comes from elsewhere or is complained of; keeps pictures. */
export async function looked(tab, notes, name) {
  assert.deepEqual(notes.complaints, [], name);
  assert.deepEqual(notes.asked.filter((url) => !/^(data|blob):/.test(url) && new URL(url).origin !== dev.baseUrl), []);
  for (const [scheme, width] of [["light", 1100], ["dark", 1100], ["light", 360]]) {
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, still]);
    await tab.setViewport({ width, height: 900 });
    const found = await tab.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
    const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.target).join(" ")}`);
    assert.deepEqual(violations, [], `axe, ${name}, ${scheme}, ${width} px`);
    const fits = () => document.documentElement.scrollWidth <= innerWidth;
    assert.ok(await tab.evaluate(fits), `${name} is wider than ${width} px`);
    await shot(tab, `shop-${name}-${scheme}-${width}`);
  }
  await tab.setViewport({ width: 1100, height: 900 });
}

/** The text of the QR code on a picture of the tab, as a phone sees it. */
export async function scanned(tab) {
  const seen = async () => {
    const { data, width, height } = PNG.sync.read(Buffer.from(await tab.screenshot({ fullPage: false })));
    return jsQR(new Uint8ClampedArray(data), width, height)?.data;
  };
  for (let i = 0; i < 40; i++) {
    const text = await seen();
    if (text) return text;
    await new Promise((done) => setTimeout(done, 250));
  }
  return undefined;
}

export { says };
