// A person at a browser, for the pages of a pagePresenter.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { fileURLToPath } from "node:url";

/** What a browser shows in the end. */
export interface Seen {
  url: string;
  html: string;
}

/**
 * Opens the address that a pagePresenter gives, as a browser does, and presses the buttons that it finds. It is a
 * presenter's `open` for tests: `pagePresenter({ open: look })`.
 */
export async function look(url: string): Promise<Seen> {
  let seen: Seen = { url, html: await readFile(fileURLToPath(url), "utf8") };
  const jar: { cookie?: string } = {};
  for (let left = 4; left > 0; left--) {
    // The file, the page of this machine, and one of the service's.
    const form = /<form method="post"(?: action="([^"]*)")?>(.*?)<\/form>/s.exec(seen.html);
    if (!form) return seen;
    seen = await press(seen, form[1] ?? "", form[2] ?? "", jar);
  }
  throw new Error("the buttons do not end");
}

async function press(page: Seen, action: string, content: string, jar: { cookie?: string }): Promise<Seen> {
  const values = new URLSearchParams();
  for (const [, name, value] of content.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g))
    values.set(String(name), String(value));
  const from = new URL(page.url);
  const local = from.protocol === "file:";
  const headers: Record<string, string> = {
    origin: local ? "null" : from.origin,
    "sec-fetch-site": local ? "cross-site" : "same-origin",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    ...(jar.cookie !== undefined && { cookie: jar.cookie }),
  };
  const answer = await send(new URL(action, from), "POST", headers, values.toString());
  if (answer.cookie !== undefined) jar.cookie = answer.cookie;
  return { url: answer.url, html: answer.html };
}

// send is no fetch, which says for itself that it is a script.
async function send(
  url: URL,
  method: string,
  headers: Record<string, string>,
  body: string,
): Promise<Seen & { cookie?: string | undefined }> {
  const secure = url.protocol === "https:";
  const asked = (secure ? httpsRequest : httpRequest)(url, {
    method,
    headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
  });
  asked.end(body);
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  let html = "";
  for await (const chunk of answer.setEncoding("utf8")) html += String(chunk);
  if (answer.statusCode === 303) return send(new URL(answer.headers.location ?? "", url), "GET", headers, "");
  if (answer.statusCode !== 200) throw new Error(`the page answers ${answer.statusCode}`);
  return { url: url.href, html, cookie: answer.headers["set-cookie"]?.[0]?.split(";")[0] };
}
