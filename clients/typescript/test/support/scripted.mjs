// A service that answers what a test tells it to, one answer after the other, and the last one from then on.
import { createServer } from "node:http";
import { create, toBinary } from "@bufbuild/protobuf";
import { ProblemSchema } from "roamcard/proto";
import { once } from "node:events";

/** An answer in JSON. */
export const answer = (body, status = 200, headers = {}) => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

/** A failure as the service tells it over the Connect protocol. */
export function problem(fields, headers) {
  const debug = { title: "Not now", detail: "not now", ...fields };
  return answer(
    {
      code: "unavailable",
      message: debug.detail,
      details: [{ type: "roamcard.v1.Problem", value: problemBytes(debug), debug }],
    },
    fields.status,
    headers,
  );
}

/** Starts it. An answer of "reset" resets the connection, one with `cut` does so in the middle of the answer. */
export async function scripted(t, ...answers) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join("");
    requests.push({ path: request.url, headers: request.headers, body });
    const next = answers.length > 1 ? answers.shift() : answers[0];
    if (next === "reset") return request.socket.resetAndDestroy();
    if (next === "silence") return undefined;
    response.writeHead(next.status, next.headers);
    if (!next.cut) return response.end(next.body);
    response.write(next.body.slice(0, next.cut), () => request.socket.resetAndDestroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => (server.close(), server.closeAllConnections()));
  return { baseUrl: `http://127.0.0.1:${server.address().port}`, requests };
}

function problemBytes(fields) {
  return Buffer.from(toBinary(ProblemSchema, create(ProblemSchema, fields)))
    .toString("base64")
    .replace(/=+$/, "");
}
