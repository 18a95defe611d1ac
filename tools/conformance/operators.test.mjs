// Operators sign in with an OpenID Connect issuer that is not ours: oidc-provider, on loopback. ROAMCARD_BIN is the
// program.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import Provider from "oidc-provider";

const audience = "roamcard";
const clients = { carol: "treasurer", vic: "viewer", mallory: "nothing here" };
const folder = mkdtempSync(join(tmpdir(), "roamcard-operators-"));
const issuers = [];
let program, api, issuer;

// provide starts an issuer whose clients get JSON web tokens for an audience, each with its group.
async function provide() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    clients: Object.keys(clients).map((id) => ({
      client_id: id, client_secret: `the secret of ${id}`, grant_types: ["client_credentials"], redirect_uris: [],
      response_types: [],
    })),
    scopes: ["operate"],
    extraTokenClaims: (_, token) => ({ sub: token.clientId, groups: [clients[token.clientId]] }),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          scope: "operate", accessTokenFormat: "jwt", accessTokenTTL: 300, audience: resource.slice("urn:".length),
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  issuers.push(server);
  return { url, server };
}

// token is what an issuer gives a client for an audience.
async function token(url, id, of = audience) {
  const res = await fetch(`${url}/token`, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${id}:${encodeURIComponent(`the secret of ${id}`)}`)}` },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: "operate", resource: `urn:${of}` }),
  });
  const body = await res.json();
  assert.equal(res.status, 200, JSON.stringify(body));
  return body.access_token;
}

// ask makes an operator's call.
async function ask(bearer, path, body) {
  const res = await fetch(api + path, {
    method: body ? "POST" : "GET",
    headers: {
      authorization: `Bearer ${bearer}`,
      ...(body && { "content-type": "application/json", "idempotency-key": crypto.randomUUID() }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: res.status, ...(await res.json()) };
}

before(async () => {
  issuer = await provide();
  const ready = join(folder, "ready.json");
  program = spawn(
    process.env.ROAMCARD_BIN,
    ["dev", "--addr", "127.0.0.1:0", "--ready-file", ready, "--oidc-issuer", issuer.url],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  while (!existsSync(ready)) {
    assert.equal(program.exitCode, null, "the development server ended");
    await pause(100);
  }
  api = JSON.parse(readFileSync(ready, "utf8")).baseUrl;
});

after(async () => {
  for (const server of issuers) {
    server.close();
    server.closeAllConnections();
  }
  if (program && program.exitCode === null) {
    program.kill();
    await once(program, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

test("a token of the issuer names the operator, the role and the end", async () => {
  const me = await ask(await token(issuer.url, "carol"), "/api/admin/whoami");
  assert.equal(me.status, 200);
  assert.match(me.operator, /^carol~[a-z2-7]{16}$/, "the issuer's name, and which issuer it is of");
  assert.deepEqual([me.role, me.source], ["treasurer", "issuer"]);
  const left = new Date(me.expiresAt) - Date.now();
  assert.ok(left > 0 && left <= 300_000, `it ends in ${left} ms`);
});

test("the role is what the issuer says", async () => {
  const vic = await token(issuer.url, "vic");
  assert.equal((await ask(vic, "/api/admin/orders")).status, 200);
  const refused = await ask(vic, "/api/admin/switches/esim", { paused: true, reason: "drill" });
  assert.deepEqual([refused.status, refused.code], [403, "operator_role_missing"]);
  const stranger = await ask(await token(issuer.url, "mallory"), "/api/admin/whoami");
  assert.deepEqual([stranger.status, stranger.code], [403, "operator_role_missing"]);
});

test("a token for another audience, of another issuer or with other claims is none", async () => {
  const good = await token(issuer.url, "vic");
  const [header, payload, signature] = good.split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url"));
  const forged = Buffer.from(JSON.stringify({ ...claims, groups: ["admin"] })).toString("base64url");
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  const other = await provide();
  for (const [what, bearer] of Object.entries({
    "another audience": await token(issuer.url, "vic", "elsewhere"),
    "another issuer": await token(other.url, "vic"),
    "other claims": `${header}.${forged}.${signature}`,
    "no algorithm": `${none}.${payload}.`,
  })) {
    const res = await ask(bearer, "/api/admin/whoami");
    assert.deepEqual([res.status, res.code], [401, "operator_token_invalid"], what);
  }
});

test("while the issuer is down, its keys still hold and nothing else suffers", async () => {
  const vic = await token(issuer.url, "vic");
  issuer.server.close();
  issuer.server.closeAllConnections();
  assert.equal((await ask(vic, "/api/admin/whoami")).status, 200);
  const dev = JSON.parse(readFileSync(join(folder, "ready.json"), "utf8")).operatorToken;
  assert.equal((await ask(dev, "/api/admin/whoami")).status, 200);
});
