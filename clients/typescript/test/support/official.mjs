// Buys with the official x402 client what each line of standard input asks for, all of them at once, and writes what
// came of each as a line:
//   {"nth", "baseUrl", "privateKey", "path", "body", "timeoutMs"?}  ->  {"nth", "status", "body"}
// The status is 0 when no answer came, and the body then says why.
import { createInterface } from "node:readline";
import { wrapFetchWithPayment } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { post } from "./api.mjs";
import { payerClient } from "./payer.mjs";

async function buy({ baseUrl, privateKey, path, body, timeoutMs }) {
  const send = (request) => fetch(request, timeoutMs ? { signal: AbortSignal.timeout(timeoutMs) } : {});
  const paid = wrapFetchWithPayment(send, payerClient(privateKeyToAccount(privateKey), "$250"));
  try {
    const response = await post(baseUrl, path, body, {}, paid);
    return { status: response.status, body: await response.text() };
  } catch (error) {
    return { status: 0, body: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  buy(asked).then((answer) => console.log(JSON.stringify({ nth: asked.nth, ...answer })));
}
