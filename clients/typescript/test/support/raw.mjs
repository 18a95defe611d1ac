// Requests that fetch would not send: doubled headers, bytes that are no text, methods it forbids.
import { request } from "node:http";

/** Sends a request as it is and resolves with status, headers, content type and text of the answer. */
export function send(baseUrl, { method = "POST", path, headers = {}, body }) {
  return new Promise((settle, fail) => {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const length = bytes ? { "content-length": bytes.length } : {};
    const call = request(baseUrl, { method, path, headers: { ...length, ...headers }, agent: false }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part)).on("error", fail).on("end", () => settle({
        status: response.statusCode, headers: response.headers, type: response.headers["content-type"] ?? null,
        text: Buffer.concat(parts).toString("utf8"),
      }));
    });
    call.on("error", fail).setTimeout(300_000, () => call.destroy(new Error("no answer within 300 s")));
    call.end(bytes);
  });
}
