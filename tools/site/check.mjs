// Reads the site as it was built, and says what is broken in it: `N passed, N failed` is its last line.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import DOMPurify from "dompurify";
import { address, base, blob, pages, root, site, version } from "./pages.mjs";

let passed = 0;
const failures = [];
const check = (fine, what) => (fine ? passed++ : failures.push(what));
// Several faults of one kind at one place are one check that fails.
const none = (faults, where) => check(faults.length === 0, `${where}: ${[...new Set(faults)].join(", ")}`);

const out = join(site, version);
const files = readdirSync(out, { recursive: true })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => statSync(join(out, file)).isFile());
const has = new Set(files);
const read = (file) => readFileSync(join(out, file), "utf8");
const origin = "http://site.invalid";
const decoded = (text) =>
  text
    .replace(/&#x([0-9a-f]+);/gi, (_, n) => String.fromCodePoint(parseInt(n, 16)))
    .replace(/&#(\d+);/g, (_, n) => String.fromCodePoint(Number(n)))
    .replace(/&(amp|lt|gt|quot|apos);/g, (_, n) => ({ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" })[n]);

// parse returns the elements of a page, without those of its comments and scripts.
function parse(html) {
  const text = html.replace(/<!--[^]*?-->/g, "").replace(/(<script\b[^>]*>)[^]*?<\/script>/gi, "$1");
  return [...text.matchAll(/<([a-z][\w-]*)((?:\s+[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+))?)*)\s*\/?>/gi)].map(
    ([, tag, rest]) => {
      const attrs = {};
      for (const [, name, a, b, c] of rest.matchAll(/([^\s=>"'/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?/g)) {
        attrs[name.toLowerCase()] = decoded(a ?? b ?? c ?? "");
      }
      return { tag: tag.toLowerCase(), attrs };
    },
  );
}

const htmls = files.filter((file) => file.endsWith(".html"));
const elements = new Map(htmls.map((file) => [file, parse(read(file))]));
const ids = new Map([...elements].map(([file, all]) => [file, new Set(all.map(({ attrs }) => attrs.id))]));

// locate returns the file that an address on the site names, or undefined.
function locate(url) {
  if (!url.pathname.startsWith(base)) return undefined;
  const file = decodeURIComponent(url.pathname.slice(base.length));
  return [file, posix.join(file, "index.html")].find((name) => has.has(name));
}

const loading = new Set(["script", "link", "img", "iframe", "source", "video", "audio", "embed", "object", "track"]);
const styled = (css) =>
  [...css.matchAll(/url\(\s*(?:"([^"]*)"|'([^']*)'|([^)\s]*))\s*\)|@import\s+["']([^"']+)/g)]
    .map(([, ...found]) => found.find((one) => one !== undefined))
    .filter((one) => !/^(data:|#)/.test(one));

for (const [file, all] of elements) {
  const here = new URL(base + file, origin);
  const broken = [];
  const anchors = [];
  const foreign = [];
  const source = [];
  const follow = (link) => {
    const url = new URL(link, here);
    if (url.origin !== origin) return false;
    const at = locate(url);
    if (!at) broken.push(link);
    const anchor = decodeURIComponent(url.hash.slice(1));
    if (at && anchor && ids.has(at) && !ids.get(at).has(anchor)) anchors.push(link);
    return true;
  };
  for (const { tag, attrs } of all) {
    const links = [attrs.href, attrs.src, attrs.poster, attrs.data, attrs["xlink:href"]];
    for (const part of (attrs.srcset ?? "").split(",")) links.push(part.trim().split(/\s/)[0]);
    for (const link of links.filter(Boolean)) {
      if (/^(data|mailto):/.test(link)) continue;
      if (follow(link)) continue;
      if (loading.has(tag)) foreign.push(link);
      if (blob && link.startsWith(blob)) {
        const named = decodeURI(link.slice(blob.length)).replace(/#.*/, "");
        if (!existsSync(join(root, named))) source.push(link);
      }
    }
    for (const link of styled(attrs.style ?? "")) if (!follow(link)) foreign.push(link);
  }
  none(broken, `${file} links to what is not there`);
  none(anchors, `${file} links to anchors that are not there`);
  none(foreign, `${file} loads from elsewhere`);
  none(source, `${file} links to sources that are not there`);
  const text = read(file);
  check(/<title>[^<]*\S[^<]*<\/title>/.test(text), `${file} has no title`);
  check(/^[a-z]{2}\b/.test(all.find(({ tag }) => tag === "html")?.attrs.lang ?? ""), `${file} names no language`);
  const policy = all.find(({ attrs }) => attrs["http-equiv"] === "Content-Security-Policy")?.attrs.content ?? "";
  check(/default-src 'self'/.test(policy) && !/https?:|\*/.test(policy), `${file} may load from elsewhere`);
}

for (const file of files.filter((name) => name.endsWith(".css"))) {
  const urls = styled(read(file)).map((link) => [link, new URL(link, origin + base + file)]);
  none(urls.filter(([, url]) => url.origin !== origin || !locate(url)).map(([link]) => link), `${file} loads`);
}
for (const file of files.filter((name) => /\.m?js$/.test(name) && !name.endsWith("/scalar.js"))) {
  const imported = /\b(?:from|import)\s*\(?\s*["'`]((?:https?:)?\/\/[^"'`]+|\.{1,2}\/[^"'`$]+)["'`]/g;
  const found = [...read(file).matchAll(imported)]
    .map(([, link]) => [link, new URL(link, origin + base + file)])
    .filter(([, url]) => url.origin !== origin || !locate(url));
  none(found.map(([link]) => link), `${file} imports what is not there`);
}

// The index of the search has each page, and leads to headings that exist.
const index = files.filter((name) => /@localSearchIndex\w*\..*\.js$/.test(name));
check(index.length === 1, `${index.length} search indexes`);
for (const file of index) {
  const { default: packed } = await import(join(out, file));
  const found = Object.values(JSON.parse(packed).documentIds);
  const searched = new Set(found.map((id) => id.replace(/#.*/, "")));
  for (const page of pages) {
    const url = base.slice(0, -1) + address(page);
    const there = [url, url.replace(/\.html$/, ""), url.replace(/\/$/, "/index")].some((one) => searched.has(one));
    check(there, `the search does not know ${page.source}`);
  }
  const dead = found.filter((id) => {
    const url = new URL(id, origin);
    const at = locate(url) ?? locate(new URL(`${url.pathname}.html`, origin));
    return !at || (url.hash && !ids.get(at).has(decodeURIComponent(url.hash.slice(1))));
  });
  none(dead, "the search leads to what is not there");
}

// Mermaid is made for browsers; to be parsed, nothing has to be purified.
Object.assign(DOMPurify, { addHook: () => {}, sanitize: (text) => text });
const { default: mermaid } = await import("mermaid");
for (const { source, diagrams } of pages) {
  for (const diagram of diagrams) {
    const error = await mermaid.parse(diagram).then(() => "", (reason) => String(reason));
    check(!error, `${source} has a diagram that cannot be drawn: ${error}`);
  }
}

for (const page of pages) {
  check(has.has(page.target.replace(/\.md$/, ".html")), `${page.source} has not been built`);
}
const described = JSON.parse(read("openapi.json"));
check(Object.keys(described.paths).length > 0, "openapi.json has no path");

const versions = JSON.parse(readFileSync(join(site, "versions.json"), "utf8"));
check(versions.some((one) => one.version === version), "versions.json does not name what was built");
none(versions.filter((one) => !existsSync(join(site, one.version, "index.html"))).map((one) => one.version), "no site");
const first = readFileSync(join(site, "index.html"), "utf8").match(/url=\.\/([^"]+)"/)?.[1];
check(first && existsSync(join(site, first)), "the index leads nowhere");

for (const failure of failures) console.log(failure);
const size = files.reduce((sum, file) => sum + statSync(join(out, file)).size, 0);
console.log(`${pages.length} pages, ${(size / 1e6).toFixed(1)} MB, in bin/docs/${version}`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length ? 1 : 0;
