// What clients of agents make of the documents: the A2A client reads the card, and says that it cannot talk to it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { AgentCard } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver } from "@a2a-js/sdk/client";

const base = process.env.ROAMCARD_URL;
const openapi = await (await fetch(`${base}/openapi.json`)).json();

test("the agent card is one version, at both of its places", async () => {
  for (const place of ["agent-card.json", "agent.json"]) {
    const served = await (await fetch(`${base}/.well-known/${place}`)).json();
    // These belong to versions before 1.0, whose readers would take the card for theirs.
    for (const old of ["protocolVersion", "url", "preferredTransport", "additionalInterfaces"]) {
      assert.ok(!(old in served), `${old} is in ${place}`);
    }
    assert.deepEqual(served.supportedInterfaces.map((i) => i.protocolVersion), ["1.0"]);
    // What the SDK reads of it in version 1.0 is all that version 1.0 has: nothing of ours is lost on the way.
    const read = AgentCard.toJSON(AgentCard.fromJSON(served));
    for (const [name, value] of Object.entries(read)) assert.deepEqual(known(served[name], value), value, name);
  }
});

/** The part of a value that the SDK has members for: ours may have more, with a prefix. */
function known(ours, theirs) {
  if (Array.isArray(theirs)) return theirs.map((item, i) => known(ours[i], item));
  if (theirs === null || typeof theirs !== "object") return ours;
  return Object.fromEntries(Object.keys(theirs).map((name) => [name, known(ours[name], theirs[name])]));
}

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
