// A proxy that loses, delays and falsifies answers on demand, one for the tests of every client.
//
//   node clients/testing/fault-proxy.mjs UPSTREAM     prints {"baseUrl", "controlUrl"} as one line and serves until its
//                                                     standard input ends
//
// POST controlUrl takes a list of faults for the requests to come, and forgets what was there before. Each fault is
// used by the first request it fits, once. GET controlUrl lists the requests that came: [{ path, payment,
// authorization, fault, status }], with the status that the service answered, if it has. PUT controlUrl closes the
// proxy and starts another one, with no faults and no requests, for the next test; it answers with its { "baseUrl" }.
//
//   on        "paid", "unpaid" (of the paid routes), or the path; every request when absent
//   cut       how many bytes of the answer pass before the connection is reset, a negative number counted from its end;
//             "request" resets it as soon as the service has the request, without waiting for an answer
//   delayMs   how long the answer is held at that byte, or at its beginning
//   status    answers so, with the service's 503 problem, instead of what the service answered
//   forward   false keeps the request from the service
//   terms     changes of PAYMENT-REQUIRED: of its offer, and `resource`
//   dead      keeps the payment from the service, and answers that it was claimed and can never arrive
//   cutMessage  resets the connection in the middle of this message of a stream, counted from 1
//
// Streams of the Connect protocol pass message by message, as they come; everything else passes when it is whole.
import { createServer, request as send } from "node:http";
import { once } from "node:events";
import { pathToFileURL } from "node:url";

const paidRoutes = [
  /\/api\/card\/(purchase|topup)$/,
  /\/api\/esim\/purchase$/,
  /Service\/(PurchaseCard|TopUpCard|PurchaseEsim)$/,
];

/** Starts a proxy before a service. */
export async function startFaultProxy(upstream) {
  const state = { faults: [], requests: [] };
  const server = createServer(
    (request, response) => void pass(new URL(upstream), state, request, response).catch(() => request.socket.destroy()),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    baseUrl: `http://127.0.0.1:${server.address().port}`,
    requests: state.requests,
    /** The faults of the requests to come. */
    inject(...faults) {
      state.faults = faults;
    },
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function pass(upstream, state, request, response) {
  const body = await bytesOf(request);
  const payment = request.headers["payment-signature"] ?? null;
  const fault = take(state, request.url, payment !== null) ?? {};
  const came = { path: request.url, payment, authorization: request.headers.authorization ?? null, fault };
  state.requests.push(came);
  if (fault.dead) delete request.headers["payment-signature"];
  const reply = fault.forward === false ? undefined : forward(upstream, request, body);
  if (fault.cut === "request") {
    // The service has the whole request once it is flushed; what it makes of it is read and thrown away.
    reply?.catch(() => undefined);
    await reply?.sent;
    return request.socket.resetAndDestroy();
  }
  const answered = await reply;
  came.status = answered?.incoming.statusCode;
  if (answered?.stream && !fault.status) return relay(answered.incoming, response.socket, fault);
  answered?.incoming.destroy();
  const bytes = fault.status ? problem(fault.status) : raw(changed(answered, fault));
  await write(response.socket, bytes, fault);
}

function take(state, path, paid) {
  const at = state.faults.findIndex(({ on }) => fits(on, path, paid));
  return at < 0 ? undefined : state.faults.splice(at, 1)[0];
}

function fits(on, path, paid) {
  if (on === undefined) return true;
  const priced = paidRoutes.some((route) => route.test(path));
  if (on === "paid") return paid;
  if (on === "unpaid") return priced && !paid;
  return path.startsWith(on);
}

function forward(upstream, { method, url, headers }, body) {
  const outgoing = send({
    host: upstream.hostname,
    port: upstream.port,
    method,
    path: url,
    headers: { ...headers, host: upstream.host },
    agent: false,
  });
  const sent = new Promise((done) => outgoing.once("finish", done).once("error", done));
  const reply = once(outgoing, "response").then(async ([incoming]) => {
    const stream = /^application\/connect\+/.test(incoming.headers["content-type"] ?? "");
    return { incoming, stream, body: stream ? undefined : await bytesOf(incoming) };
  });
  outgoing.end(body);
  return Object.assign(reply, { sent });
}

async function bytesOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

// changed says which headers of an answer a fault puts in place of the service's.
function changed(answered, { terms, dead }) {
  const changes = {};
  const header = answered.incoming.headers["payment-required"];
  if (terms && header) {
    const challenge = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
    const { resource, ...offer } = terms;
    Object.assign(challenge.accepts[0], offer);
    if (resource) challenge.resource.url = resource;
    changes["payment-required"] = base64(challenge);
  }
  if (dead)
    changes["payment-response"] = base64({
      success: false,
      transaction: "",
      network: "eip155:8453",
      errorReason: "expired",
    });
  return { ...answered, changes };
}

function base64(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

// raw is an answer as bytes of HTTP/1.1, so that it can be cut anywhere.
function raw({ incoming, body, changes }) {
  return Buffer.concat([head(incoming, { ...changes, "content-length": body.length }), body]);
}

function head(incoming, changes) {
  const lines = [`HTTP/1.1 ${incoming.statusCode} ${incoming.statusMessage}`];
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    const [name, value] = incoming.rawHeaders.slice(i, i + 2);
    if (/^(transfer-encoding|content-length|connection|keep-alive)$/i.test(name) || name.toLowerCase() in changes)
      continue;
    lines.push(`${name}: ${value}`);
  }
  for (const [name, value] of Object.entries(changes)) lines.push(`${name}: ${value}`);
  return Buffer.from(`${lines.join("\r\n")}\r\nConnection: close\r\n\r\n`, "latin1");
}

// relay passes a stream on, each message as soon as it is there. Its end is that of the connection.
async function relay(incoming, socket, { cutMessage }) {
  socket.once("close", () => incoming.destroy());
  socket.write(head(incoming, {}));
  let rest = Buffer.alloc(0);
  let messages = 0;
  for await (const part of incoming) {
    rest = Buffer.concat([rest, part]);
    // A message is a flag, its length in four bytes, and itself.
    for (let end; rest.length >= 5 && rest.length >= (end = 5 + rest.readUInt32BE(1)); rest = rest.subarray(end)) {
      if (++messages === cutMessage) {
        await new Promise((done) => socket.write(rest.subarray(0, end >> 1), done));
        return socket.resetAndDestroy();
      }
      socket.write(rest.subarray(0, end));
    }
  }
  socket.end(rest);
}

function problem(status) {
  const body = JSON.stringify({
    type: "/problems/dependency_down",
    title: "Something the service depends on does not answer.",
    status,
    detail: "The fault proxy says so.",
    code: "dependency_down",
    retryable: true,
    safeToPayAgain: false,
    nextAction: "wait_and_retry",
    requestId: "fault-proxy",
  });
  return Buffer.from(
    `HTTP/1.1 ${status} Faulty\r\nContent-Type: application/problem+json\r\nX-Request-Id: fault-proxy\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

async function write(socket, bytes, { cut, delayMs = 0 }) {
  const upTo = cut === undefined ? bytes.length : cut < 0 ? bytes.length + cut : cut;
  if (delayMs && cut === undefined) await held(delayMs, socket);
  if (upTo > 0) await new Promise((done) => socket.write(bytes.subarray(0, upTo), done));
  if (cut === undefined) return socket.end();
  await held(delayMs, socket);
  socket.resetAndDestroy();
}

function held(ms, socket) {
  return new Promise((done) => {
    if (socket.destroyed) return done(); // it hung up before there was an answer to hold
    const timer = setTimeout(done, ms);
    socket.once("close", () => (clearTimeout(timer), done()));
  });
}

async function main(upstream) {
  let proxy = await startFaultProxy(upstream);
  const control = createServer(async (request, response) => {
    response.setHeader("content-type", "application/json");
    if (request.method === "PUT") {
      await proxy.close();
      proxy = await startFaultProxy(upstream);
      return response.end(JSON.stringify({ baseUrl: proxy.baseUrl }));
    }
    if (request.method === "POST") proxy.inject(...JSON.parse(await bytesOf(request)));
    return response.end(JSON.stringify(proxy.requests));
  });
  control.listen(0, "127.0.0.1");
  await once(control, "listening");
  console.log(JSON.stringify({ baseUrl: proxy.baseUrl, controlUrl: `http://127.0.0.1:${control.address().port}` }));
  process.stdin.resume().once("end", () => process.exit(0));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main(process.argv[2]);
