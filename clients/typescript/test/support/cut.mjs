// A TCP proxy that loses the answer to a paid request.
import { connect, createServer } from "node:net";

/**
 * Starts a proxy in front of the service. Of the first paid requests it forwards every byte; then it calls
 * `onForwarded` and hangs up on the client: at once, or (`when: "answered"`) when the first byte of the answer arrives,
 * which the client never sees.
 */
export async function startCutter(baseUrl, { times = 1, when = "forwarded", onForwarded = () => {} } = {}) {
  const { hostname, port } = new URL(baseUrl);
  const state = { cuts: 0 };
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const s of [client, upstream]) {
      sockets.add(s);
      s.on("close", () => sockets.delete(s)).on("error", () => {});
    }
    const request = new RequestWatch();
    let cutting = false;
    client.on("data", (bytes) => {
      const paid = request.add(bytes);
      upstream.write(bytes);
      if (!paid || state.cuts >= times) return;
      state.cuts++;
      cutting = true;
      onForwarded();
      if (when === "forwarded") client.resetAndDestroy();
    });
    upstream.on("data", (bytes) => {
      request.reset();
      if (!cutting) client.write(bytes);
      else client.resetAndDestroy();
    });
    // What was forwarded must arrive: the service sees a client that hung up, not one that never sent.
    client.on("close", () => upstream.end());
    upstream.on("close", () => client.destroy());
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    baseUrl: `http://127.0.0.1:${server.address().port}`,
    get cuts() {
      return state.cuts;
    },
    close() {
      for (const s of sockets) s.destroy();
      return new Promise((done) => server.close(done));
    },
  };
}

// RequestWatch tells when a whole HTTP/1.1 request with a payment has passed by.
class RequestWatch {
  #text = "";

  reset() {
    this.#text = "";
  }

  add(bytes) {
    this.#text += bytes.toString("latin1");
    const end = this.#text.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const head = this.#text.slice(0, end).toLowerCase();
    const body = this.#text.slice(end + 4);
    if (!head.includes("\r\npayment-signature:")) return false;
    const length = head.match(/\r\ncontent-length: *(\d+)/)?.[1];
    return length === undefined ? body.endsWith("0\r\n\r\n") : body.length >= Number(length);
  }
}
