// Builds the site into bin/docs/VERSION, and tells the others in bin/docs of it.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { build } from "vitepress";
import { explorer, openapi, pages, root, site, stage, version } from "./pages.mjs";

const here = join(root, "tools/site");
const served = join(root, "internal/transport/discovery");

// Pages are laid out as the site has them, next to what is served as it is.
rmSync(join(stage, "pages"), { recursive: true, force: true });
const put = (name, text) => {
  const file = join(stage, "pages", name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
};
for (const { source, target } of pages) put(target, readFileSync(join(root, source)));
put("public/openapi.json", readFileSync(join(root, openapi)));
put("public/favicon.svg", readFileSync(join(served, "files/favicon.svg")));
put(`public${dirname(explorer)}/scalar.js`, gunzipSync(readFileSync(join(served, "docs/scalar.js.gz"))));
const shown = join(stage, "pages/public");
cpSync(join(here, "explorer"), join(shown, dirname(explorer)), { recursive: true });
const unmapped = { recursive: true, filter: (file) => !file.endsWith(".map") };
for (const part of ["mermaid.esm.min.mjs", "chunks/mermaid.esm.min"]) {
  cpSync(join(here, "node_modules/mermaid/dist", part), join(shown, "mermaid", part), unmapped);
}

rmSync(join(site, version), { recursive: true, force: true });
await build(here);

// Releases stay; of what is built between them, the last stays.
const release = (name) => /^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.\d]*)?$/.test(name);
const numbers = (name) => name.match(/\d+/g).slice(0, 3).map(Number);
const later = (a, b) => {
  const [one, two] = [numbers(a), numbers(b)];
  const at = one.findIndex((n, i) => n !== two[i]);
  return at < 0 ? b.localeCompare(a, "en", { numeric: true }) : two[at] - one[at];
};
const built = readdirSync(site).filter((name) => existsSync(join(site, name, "index.html")));
const between = release(version) ? built.filter((name) => !release(name)) : [version];
for (const name of built) {
  if (!release(name) && !between.includes(name)) rmSync(join(site, name), { recursive: true });
}
const final = (name) => !name.includes("-");
const releases = built.filter(release).sort((a, b) => final(b) - final(a) || later(a, b));
const versions = [...releases, ...between].map((name) => ({ version: name, release: release(name) }));
writeFileSync(join(site, "versions.json"), JSON.stringify(versions, null, 2) + "\n");
const newest = `./${versions[0].version}/index.html`;
writeFileSync(
  join(site, "index.html"),
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=${newest}">
<title>roamcard</title>
</head>
<body><a href="${newest}">The documentation of roamcard</a></body>
</html>
`,
);
