// What the site is made of: pages, the chapter of each, and where links of the sources lead.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const site = join(root, "bin/docs");
export const stage = join(root, "tools/site/.stage");
export const explorer = "/explorer/index.html";
export const openapi = "gen/openapi/openapi.json";

export const version = process.env.VERSION || "dev";
if (!/^[\w][\w.+-]*$/.test(version)) throw new Error(`VERSION=${version} cannot name a folder`);
const prefix = process.env.DOCS_BASE || "/";
export const base = `${prefix.replace(/\/*$/, "/")}${version}/`;

// A name stands for the page, for the folder, and for pages whose names it begins: docs/scale for docs/scale.md,
// docs/scale/*.md and docs/scale-*.md. Where several fit, the longest counts. Chapters list pages in this order.
const chapters = [
  { of: ["README"] },
  { title: "For buyers and agents", of: ["docs/buying", "docs/agents", "docs/pages"] },
  { title: "For client developers", of: ["clients", "examples"] },
  {
    title: "For operators",
    of: [
      "docs/operations", "docs/configuration", "docs/providers", "docs/webhooks", "docs/screening", "docs/scale",
      "CHANGELOG",
    ],
  },
  {
    title: "Why it holds",
    of: [
      "docs/promises", "docs/payment-safety", "docs/ledger", "docs/fairness", "docs/threat-model",
      "docs/fault-matrix", "docs/performance",
    ],
  },
  { title: "For contributors", of: ["CONTRIBUTING", "docs/architecture", "SECURITY"] },
  { title: "API", of: ["docs/api"], more: [{ text: "API explorer", link: explorer, target: "_self" }] },
];

const read = (file) => readFileSync(join(root, file), "utf8");
const folders = (dir) =>
  existsSync(join(root, dir)) ? readdirSync(join(root, dir)).map((name) => `${dir}/${name}`) : [];

function sources() {
  const docs = readdirSync(join(root, "docs"), { recursive: true })
    .map((file) => `docs/${file.replaceAll("\\", "/")}`)
    .filter((file) => file.endsWith(".md"));
  const others = ["clients", "examples"];
  const readmes = [...others, ...others.flatMap(folders)].map((dir) => `${dir}/README.md`);
  return ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...docs, ...readmes]
    .filter((file) => existsSync(join(root, file)))
    .sort();
}

// The page's own name within the site: README is the index of its folder, and docs/ is not part of addresses.
function target(source) {
  const short = source.replace(/^docs\//, "");
  return short.replace(/[^/]+$/, (name) => (name === "README.md" ? "index.md" : name.toLowerCase()));
}

const prose = (text) => text.replace(/^(```|~~~)[^]*?^\1$/gm, "").replace(/<!--[^]*?-->/g, "");
const plain = (text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]|\\(?=\W)/g, "").trim();

function describe(source) {
  const text = prose(read(source));
  const title = text.match(/^# +(.+?) *#*$/m)?.[1];
  if (!title) throw new Error(`${source} has no heading to be called by`);
  const first = text.split(/\n{2,}/).find((block) => /^[A-Z`*[]/.test(block.trim()) && !/^\s*[-|>]/.test(block));
  const description = plain((first ?? title).replace(/\s+/g, " ")).replace(/[<>]/g, "");
  return { title: plain(title).replaceAll("</", ""), description: description.slice(0, 200).replace(/\s\S*$/, "") };
}

const fits = (source, name) =>
  source.startsWith(name) && (name.includes("/") ? /^(\.md$|[/-])/ : /^(\.md$|\/)/).test(source.slice(name.length));

function placed(source) {
  const found = chapters
    .flatMap((chapter) => chapter.of.map((name) => ({ chapter, name })))
    .filter(({ name }) => fits(source, name))
    .sort((a, b) => b.name.length - a.name.length)[0];
  if (!found) throw new Error(`${source} is in no chapter: add it to the chapters of tools/site/pages.mjs`);
  return found;
}

export const pages = sources().map((source) => ({
  source,
  target: target(source),
  diagrams: [...read(source).matchAll(/^```mermaid\n([^]*?)^```$/gm)].map(([, diagram]) => diagram),
  ...describe(source),
  ...placed(source),
}));
const bySource = new Map(pages.map((page) => [page.source, page]));
const byTarget = new Map(pages.map((page) => [page.target, page]));
if (byTarget.size !== pages.length) throw new Error("two pages have one address");
export const pageAt = (name) => byTarget.get(name);

export const address = (page) => `/${page.target.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, ".html")}`;

function git(...args) {
  try {
    return execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "";
  }
}

// The public repository, where go.mod names one, at the tag or the commit that is built.
const module = read("go.mod").match(/^module (\S+)/m)[1];
const ref = git("rev-parse", "-q", "--verify", `refs/tags/${version}`) ? version : git("rev-parse", "HEAD");
export const repository = /^github\.com\/[^/]+\/[^/]+$/.test(module) ? `https://${module}` : "";
export const blob = repository && ref ? `${repository}/blob/${ref}/` : "";
const tree = repository && ref ? `${repository}/tree/${ref}/` : "";

// Where a link of a source leads: to a page, to a file in the repository, or, undefined, nowhere that is public.
export function resolve(source, link) {
  const [, path, hash] = decodeURI(link).match(/^([^#?]*)[^#]*(#.*)?$/);
  if (!path) return link;
  const file = posix.join(path.startsWith("/") ? "" : posix.dirname(source), path).replace(/^\/|\/$/g, "") || ".";
  const page = bySource.get(file) ?? bySource.get(posix.join(file, "README.md"));
  if (page) return address(page) + (hash ?? "");
  if (file === openapi) return "/openapi.json";
  if (file.startsWith("..") || !existsSync(join(root, file))) {
    throw new Error(`${source}: the link to ${link} leads nowhere`);
  }
  const at = statSync(join(root, file)).isDirectory() ? tree : blob;
  return at ? at + encodeURI(file) + (hash ?? "") : undefined;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function entries(name) {
  const all = pages.filter((page) => page.name === name);
  const item = (page) => ({ text: escaped(page.title), link: address(page) });
  const order = (a, b) => a.title.localeCompare(b.title, "en", { numeric: true });
  const head = all.find((page) => page.source === `${name}.md` || page.source === `${name}/README.md`);
  const rest = all.filter((page) => page !== head).sort(order).map(item);
  return { head: head && item(head), rest };
}

export function sidebar() {
  return chapters.filter((chapter) => chapter.title).map(({ title, of, more = [] }) => {
    const flat = of.length === 1;
    const items = of.map(entries).flatMap(({ head, rest }) => {
      if (!head) return rest;
      if (flat) return [head, ...more, ...rest];
      return rest.length ? [{ ...head, collapsed: true, items: rest }] : [head];
    });
    return { text: title, collapsed: flat, items };
  });
}
