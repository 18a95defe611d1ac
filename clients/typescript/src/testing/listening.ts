// Serves a fetch on a port of this machine.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Fetch } from "../rest.js";

/** A server on a free port of the loopback interface. */
export interface Listening {
  url: string;
  close(): Promise<void>;
}

/** Serves. `base` is what a path is put behind when the fetch is called. */
export async function listen(serve: Fetch, base?: string): Promise<Listening> {
  const server: Server = createServer((request, response) => {
    const at = base ?? `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // A fault ends the connection.
    pass(serve, at, request, response).catch(() => request.socket.resetAndDestroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

async function pass(serve: Fetch, base: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const own = ["host", "connection", "content-length", "transfer-encoding", "expect", "keep-alive"];
  const headers = Object.entries(request.headersDistinct).flatMap(([name, values]) =>
    own.includes(name) ? [] : values!.map((v): [string, string] => [name, v]),
  );
  const body = Buffer.concat(parts);
  const answer = await serve(base + request.url!, {
    method: request.method!,
    headers,
    redirect: "manual",
    ...(body.length > 0 && { body }),
  });
  const decoded = ["content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive"];
  response.writeHead(
    answer.status,
    Object.fromEntries([...answer.headers].filter(([name]) => !decoded.includes(name))),
  );
  response.flushHeaders();
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader!.read()) {
    if (!response.write(part.value)) await once(response, "drain");
  }
  response.end();
}
