// What the fakes of the testing packages are held to is what the service answers.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { walk } from "../../testing/journey.mjs";
import { dev, newWallet, scenario } from "./support/shared.mjs";

scenario("the service answers in the shapes that its fakes are held to", async () => {
  const { key } = await newWallet();
  const shapes = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/shapes.json"), "utf8"));
  // `node clients/testing/journey.mjs BASEURL KEY > clients/testing/shapes.json` writes them anew.
  assert.deepEqual(await walk(dev.baseUrl, key), shapes);
});
