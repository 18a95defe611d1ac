// The official TypeScript MCP clients buy through `roamcard mcp serve`, in every version they negotiate.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Client as ModernClient } from "@modelcontextprotocol/client";
import { StdioClientTransport as ModernTransport } from "@modelcontextprotocol/client/stdio";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const ready = JSON.parse(readFileSync(process.env.ROAMCARD_READY));
const me = { name: "conformance", version: "1.0.0" };
const asking = { capabilities: { elicitation: {} } };

/** Each makes a client that asks a person by `answer`, or one that cannot ask when there is none. */
const clients = [
  ["sdk", LegacyTransport, (answer) => {
    const client = new LegacyClient(me, answer && asking);
    if (answer) client.setRequestHandler(ElicitRequestSchema, answer);
    return client;
  }],
  ["client", ModernTransport, (answer) => modern(answer, {})],
  ["client, negotiated", ModernTransport, (answer) => modern(answer, { versionNegotiation: { mode: "auto" } })],
  ["client, pinned", ModernTransport,
    (answer) => modern(answer, { versionNegotiation: { mode: { pin: "2026-07-28" } } })],
];

function modern(answer, options) {
  const client = new ModernClient(me, { ...options, ...(answer && asking) });
  if (answer) client.setRequestHandler("elicitation/create", answer);
  return client;
}

/** A folder with the settings of an agent that asks before each payment, and what it takes to start its server. */
function agent(t) {
  const dir = mkdtempSync(join(tmpdir(), "agent-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const window = join(dir, "window");
  // A person at a browser, who presses the buttons.
  const person = new URL("../../clients/typescript/dist/testing/index.js", import.meta.url);
  const browse = `import("${person}").then(({ look }) => look(process.argv[1]))` +
    ".then(({ html }) => require('fs').writeFileSync(process.env.WINDOW, html))";
  writeFileSync(join(dir, "agent.json"), JSON.stringify({
    origin: ready.baseUrl, payTo: ready.payTo, asset: ready.usdc, mode: "human_approval",
    maxPerPaymentUsdCents: 2500, maxPerDayUsdCents: 5000,
    journal: join(dir, "journal"), rpcUrl: ready.rpcUrl, 
    browser: ["env", `WINDOW=${window}`, process.execPath, "-e", browse],
  }), { mode: 0o600 });
  const server = {
    command: process.env.ROAMCARD_BIN, args: ["mcp", "serve", "--config", join(dir, "agent.json")], stderr: "ignore",
    env: { PATH: process.env.PATH, HOME: dir, ROAMCARD_READY_FILE: process.env.ROAMCARD_READY },
  };
  return { server, window };
}

for (const [name, Transport, make] of clients) {
  test(`${name}: lists, asks, buys once and shows to the person alone`, async (t) => {
    const { server, window } = agent(t);
    const asked = [];
    let says = { action: "accept", content: { approve: true } };
    const client = make(async ({ params }) => (asked.push(params), says));
    await client.connect(new Transport(server));
    const call = async (tool, args = {}) => {
      // The client holds the structured content to the output schema.
      const answer = await client.callTool({ name: tool, arguments: args });
      assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
      return { ...answer.structuredContent, isError: answer.isError ?? false };
    };
    const paid = async (key) => {
      for (;;) {
        const told = await call("get_order", { purchaseKey: key });
        if (told.status === "paid" && told.order.status === "fulfilled") return told;
        assert.ok(!told.isError, JSON.stringify(told));
      }
    };
    try {
      const { tools } = await client.listTools();
      const names = tools.map((tool) => tool.name);
      const wanted = ["quote", "buy_card", "buy_esim", "get_order", "get_card_limits"];
      for (const name of wanted) assert.ok(names.includes(name), name);
      for (const tool of tools) {
        const { description, outputSchema, annotations } = tool;
        assert.ok(description.length > 20 && outputSchema.type === "object" && annotations, tool.name);
      }

      const wallet = await call("get_wallet");
      assert.ok(wallet.mayPay && wallet.balanceUsdc);
      const plan = (await call("list_esim_plans")).plans[0];
      const price = await call("quote", { tool: "buy_esim", planId: plan.planId });
      assert.ok(price.allowed && price.needsApproval && price.amountUsdCents === plan.priceUsdCents);

      const bought = await call("buy_esim", { purchaseKey: "one", planId: plan.planId });
      assert.ok(!bought.isError, JSON.stringify(bought));
      const { order } = await paid("one");
      const again = await call("buy_esim", { purchaseKey: "one", planId: plan.planId });
      assert.ok(again.replayed && again.order.orderId === order.orderId);
      assert.equal(asked.length, 1);
      assert.match(asked[0].message, /Pay \d+\.\d\d USDC/);

      says = { action: "decline" };
      const declined = await call("buy_esim", { purchaseKey: "two", planId: plan.planId });
      assert.ok(declined.isError && declined.code === "approval_declined" && declined.purchaseKey === "two");

      const shown = await call("show_esim", { orderId: order.orderId });
      // A tool answers in time; the window of a busy machine opens later.
      assert.ok(shown.shown || shown.reason === "waiting_for_user", JSON.stringify(shown));
      while (!(existsSync(window) && /LPA:1\$/.test(readFileSync(window, "utf8")))) await setTimeout(50);
      assert.equal((await call("get_wallet")).spentTodayUsdCents, plan.priceUsdCents);
    } finally {
      await client.close();
    }
  });

  test(`${name}: a client that cannot ask is told how a person approves`, async (t) => {
    const client = make();
    await client.connect(new Transport(agent(t).server));
    try {
      const plan = (await client.callTool({ name: "list_esim_plans", arguments: {} })).structuredContent.plans[0];
      const { isError, structuredContent } = await client.callTool(
        { name: "buy_esim", arguments: { purchaseKey: "one", planId: plan.planId } });
      assert.ok(isError && structuredContent.code === "approval_needed" && structuredContent.safeToPayAgain);
      assert.match(structuredContent.detail, /roamcard approve --config '\S+' one/);
    } finally {
      await client.close();
    }
  });
}
