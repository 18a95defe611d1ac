// The official TypeScript MCP clients list and call every tool, in every version they negotiate.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const base = process.env.ROAMCARD_URL;
const endpoint = new URL("/mcp", base);
const me = { name: "conformance", version: "1.0.0" };

const openapi = await (await fetch(`${base}/openapi.json`)).json();

/** What every server has, and what comes with the routes of other products. */
const expected = [
  ["get_agent_contract", "/api/agent"],
  ["get_wallet_requirements", "/api/agent"],
  ["get_config", "/api/config"],
  ["get_card_contract", "/api/card/discovery"],
  ["get_topup_contract", "/api/card/topup/discovery"],
  ["get_esim_contract", "/api/esim/discovery"],
  ["list_esim_plans", "/api/esim/plans"],
  ["get_readiness", "/ready"],
  ["get_esim_readiness", "/api/esim/ready"],
  ["get_install_command", "/api/agent"],
  ["get_openapi", "/api/openapi.json"],
  ["get_payable_url", "/pay/{orderId}"],
].filter(([, path]) => openapi.paths[path] !== undefined).map(([name]) => name);

const clients = [
  ["sdk, 2025-06-18", "2025-06-18", () => [new LegacyClient(me), new LegacyTransport(endpoint)]],
  ["client, legacy mode", "2025-06-18", () => [new ModernClient(me), new ModernTransport(endpoint)]],
  ["client, auto mode", "2026-07-28",
    () => [new ModernClient(me, { versionNegotiation: { mode: "auto" } }), new ModernTransport(endpoint)]],
  ["client, pinned", "2026-07-28",
    () => [
      new ModernClient(me, { versionNegotiation: { mode: { pin: "2026-07-28" } } }), new ModernTransport(endpoint),
    ]],
];

for (const [name, version, make] of clients) {
  test(`${name}: connects, lists and calls every tool`, async () => {
    const [client, transport] = make();
    await client.connect(transport);
    try {
      const info = client.getServerVersion();
      assert.equal(info.name, "roamcard");
      assert.equal(info.version, openapi.info.version);
      if (version === "2025-06-18") await client.ping();

      const { tools } = await client.listTools();
      const ours = tools.filter((t) => !t.name.startsWith("test_"));
      assert.deepEqual(ours.map((t) => t.name).sort(), expected.toSorted());
      for (const tool of ours) {
        assert.ok(tool.description.length > 20, `${tool.name} is described`);
        assert.equal(tool.annotations.readOnlyHint, true);
        assert.equal(tool.annotations.destructiveHint, false);
        assert.equal(tool.inputSchema.additionalProperties, false);
        assert.equal(tool.outputSchema.type, "object");
        if (tool.name === "get_payable_url") continue; // below, with an order
        // The client checks the structured content against the output schema.
        const answer = await client.callTool({ name: tool.name, arguments: {} });
        assert.notEqual(answer.isError, true, `${tool.name}: ${JSON.stringify(answer.content)}`);
        assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
        const bytes = Buffer.byteLength(JSON.stringify(answer));
        assert.ok(bytes <= 25_000, `${tool.name} answers ${bytes} bytes`);
      }
      if (expected.includes("get_payable_url")) {
        const answer = await client.callTool({ name: "get_payable_url", arguments: { orderId: "ord_unknown" } });
        assert.equal(answer.isError, true);
        assert.equal(JSON.parse(answer.content[0].text).code, "order_not_found");
      }

      const extra = await client.callTool({ name: "get_config", arguments: { walletKey: "0x00" } });
      assert.equal(extra.isError, true);
      await assert.rejects(client.callTool({ name: "buy_card", arguments: {} }), (error) => error.code === -32602);
    } finally {
      await client.close();
    }
  });
}

test("a call answers what its route answers", async () => {
  const client = new LegacyClient(me);
  await client.connect(new LegacyTransport(endpoint));
  for (const [tool, path, member] of [
    ["get_wallet_requirements", "/api/agent", "wallet"],
    ["get_install_command", "/api/agent", "install"],
    ["get_config", "/api/config"],
    ["get_card_contract", "/api/card/discovery"],
    ["get_topup_contract", "/api/card/topup/discovery"],
  ]) {
    const direct = await (await fetch(base + path)).json();
    const { structuredContent } = await client.callTool({ name: tool, arguments: {} });
    assert.deepEqual(structuredContent, member === undefined ? direct : direct[member], tool);
  }
  await client.close();
});

test("what is long comes in pages, and all of it", async () => {
  const client = new LegacyClient(me);
  await client.connect(new LegacyTransport(endpoint));
  const all = async (name, member, args) => {
    const items = [];
    for (let cursor; ; ) {
      const { structuredContent: page } = await client.callTool(
        { name, arguments: { ...args, ...(cursor && { cursor }) } });
      items.push(...page[member]);
      cursor = page.nextCursor;
      if (!cursor) return items;
    }
  };
  const direct = async (path) => (await fetch(base + path)).json();
  const { operations, errors, ...rest } = await direct("/api/agent");
  assert.deepEqual((await client.callTool({ name: "get_agent_contract", arguments: {} })).structuredContent, rest);
  assert.deepEqual(await all("get_agent_contract", "operations", { section: "operations" }), operations);
  assert.deepEqual(await all("get_agent_contract", "errors", { section: "errors" }), errors);
  const { plans } = await direct("/api/esim/plans");
  assert.ok(plans.length > 3);
  assert.deepEqual(await all("list_esim_plans", "plans", { limit: 3 }), plans);
  const listed = await all("get_openapi", "operations", {});
  assert.equal(listed.length, Object.values(openapi.paths).flatMap((verbs) => Object.keys(verbs)).length);
  await client.close();
});

test("a notification gets 202, a stream 405, a descriptor 200", async () => {
  const headers = { "content-type": "application/json" };
  const post = (body) => fetch(endpoint, { method: "POST", headers, body: JSON.stringify(body) });
  const notified = await post({ jsonrpc: "2.0", method: "notifications/initialized" });
  assert.equal(notified.status, 202);
  assert.equal(await notified.text(), "");
  const stream = await fetch(endpoint, { headers: { accept: "text/event-stream" } });
  assert.equal(stream.status, 405);
  assert.equal(stream.headers.get("allow"), "GET, HEAD, POST");
  await stream.text();
  const card = await (await fetch(endpoint)).json();
  assert.equal(card.remotes[0].url, endpoint.href);
  assert.equal(card.protocolVersion, "2025-06-18");
});
