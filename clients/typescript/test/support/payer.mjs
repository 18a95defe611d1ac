// The official x402 client, set up as a buyer of cards would set it up.
import assert from "node:assert/strict";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { x402Client, x402HTTPClient } from "@x402/fetch";

export const network = "eip155:8453";

/** The official client for a wallet. Its own cap is $1, so that a card has to be allowed. */
export function payerClient(account, maxAmountPerPayment = "$25") {
  return x402Client.fromConfig({
    schemes: [{ network, client: new ExactEvmScheme(account) }],
    ...(maxAmountPerPayment && { spendControls: { maxAmountPerPayment } }),
  });
}

/** The terms of a 402 answer, as the official client reads them. */
export function termsOf(response) {
  assert.equal(response.status, 402);
  return new x402HTTPClient(new x402Client()).getPaymentRequiredResponse((name) => response.headers.get(name));
}

/** A signed payment for the terms. */
export function signPayment(account, terms, maxAmountPerPayment) {
  return payerClient(account, maxAmountPerPayment).createPaymentPayload(terms);
}

/** The PAYMENT-SIGNATURE header of a payment. */
export function headerOf(payment) {
  return new x402HTTPClient(new x402Client()).encodePaymentSignatureHeader(payment)["PAYMENT-SIGNATURE"];
}

/** The content of an answer's PAYMENT-RESPONSE, as the official client reads it. */
export function receiptOf(response) {
  return new x402HTTPClient(new x402Client()).getPaymentSettleResponse((name) => response.headers.get(name));
}

/** How an answer says that a payment settled: its PAYMENT-RESPONSE without the receipt, which comes with the goods. */
export function settlementOf(response) {
  const { extensions: _, ...settlement } = receiptOf(response);
  return settlement;
}

/** Signs an EIP-3009 authorization that may differ from what the official client would sign. */
export async function signAuthorization(account, terms, changes = {}, domain = {}) {
  const [offer] = terms.accepts;
  const authorization = {
    from: account.address,
    to: offer.payTo,
    value: offer.amount,
    validAfter: "0",
    validBefore: String(Math.floor(Date.now() / 1000) + offer.maxTimeoutSeconds),
    nonce: randomNonce(),
    ...changes,
  };
  const signature = await account.signTypedData({
    domain: {
      name: offer.extra.name, version: offer.extra.version, chainId: 8453, verifyingContract: offer.asset, ...domain,
    },
    types: {
      TransferWithAuthorization: [
        { name: "from", type: "address" },
        { name: "to", type: "address" },
        { name: "value", type: "uint256" },
        { name: "validAfter", type: "uint256" },
        { name: "validBefore", type: "uint256" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "TransferWithAuthorization",
    message: {
      ...authorization,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
    },
  });
  return { x402Version: 2, resource: terms.resource, accepted: offer, payload: { signature, authorization } };
}

function randomNonce() {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
}
