// What clients of agents make of the documents: the A2A client reads the card, and says that it cannot talk to it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { ClientFactory, DefaultAgentCardResolver } from "@a2a-js/sdk/client";

const base = process.env.ROAMCARD_URL;
const openapi = await (await fetch(`${base}/openapi.json`)).json();

test("the A2A client resolves the agent card", async () => {
  const card = await new DefaultAgentCardResolver().resolve(base);
  assert.equal(card.name, openapi.info.title);
  assert.equal(card.version, openapi.info.version);
  assert.ok(card.skills.length >= 2);
  assert.ok(card.capabilities.extensions[0].required);
});

test("the A2A client finds no transport, instead of posting to routes that are not there", async () => {
  const card = await new DefaultAgentCardResolver().resolve(base);
  await assert.rejects(async () => new ClientFactory().createFromAgentCard(card), /transport/i);
});

test("the skill is the one that its digest names", async () => {
  const { skills } = await (await fetch(`${base}/.well-known/agent-skills/index.json`)).json();
  for (const skill of skills) {
    const bytes = Buffer.from(await (await fetch(skill.url)).arrayBuffer());
    assert.equal(skill.digest, `sha256:${createHash("sha256").update(bytes).digest("hex")}`);
    assert.match(bytes.toString(), new RegExp(`^---\nname: ${skill.name}\n`));
  }
});
