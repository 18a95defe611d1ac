// Buys with the official x402 client what standard input lists, some at a time, and writes what came of each:
//   {"baseUrl", "purchases": [{"privateKey", "path", "body"}]}  ->  [{"status", "body", "receipt"}]
import { text } from "node:stream/consumers";
import { wrapFetchWithPayment } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { post } from "./api.mjs";
import { payerClient } from "./payer.mjs";

const atOnce = 5;
const { baseUrl, purchases } = JSON.parse(await text(process.stdin));
const answers = [];
let next = 0;

async function buy({ privateKey, path, body }) {
  const paid = wrapFetchWithPayment(fetch, payerClient(privateKeyToAccount(privateKey), "$250"));
  try {
    const response = await post(baseUrl, path, body, {}, paid);
    return { status: response.status, body: await response.text(), receipt: response.headers.get("payment-response") };
  } catch (error) {
    return { status: 0, body: String(error), receipt: null };
  }
}

async function work() {
  while (next < purchases.length) {
    const i = next++;
    answers[i] = await buy(purchases[i]);
  }
}

await Promise.all(Array.from({ length: atOnce }, work));
console.log(JSON.stringify(answers));
