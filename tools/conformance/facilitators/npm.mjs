// The x402 facilitator of the npm packages, as they are, for Base and the scheme `exact`.
//
// Settings are in FACILITATOR_PORT, FACILITATOR_KEY and FACILITATOR_RPC. With FACILITATOR_INSISTS it
// settles only what it has verified, once, as the facilitator of the x402 project's own end-to-end tests does.
import { createServer } from "node:http";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, http, nonceManager, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";

const setting = (name) => process.env[`FACILITATOR_${name}`];
const account = privateKeyToAccount(setting("KEY"), { nonceManager });
// How often it looks for a receipt follows from the chain's time between blocks, which viem knows of Base.
const client = createWalletClient({ account, chain: base, transport: http(setting("RPC")) }).extend(publicActions);
const facilitator = new x402Facilitator().register(
  `eip155:${base.id}`, new ExactEvmScheme(toFacilitatorEvmSigner({ ...client, address: account.address })));

if (setting("INSISTS")) {
  const verified = new Set();
  const forget = async ({ paymentPayload }) => void verified.delete(JSON.stringify(paymentPayload));
  facilitator
    .onAfterVerify(async ({ paymentPayload, result }) => {
      if (result.isValid) verified.add(JSON.stringify(paymentPayload));
    })
    .onBeforeSettle(async ({ paymentPayload }) => {
      if (verified.has(JSON.stringify(paymentPayload))) return undefined;
      return { abort: true, reason: "Payment must be verified before settlement" };
    })
    .onAfterSettle(forget)
    .onSettleFailure(forget);
}

/** What is answered to a request: the status and the body. */
async function answer(method, path, body) {
  if (method === "GET" && path === "/supported") return [200, facilitator.getSupported()];
  if (method !== "POST" || !["/verify", "/settle"].includes(path)) return [404, { error: "no such route" }];
  const { paymentPayload, paymentRequirements } = JSON.parse(body);
  try {
    return [200, await facilitator[path.slice(1)](paymentPayload, paymentRequirements)];
  } catch (error) {
    const aborted = error.message.match(/Settlement aborted: (.*)/);
    if (aborted) return [200, { success: false, errorReason: aborted[1], transaction: "", network: "unknown" }];
    return [500, { error: error.message }];
  }
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const [status, body] = await answer(request.method, request.url, Buffer.concat(chunks)).catch(
    (error) => [400, { error: error.message }]);
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}).listen(Number(setting("PORT")), "127.0.0.1");
