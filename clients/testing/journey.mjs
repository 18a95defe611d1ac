// Walks through what the clients call of a service, by both protocols, and tells the shape of every answer: its status,
// the headers that clients read, and the members of its body with their types. The fakes of the testing packages are
// held to what the real service told: clients/testing/shapes.json.
//
//   node clients/testing/journey.mjs BASEURL WALLETKEY      prints { "<call>": shape } as JSON
//
// The wallet must be one that has bought nothing yet.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../typescript/package.json", import.meta.url));
const { privateKeyToAccount } = require("viem/accounts");
const read = [
  "content-type",
  "payment-required",
  "payment-response",
  "www-authenticate",
  "retry-after",
  "x-request-id",
  "date",
];

/** Walks, and gives the shapes by the names of the calls. */
export async function walk(baseUrl, key) {
  const walker = new Walker(baseUrl, privateKeyToAccount(key.startsWith("0x") ? key : `0x${key}`));
  await walker.look();
  await walker.buyCard();
  await walker.buyEsim();
  await walker.openAndPay();
  await walker.beRefused();
  return walker.shapes;
}

class Walker {
  shapes = {};

  constructor(baseUrl, account) {
    Object.assign(this, { baseUrl, account });
  }

  async call(name, method, path, { body, headers = {} } = {}) {
    const response = await fetch(this.baseUrl + path, {
      method, headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = text && /json/.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : undefined;
    const seen = read.filter((h) => response.headers.has(h));
    const decoded = Object.fromEntries(
      seen.filter((h) => h.startsWith("payment-")).map((h) => [h, shapeOf(offered(response.headers.get(h)))]),
    );
    this.shapes[name] = {
      status: response.status,
      headers: seen,
      type: response.headers.get("content-type"),
      ...decoded,
      body: shapeOf(json),
      ...problemIn(json),
    };
    return { json, response };
  }

  rpc(name, method, body, headers) {
    return this.call(name, "POST", `/roamcard.v1.${method}`, { body, headers });
  }

  // pay asks for the price, signs it and pays.
  async pay(name, path, body) {
    const { response } = await this.call(`${name}, unpaid`, "POST", path, { body });
    const payment = await this.sign(decode(response.headers.get("payment-required")));
    const paid = () => ({ body, headers: { "payment-signature": payment } });
    const { json } = await this.call(`${name}, paid`, "POST", path, paid());
    const order = json.order ?? json;
    // The card may have been issued by then, or not yet.
    delete (this.shapes[`${name}, paid`].body.order ?? {}).issuance?.cardId;
    if (order.kind === "card_issue") this.card = await this.issued(order.orderId);
    await this.call(`${name}, repeated`, "POST", path, paid());
    for (const answered of [`${name}, paid`, `${name}, repeated`]) {
      const { body } = this.shapes[answered];
      delete (body.order ?? body).receipt; // for the same reason
    }
    return order;
  }

  async sign({ accepts: [offer], resource }, changes = {}) {
    const now = Math.floor(Date.now() / 1000);
    const field = (type, name) => ({ name, type });
    const authorization = {
      from: this.account.address,
      to: offer.payTo,
      value: offer.amount,
      validAfter: String(now - 600),
      validBefore: String(now + 120),
      nonce: `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`,
      ...changes,
    };
    const signature = await this.account.signTypedData({
      domain: { name: offer.extra.name, version: offer.extra.version, chainId: 8453, verifyingContract: offer.asset },
      primaryType: "TransferWithAuthorization",
      types: {
        TransferWithAuthorization: [
          field("address", "from"), field("address", "to"), field("uint256", "value"), field("uint256", "validAfter"),
          field("uint256", "validBefore"), field("bytes32", "nonce"),
        ],
      },
      message: authorization,
    });
    return Buffer.from(
      JSON.stringify({ x402Version: 2, resource, accepted: offer, payload: { signature, authorization } }),
    ).toString("base64");
  }

  async signIn() {
    const { address } = this.account;
    const { json: challenge } = await this.rpc("sign-in challenge", "AuthService/CreateChallenge", {
      address,
      preferredMessageSchemes: ["eip191"],
    });
    const signature = await this.account.signMessage({ message: challenge.message });
    const { intentId, messageScheme } = challenge;
    const { json } = await this.rpc("sign-in", "AuthService/VerifyChallenge", {
      address,
      signature,
      intentId,
      messageScheme,
    });
    this.session = { authorization: `Bearer ${json.accessToken}` };
  }

  async look() {
    await this.call("config, REST", "GET", "/api/config");
    await this.rpc("config", "RuntimeService/GetConfig", {});
    // The fakes take no smart accounts, and name no kind of them.
    for (const name of ["config, REST", "config"]) delete this.shapes[name].body.network.smartAccountKinds;
    await this.call("plans, REST", "GET", "/api/esim/plans");
    const { json } = await this.rpc("plans", "EsimService/ListEsimPlans", {});
    this.plan = json.plans[0];
    await this.call("card discovery, REST", "GET", "/api/card/discovery");
    await this.rpc("card discovery", "CardService/GetCardDiscovery", {});
    await this.rpc("top-up discovery", "CardService/GetTopupDiscovery", {});
    await this.rpc("eSIM discovery", "EsimService/GetEsimDiscovery", {});
  }

  async buyCard() {
    await this.signIn();
    await this.rpc("session", "AuthService/GetSession", {}, this.session);
    await this.rpc("no cards", "CardService/ListCards", {}, this.session);
    await this.rpc("top-up without a card", "CardService/TopUpCard", {
      amountUsdCents: 2500,
      idempotencyKey: "journey-early",
    });
    await this.pay("card", "/roamcard.v1.CardService/PurchaseCard", { idempotencyKey: "journey-card" });
    await this.rpc("cards", "CardService/ListCards", {}, this.session);
    await this.rpc("balance", "CardService/GetCardBalance", { id: this.card }, this.session);
    await this.controlCard();
    await this.pay("top-up, REST", "/api/card/topup", { amountUsdCents: 3000, idempotencyKey: "journey-topup" });
    await this.rpc("another request under the key", "CardService/TopUpCard", {
      amountUsdCents: 2500,
      idempotencyKey: "journey-topup",
    });
  }

  async controlCard() {
    const card = { id: this.card };
    await this.rpc("transactions", "CardService/ListCardTransactions", card, this.session);
    await this.call("transactions, REST", "GET", `/api/cards/${this.card}/transactions`, { headers: this.session });
    await this.rpc("details", "CardService/GetCardDetails", card, this.session);
    await this.call("details, REST", "GET", `/api/cards/${this.card}/details`, { headers: this.session });
    await this.rpc("no limits", "CardService/GetCardLimits", card, this.session);
    const limits = { perTransactionUsdCents: 2000, perMonthUsdCents: 10000, blockedCategories: ["7995"] };
    await this.rpc("limits set", "CardService/SetCardLimits", { ...card, ...limits }, this.session);
    const path = `/api/cards/${this.card}/limits`;
    await this.call("limits, REST", "GET", path, { headers: this.session });
    const both = { allowedCategories: ["5411"], blockedCategories: ["7995"] };
    await this.rpc("limits that exclude each other", "CardService/SetCardLimits", { ...card, ...both }, this.session);
    await this.call("limits taken away, REST", "PUT", path, { body: {}, headers: this.session });
    await this.freeze(card);
    await this.call("freeze again, REST", "POST", `/api/cards/${this.card}/freeze`, { headers: this.session });
    await this.rpc("balance of a frozen card", "CardService/GetCardBalance", card, this.session);
    const amountUsdCents = 2500;
    await this.rpc("opened top-up of a frozen card", "OrderService/CreateOrder", { amountUsdCents }, this.session);
    const body = { amountUsdCents, idempotencyKey: "journey-frozen" };
    const { response } = await this.call("top-up of a frozen card, unpaid", "POST", "/api/card/topup", { body });
    const payment = await this.sign(decode(response.headers.get("payment-required")));
    const headers = { "payment-signature": payment };
    await this.call("top-up of a frozen card, paid", "POST", "/api/card/topup", { body, headers });
    await this.rpc("unfreeze", "CardService/UnfreezeCard", card, this.session);
    await this.call("unfreeze again, REST", "POST", `/api/cards/${this.card}/unfreeze`, { headers: this.session });
    const other = { id: crypto.randomUUID() };
    await this.rpc("freeze of another card", "CardService/FreezeCard", other, this.session);
    await this.rpc("details of another card", "CardService/GetCardDetails", other, this.session);
    await this.rpc("limits of another card", "CardService/GetCardLimits", other, this.session);
    await this.rpc("transactions of another card", "CardService/ListCardTransactions", other, this.session);
  }

  // freeze waits until the card's fee is withdrawn, which takes the real service a moment.
  async freeze(card) {
    for (;;) {
      const { json } = await this.rpc("freeze", "CardService/FreezeCard", card, this.session);
      if (json.card || !json.details?.some((d) => d.debug?.code === "card_not_active")) return;
      await new Promise((done) => setTimeout(done, 200));
    }
  }

  // issued waits for a card, which takes the real service a moment.
  async issued(orderId) {
    for (;;) {
      const { json } = await this.rpc("order", "OrderService/GetOrder", { orderId }, this.session);
      if (["fulfilled", "operator_review"].includes(json.order.status)) return json.order.issuance.cardId;
      await new Promise((done) => setTimeout(done, 200));
    }
  }

  async buyEsim() {
    const order = await this.pay("eSIM, REST", "/api/esim/purchase", {
      planId: this.plan.planId,
      idempotencyKey: "journey-esim",
    });
    const token = { "x-esim-delivery-token": order.delivery.token };
    await this.rpc("eSIM order", "EsimService/GetEsimOrder", { orderId: order.orderId }, token);
    await this.rpc("eSIM credentials", "EsimService/GetEsimCredentials", { orderId: order.orderId }, this.session);
    await this.rpc("eSIM profile", "EsimService/GetEsimProfile", { orderId: order.orderId }, token);
    await this.call("eSIM profile, REST", "GET", `/api/esim/orders/${order.orderId}/profile`, { headers: token });
    await this.rpc("cancel of another eSIM", "EsimService/CancelEsim", { orderId: "ord_other" }, this.session);
    await this.call("cancel of an eSIM by its token, REST", "POST", `/api/esim/orders/${order.orderId}/cancel`, {
      headers: token,
    });
    await this.rpc("cancel of an eSIM", "EsimService/CancelEsim", { orderId: order.orderId }, this.session);
    await this.topEsimUp(order.orderId);
  }

  async topEsimUp(cancelled) {
    const { planId } = this.plan;
    const wanted = { planId, idempotencyKey: "journey-more" };
    const { orderId } = await this.pay("eSIM to top up", "/api/esim/purchase", wanted);
    const at = `/api/esim/orders/${orderId}`;
    await this.rpc("top-ups of an eSIM", "EsimService/ListEsimTopups", { orderId }, this.session);
    await this.call("top-ups of an eSIM, REST", "GET", `${at}/topups`, { headers: this.session });
    await this.pay("top-up of an eSIM, REST", `${at}/topup`, { idempotencyKey: "journey-esim-topup" });
    await this.rpc("profile of a topped-up eSIM", "EsimService/GetEsimProfile", { orderId }, this.session);
    await this.rpc("cancel of a topped-up eSIM", "EsimService/CancelEsim", { orderId }, this.session);
    const more = { idempotencyKey: "journey-no-topup" };
    await this.rpc("top-up of a cancelled eSIM", "EsimService/TopUpEsim", { ...more, orderId: cancelled });
    await this.rpc("top-up of another eSIM", "EsimService/TopUpEsim", { ...more, orderId: "ord_other" });
  }

  async openAndPay() {
    const key = (name) => ({ ...this.session, "idempotency-key": `journey-${name}` });
    const { json: topUp } = await this.rpc(
      "opened top-up",
      "OrderService/CreateOrder",
      { amountUsdCents: 2500 },
      key("open-topup"),
    );
    await this.pay("pay", `/pay/${topUp.order.orderId}`, undefined);
    const { json: esim } = await this.rpc(
      "opened eSIM",
      "EsimService/CreateEsimOrder",
      { planId: this.plan.planId },
      key("open-esim"),
    );
    await this.rpc("unpaid order", "OrderService/GetOrder", { orderId: esim.order.orderId }, this.session);
    await this.rpc("pay, Connect, unpaid", "OrderService/PayOrder", { orderId: esim.order.orderId });
    await this.rpc("orders", "OrderService/ListOrders", {}, this.session);
  }

  async beRefused() {
    await this.rpc("unknown order", "OrderService/GetOrder", { orderId: "ord_unknown" }, this.session);
    await this.rpc("no session", "OrderService/ListOrders", {});
    await this.rpc("second card", "CardService/PurchaseCard", { idempotencyKey: "journey-second" });
    const { response } = await this.call("eSIM to refuse, unpaid", "POST", "/api/esim/purchase", {
      body: { planId: this.plan.planId, idempotencyKey: "journey-bad" },
    });
    const terms = decode(response.headers.get("payment-required"));
    const body = { planId: this.plan.planId, idempotencyKey: "journey-bad" };
    const refused = async (name, payment) =>
      this.call(name, "POST", "/api/esim/purchase", { body, headers: { "payment-signature": payment } });
    await refused("payment of less", await this.sign(terms, { value: "1" }));
    await refused("payment that is over", await this.sign(terms, { validBefore: "1700000000" }));
    await refused("payment of nonsense", "%%%");
    await this.rpc("session's end", "AuthService/Logout", {}, this.session);
    await this.rpc("session that ended", "OrderService/ListOrders", {}, this.session);
  }
}

// problemIn is what tells refusals apart.
function problemIn(json) {
  const told = json?.details?.[0]?.debug ?? json;
  return typeof told?.code === "string" && { code: told.code };
}

// offered leaves out what is for crawlers, which no client reads.
function offered(header) {
  const { extensions: _, ...read } = decode(header);
  return read;
}

/** The members of a value with their types; lists by their first item. */
function shapeOf(value) {
  if (Array.isArray(value)) return value.length > 0 ? [shapeOf(value[0])] : [];
  if (value === null || typeof value !== "object") return typeof value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, shapeOf(value[name])]));
}

function decode(header) {
  return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const shapes = Object.entries(await walk(process.argv[2], process.argv[3]));
  console.log(
    `{\n${shapes.map(([call, shape]) => `${JSON.stringify(call)}: ${JSON.stringify(shape)}`).join(",\n")}\n}`,
  );
}
