// What the service's README and its page about buying show works as it stands: with the official client, with curl, and
// in a terminal.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import jsQR from "jsqr";
import { chain, dev, newWallet, scenario } from "./support/shared.mjs";
import { runAlone, snippetsOf } from "./support/snippets.mjs";
import { inTerminal, otherScreen, pixelsOf } from "./support/terminal.mjs";

const run = promisify(execFile);
const root = resolve(import.meta.dirname, "../../..");
const binary = resolve(process.env.ROAMCARD_BIN ?? join(root, "bin/roamcard"));

/** Their snippets in a language, one after the other, with the address of this run's service. */
async function snippets(language) {
  const pages = await Promise.all(
    ["README.md", "docs/buying.md"].map((page) => snippetsOf(join(root, page), language)),
  );
  return pages.flat().map((code) => code.replaceAll("http://127.0.0.1:8402", dev.baseUrl));
}

async function workFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-terminal-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

scenario("the official client buys a card and an eSIM as the pages show", async () => {
  const shown = await snippets("ts");
  assert.equal(shown.length, 2);
  const readme = await readFile(join(root, "README.md"), "utf8");
  const name = readme.match(/as `([^`]+)`, run by\s`npx tsx \1`/)?.[1];
  assert.ok(name, "the README says what to call the file, and how to run it");
  const { key, account } = await newWallet();
  const code = [...shown, "console.log(orderId, credentials.lpa, delivery.token);\n"].join("\n");
  const stdout = await runAlone(name, code, { WALLET_KEY: key });
  assert.match(stdout, /^200 /);
  assert.match(stdout, /\nord_\S+ LPA:1\$\S+ \S{20,}\n$/);
  assert.equal((await chain.transfers(account.address)).length, 2);
});

scenario("curl shows what has to be signed, as the page about buying says", async () => {
  const [code] = (await snippets("sh")).filter((snippet) => snippet.includes("curl"));
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", code]);
  const { x402Version, accepts, resource } = JSON.parse(stdout);
  assert.equal(x402Version, 2);
  assert.equal(accepts[0].amount, "25000000");
  assert.equal(resource.url, `${dev.baseUrl}/api/card/purchase`);
});

scenario(
  "a person buys, reveals and installs in a terminal, as the page about buying shows",
  async (t) => {
    const [code] = (await snippets("sh")).filter((snippet) => snippet.includes("card buy"));
    const cwd = await workFolder(t);
    const { key, account } = await newWallet();
    await writeFile(
      join(cwd, "ready.json"),
      JSON.stringify({ ...dev, wallets: [{ address: account.address, privateKey: key }] }),
      { mode: 0o600 },
    );
    const env = {
      ...process.env,
      HOME: cwd,
      XDG_DATA_HOME: cwd,
      XDG_STATE_HOME: cwd,
      XDG_CONFIG_HOME: cwd,
      TERM: "xterm-256color",
      ROAMCARD_READY_FILE: "ready.json",
    };
    const shown = {};
    let order;
    // The first line starts a service, the second names it: here it runs already.
    for (const line of code.trim().split("\n").slice(2)) {
      const words = line.replace(/\s+#.*$/, "");
      const command = words.replace(/^bin\/roamcard/, binary).replace("ORDER", order);
      const { code: exit, output } = await inTerminal(command, {
        cwd,
        env,
        keys: [[/buy|topup/.test(words) ? "[y/N] " : "Any key clears this.", "y\n"]],
      });
      assert.equal(exit, 0, `${words}\n${output}`);
      order = output.match(/ord_\w+/)?.[0] ?? order;
      shown[words.replace("bin/roamcard ", "")] = output;
    }
    assert.equal((await chain.transfers(account.address)).length, 3);
    assert.match(shown["card balance"], /^(15|25)\.00 USD/); // before or after the fee is taken

    const [[, card]] = shown["card reveal"].matchAll(otherScreen);
    const number = card.match(/\d{4} \d{4} \d{4} \d{4}/)?.[0];
    assert.ok(number, "the card is on the other screen");
    for (const [words, output] of Object.entries(shown)) {
      const own = output.replaceAll(otherScreen, "");
      assert.ok(
        !own.includes(number) && !own.includes(number.replaceAll(" ", "")),
        `${words} leaves no card number behind`,
      );
    }

  const esim = shown["esim install ORDER"];
  const printed = (name) => esim.match(new RegExp(`^${name} +(\\S+)\r?$`, "m"))?.[1];
  const { data, width, height } = pixelsOf(esim.split(/\r?\n/).filter((line) => /^[ █▀▄]*[█▀▄][ █▀▄]*$/.test(line)));
  assert.equal(jsQR(data, width, height)?.data, `LPA:1$${printed("SM-DP\\+ address")}$${printed("activation code")}`);
}, { skip: process.platform !== "linux" && "script(1) has other flags here" });
