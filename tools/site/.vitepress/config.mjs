import { join, relative } from "node:path";
import { markdown, ofPage } from "../markdown.mjs";
import { base, blob, repository, root, sidebar, site, stage, version } from "../pages.mjs";

const here = join(root, "tools/site");
const policy =
  "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'";

export default {
  lang: "en",
  title: "roamcard",
  titleTemplate: ":title · roamcard",
  description: "Virtual cards and travel eSIMs for wallets, paid with USDC over HTTP.",
  base,
  srcDir: relative(here, join(stage, "pages")),
  outDir: join(site, version),
  cacheDir: join(stage, "cache"),
  metaChunk: true,
  head: [
    ["meta", { "http-equiv": "Content-Security-Policy", content: policy }],
    ["link", { rel: "icon", href: `${base}favicon.svg`, type: "image/svg+xml" }],
    ["meta", { name: "theme-color", content: "#2f4bff" }],
  ],
  markdown,
  transformPageData(data) {
    const page = ofPage(data.relativePath);
    if (!page) return;
    const { title, description, source } = page;
    return { title, description, filePath: source, ...(source === "README.md" && { titleTemplate: false }) };
  },
  themeConfig: {
    logo: { src: "/favicon.svg", alt: "" },
    nav: [
      { text: "API", link: "/api/", activeMatch: "^/api/" },
      { text: "Explorer", link: "/explorer/index.html", target: "_self" },
      { component: "VersionMenu" },
    ],
    sidebar: sidebar(),
    outline: { level: [2, 3] },
    search: { provider: "local", options: { detailedView: true } },
    externalLinkIcon: true,
    version,
    ...(blob && { editLink: { pattern: `${blob}:path`, text: "Source of this page" } }),
    ...(repository && { socialLinks: [{ icon: "github", link: repository, ariaLabel: "Source" }] }),
  },
  vite: {
    logLevel: "warn",
    build: { chunkSizeWarningLimit: 5000, reportCompressedSize: false },
  },
};
