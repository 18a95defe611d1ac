// A service that lies, one for the tests of every client. It stands before a real one, may take a payment on the chain
// by itself, and answers what it is told to.
//
//   node clients/testing/hostile-service.mjs UPSTREAM RPC USDC    prints {"baseUrl", "controlUrl"} as one line and
// serves                                                                 until its standard input ends
//
// POST controlUrl takes { "lies": [...] } and forgets what was there before. GET controlUrl tells { requests, taken,
// elsewhere }: the requests that came, the payments it took on the chain, and the requests that reached another host of
// its own. What a lie says:
//
//   on        "paid", "unpaid" (of the paid routes), or the path; every request when absent
//   times     how many requests it is for, 1 when absent; 0 is every one
//   take      moves the money of the payment that came, before it answers
//   ask       answers with the real service's challenge, as if nothing had been paid; with `terms`, changed so: of its
// offer,             and `resource`; `accepts` is how many copies of the offer there are   dead      adds a
// PAYMENT-RESPONSE that calls the payment dead; receipt one that calls it settled   order     answers 200 with an order
// that fits the request, changed so   problem   answers with this problem (RFC 9457), in the form of the protocol that
// asked   status, body, headers   the answer, or changes of it; a header may name "{elsewhere}"   bomb      answers
// with so many MiB of zeros, compressed   endless   answers with so many MiB of spaces, a piece at a time   redirect  a
// Location: "here" or "elsewhere"
//
// The cases of hostile.json have steps, too: `do` is what is bought, a card, an eSIM of a plan or of any
// ("esim-any"), a top-up, or an eSIM's order that was created before ("pay"), whose id is its key. `key` names the
// purchase; it is empty for one without a key, and "told" for the key that its error or its order named. `expect` is
// what comes of it: ok, terms, denied, refused, ambiguous, or any error. A client repeats a payment once, and as usual
// where something is ok.
import { createServer, request as send } from "node:http";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const paidRoutes = [
  /\/api\/card\/(purchase|topup)$/, /\/api\/esim\/purchase$/, /\/pay\/[^/]+$/,
  /Service\/(PurchaseCard|TopUpCard|PurchaseEsim|PayOrder)$/,
];
const kinds = [
  [/card\/purchase$|PurchaseCard$/, "card_issue"],
  [/card\/topup$|TopUpCard$/, "card_topup"],
  [/esim\/purchase$|PurchaseEsim$/, "esim"],
];
/** Starts a hostile service. */
export async function startHostileService(upstream, rpcUrl, usdc) {
  const state = {
    lies: [],
    requests: [],
    taken: [],
    elsewhere: 0,
    upstream: new URL(upstream),
    chain: chainOf(rpcUrl, usdc),
  };
  const elsewhere = await listen((request, response) => {
    state.elsewhere++;
    response.end("{}");
  });
  state.elsewhereUrl = elsewhere.url;
  const server = await listen(
    (request, response) => void answer(state, request, response).catch((error) => {
      if (!response.destroyed) console.error(`no lie was told: ${error.stack}`);
      request.socket.destroy();
    }),
  );
  state.baseUrl = server.url;
  return {
    baseUrl: server.url,
    told: () => ({ requests: state.requests, taken: state.taken, elsewhere: state.elsewhere }),
    lie(lies) {
      Object.assign(state, { lies: lies.map((lie) => ({ times: 1, ...lie })), requests: [], taken: [], elsewhere: 0 });
    },
    close() {
      for (const s of [server.server, elsewhere.server]) {
        s.close();
        s.closeAllConnections();
      }
    },
  };
}

async function listen(handle) {
  const server = createServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

async function answer(state, request, response) {
  const body = await bytesOf(request);
  const payment = request.headers["payment-signature"];
  const lie = next(state, request.url, payment !== undefined);
  state.requests.push({
    path: request.url,
    payment: payment ?? null,
    authorization: request.headers.authorization ?? null,
    lie: lie ?? null,
  });
  if (!lie) return pass(await ask(state, request, body, payment), response);
  if (lie.take && payment)
    state.taken.push(await state.chain.take(JSON.parse(Buffer.from(payment, "base64").toString("utf8"))));
  if (lie.bomb) return burst(response, lie);
  if (lie.endless) return drip(response, lie.endless);
  const real = lie.ask || lie.terms ? await ask(state, request, body, undefined) : plain(lie);
  pass(lied(state, request, body, real, lie), response);
}

function next(state, path, paid) {
  const lie = state.lies.find((l) => (l.times === 0 || l.times > 0) && fits(l.on, path, paid) && !l.spent);
  if (lie && lie.times > 0 && --lie.times === 0) lie.spent = true;
  return lie;
}

function fits(on, path, paid) {
  if (on === undefined) return true;
  if (on === "paid") return paid;
  if (on === "unpaid") return !paid && paidRoutes.some((route) => route.test(path));
  return path.startsWith(on);
}

// lied is an answer with what the lie makes of it.
function lied(state, request, body, real, lie) {
  const headers = { ...real.headers };
  if (lie.terms || lie.accepts !== undefined) headers["payment-required"] = changed(headers["payment-required"], lie);
  const receipt = { transaction: `0x${"ab".repeat(32)}`, network: "eip155:8453" };
  if (lie.dead)
    headers["payment-response"] = base64({ ...receipt, success: false, transaction: "", errorReason: "expired" });
  if (lie.receipt) headers["payment-response"] = base64({ ...receipt, success: true });
  if (lie.redirect)
    headers.location = (lie.redirect === "elsewhere" ? state.elsewhereUrl : state.baseUrl) + request.url;
  Object.assign(headers, lie.headers);
  if (lie.problem)
    return {
      status: lie.problem.status,
      headers: { ...headers, ...problemType(request) },
      body: problemOf(request, lie.problem),
    };
  const text = lie.order ? orderOf(request, body, lie.order) : (lie.body ?? real.body);
  return { status: lie.status ?? real.status, headers, body: text };
}

const isConnect = ({ url }) => /Service\//.test(url);
const problemType = (request) => ({
  "content-type": isConnect(request) ? "application/json" : "application/problem+json",
});

// problemOf is a problem as REST has it, or as the detail of an error of the Connect protocol.
function problemOf(request, problem) {
  if (!isConnect(request)) return JSON.stringify(problem);
  const value = Buffer.concat(Object.entries(problemFields).flatMap(([name, number]) => field(number, problem[name])))
    .toString("base64")
    .replace(/=+$/, "");
  return JSON.stringify({
    code: "already_exists",
    message: problem.detail,
    details: [{ type: "roamcard.v1.Problem", value }],
  });
}

const problemFields = {
  type: 1,
  title: 2,
  status: 3,
  detail: 4,
  code: 5,
  retryable: 6,
  safeToPayAgain: 7,
  nextAction: 8,
  requestId: 9,
};

// field is a member of a protobuf message: a text, or a small number or boolean.
function field(number, value) {
  if (value === undefined || value === false) return [];
  if (typeof value === "string")
    return [Buffer.from([(number << 3) | 2]), varint(Buffer.byteLength(value)), Buffer.from(value)];
  return [Buffer.from([number << 3]), varint(Number(value))];
}

function varint(value) {
  const bytes = [];
  for (; value > 127; value >>= 7) bytes.push((value & 127) | 128);
  return Buffer.from([...bytes, value]);
}

function plain({ order, body }) {
  return {
    status: 200,
    headers: { "content-type": order || !body?.startsWith("<") ? "application/json" : "text/html" },
    body: "{}",
  };
}

// orderOf is an order that could be the answer to a request, with changes.
function orderOf({ url, headers }, body, changes) {
  const asked = JSON.parse(body.toString("utf8") || "{}");
  const payment = JSON.parse(Buffer.from(headers["payment-signature"] ?? "e30=", "base64").toString("utf8"));
  const { from, value } = payment.payload?.authorization ?? {};
  const order = {
    orderId: asked.orderId ?? /\/pay\/([^/]+)$/.exec(url)?.[1] ?? `ord_${crypto.randomUUID()}`,
    operationId: crypto.randomUUID(),
    kind: kinds.find(([path]) => path.test(url))?.[1] ?? "card_topup",
    status: "settled",
    amountUsdCents: Number(value ?? 0) / 10_000,
    createdAt: new Date().toISOString(),
    payment: {
      payer: from,
      network: "eip155:8453",
      asset: payment.accepted?.asset,
      amount: value,
      transaction: `0x${"ab".repeat(32)}`,
      settledAt: new Date().toISOString(),
    },
    ...changes,
  };
  if (changes.payer) order.payment = { ...order.payment, payer: changes.payer };
  delete order.payer;
  // Over Connect the order is a member of the answer.
  return JSON.stringify(isConnect({ url }) ? { order } : order);
}

function changed(header, { terms = {}, accepts = 1 }) {
  const challenge = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  const { resource, ...offer } = terms;
  Object.assign(challenge.accepts[0], offer);
  if (resource) challenge.resource.url = resource;
  challenge.accepts = Array(accepts).fill(challenge.accepts[0]);
  return base64(challenge);
}

// ask asks the real service, with or without the payment.
async function ask({ upstream }, { method, url, headers }, body, payment) {
  const { "payment-signature": _, "accept-encoding": __, ...rest } = headers;
  const outgoing = send({
    host: upstream.hostname, port: upstream.port, method, path: url, agent: false,
    headers: { ...rest, host: upstream.host, ...(payment && { "payment-signature": payment }) },
  });
  outgoing.end(body);
  const [incoming] = await once(outgoing, "response");
  const { "transfer-encoding": ___, "content-length": ____, connection: _____, ...kept } = incoming.headers;
  return { status: incoming.statusCode, headers: kept, body: await bytesOf(incoming) };
}

function pass({ status, headers, body }, response) {
  response.writeHead(status, headers);
  response.end(body);
}

const bombs = new Map();

function burst(response, { bomb, status = 200 }) {
  if (!bombs.has(bomb)) bombs.set(bomb, gzipSync(Buffer.alloc(bomb << 20)));
  response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip" });
  response.end(bombs.get(bomb));
}

// drip writes for as long as somebody reads, up to its limit.
async function drip(response, mebibytes) {
  response.writeHead(200, { "content-type": "application/json" });
  const piece = Buffer.alloc(1 << 20, " ");
  for (let i = 0; i < mebibytes && !response.destroyed; i++) {
    if (!response.write(piece)) await Promise.race([once(response, "drain"), once(response, "close")]);
  }
  response.end();
}

// chainOf moves money by payments that others signed, as anybody who has one can.
function chainOf(rpcUrl, usdc) {
  // An account that the development chain lets anybody act for. Each service has one: two that send at once by one
  // account may take the same nonce, and then one of them fails.
  const thief = `0x${"0".repeat(24)}${randomBytes(8).toString("hex")}`;
  const rpc = async (method, ...params) => {
    const answer = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const { result, error } = await answer.json();
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  let ready;
  const word = (value) => BigInt(value).toString(16).padStart(64, "0");
  return {
    async take({ payload: { authorization: a, signature } }) {
      ready ??= rpc("anvil_setBalance", thief, "0xde0b6b3a7640000").then(() => rpc("anvil_impersonateAccount", thief));
      await ready;
      // transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)
      const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
      const words = [a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, `0x${v}`, `0x${r}`, `0x${s}`].map(
        word,
      );
      const hash = await rpc("eth_sendTransaction", {
        from: thief,
        to: usdc,
        data: `0xe3ee160e${words.join("")}`,
        gas: "0x30d40",
      });
      for (let tries = 0; tries < 200; tries++) {
        const receipt = await rpc("eth_getTransactionReceipt", hash);
        if (receipt) return { from: a.from, nonce: a.nonce, value: a.value, moved: receipt.status === "0x1" };
        await new Promise((done) => setTimeout(done, 50));
      }
      throw new Error("the chain did not include the payment");
    },
  };
}

async function bytesOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

function base64(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

async function main(upstream, rpcUrl, usdc) {
  const service = await startHostileService(upstream, rpcUrl, usdc);
  const control = await listen(async (request, response) => {
    if (request.method === "POST") service.lie(JSON.parse(await bytesOf(request)).lies);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(service.told()));
  });
  console.log(JSON.stringify({ baseUrl: service.baseUrl, controlUrl: control.url }));
  process.stdin.resume().once("end", () => process.exit(0));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main(...process.argv.slice(2));
