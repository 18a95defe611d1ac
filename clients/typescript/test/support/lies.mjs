// What a bad network, and a service that steals, make of a request.
const kinds = [["PurchaseEsim", "esim"], ["PurchaseCard", "card_issue"], ["TopUpCard", "card_topup"]];
const stranger = "0x000000000000000000000000000000000000dEaD";

/** The purchase that a request makes; undefined for others. */
export function purchaseOf(path, body) {
  const kind = kinds.find(([method]) => path.endsWith(method))?.[1];
  return kind && `${kind} ${JSON.parse(body).idempotencyKey}`;
}

/** One request and what is made of it. */
export class Exchange {
  constructor(world, request, body, key, header) {
    Object.assign(this, { world, request, body, key, header });
  }

  async answer(mood) {
    if (mood === 0 || this.world.draw(2) === 0) return this.#ask(this.header);
    if (mood === 1) return this.#badly();
    // What is published stays honest: a lie there is one about the terms.
    if (!this.key) return this.#ask(null);
    return this.header ? this.#lie() : this.#falseTerms();
  }

  #ask(payment) {
    const headers = new Headers(this.request.headers);
    headers.delete("payment-signature");
    if (payment) headers.set("payment-signature", payment);
    return this.world.service.fetch(this.request.url, {
      method: this.request.method,
      headers,
      ...(this.body && { body: this.body }),
    });
  }

  async #badly() {
    const kind = this.world.draw(5);
    this.world.tell(`network ${kind}: ${this.key}`);
    const lost = new TypeError("the connection was lost");
    if (kind === 0) throw lost; // the request is lost
    const answer = await this.#ask(this.header);
    switch (kind) {
      case 1: // the answer is lost
        throw lost;
      case 2: { // it is cut
        const part = (await answer.text()).slice(0, 20);
        return new Response(
          new ReadableStream({
            start: (to) => to.enqueue(new TextEncoder().encode(part)),
            pull: (to) => to.error(lost),
          }),
          answer,
        );
      }
      case 3: // the service was there, and something before it was not
        return this.#plain(503, "upstream");
      default: // the request comes twice
        return this.#ask(this.header);
    }
  }

  async #falseTerms() {
    const answer = await this.#ask(null);
    if (answer.status !== 402) return answer;
    const terms = JSON.parse(Buffer.from(answer.headers.get("payment-required"), "base64"));
    const [offer] = terms.accepts;
    const kind = this.world.draw(6);
    this.world.tell(`terms ${kind}: ${this.key}`);
    if (kind === 3) terms.accepts.push(offer);
    else if (kind === 5) terms.resource.url = "http://other.test/api/card/purchase";
    else
      Object.assign(
        offer,
        [{ amount: "24990000" }, { payTo: stranger }, { asset: stranger }, {}, { maxTimeoutSeconds: 3600 }][kind],
      );
    const headers = new Headers(answer.headers);
    headers.set("payment-required", base64(terms));
    return new Response(answer.body, { status: 402, headers });
  }

  // lie answers a payment as a thief does, who may take it too.
  async #lie() {
    const kind = this.world.draw(12);
    const taken =
      this.world.draw(2) === 0 ? `, taken: ${(await this.world.service.token.take(this.header)).reason}` : "";
    this.world.tell(`lie ${kind}: ${this.key}${taken}`);
    switch (kind) {
      case 0: case 1: return this.#callDead();
      case 2: return this.#ask(null);
      case 3: return this.#plain(409, `{"code":"failed_precondition","message":"no","details":[]}`);
      case 4: return this.#plain(200, "<html>Thank you</html>");
      case 5: return this.#plain(200, "{}");
      case 6: return this.#plain(307, "", { location: "http://other.test/" });
      case 7: return this.#plain(500, "");
      case 8: return this.#plain(429, "");
      case 9: return this.#forge("ord_of_somebody_else", 1);
      case 10: return this.#forge("ord_forged", 0);
      default: return this.#plain(402, "<html>pay</html>");
    }
  }

  // callDead says that the payment was taken up and can never arrive, whatever became of it.
  async #callDead() {
    const answer = await this.#ask(null);
    if (answer.status !== 402) return answer;
    this.world.dead.set(this.key, (this.world.dead.get(this.key) ?? 0) + 1);
    const headers = new Headers(answer.headers);
    headers.set(
      "payment-response",
      base64({ success: false, transaction: "", network: "eip155:8453", errorReason: "expired" }),
    );
    return new Response(answer.body, { status: 402, headers });
  }

  #plain(status, body, headers = {}) {
    const type = body.startsWith("<") ? "text/html" : "application/json";
    const date = new Date(this.world.clock.ms).toUTCString();
    return new Response(body, { status, headers: { "content-type": type, date, ...headers } });
  }

  // forge answers with an order that fits the payment, but for so many cents.
  #forge(orderId, more) {
    const { value } = JSON.parse(Buffer.from(this.header, "base64")).payload.authorization;
    const [kind] = this.key.split(" ");
    return this.#plain(
      200,
      JSON.stringify({ order: { orderId, kind, status: "settled", amountUsdCents: Number(value) / 10_000 + more } }),
    );
  }
}

function base64(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}
