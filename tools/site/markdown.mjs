// Markdown as a code host shows it: no syntax of VitePress, no templates, comments unseen.
import { address, base, pageAt, resolve } from "./pages.mjs";

export const slugify = (text) =>
  text.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N} _-]/gu, "").replaceAll(" ", "-");

function commentBlock(state, start, end, silent) {
  const from = state.bMarks[start] + state.tShift[start];
  if (state.sCount[start] - state.blkIndent >= 4 || !state.src.startsWith("<!--", from)) return false;
  const close = state.src.indexOf("-->", from + 4);
  if (close < 0) return false;
  let line = start;
  while (line < end && state.eMarks[line] < close) line++;
  if (line >= end || state.src.slice(close + 3, state.eMarks[line]).trim()) return false;
  if (!silent) state.line = line + 1;
  return true;
}

function commentInline(state) {
  if (!state.src.startsWith("<!--", state.pos)) return false;
  const close = state.src.indexOf("-->", state.pos + 4);
  if (close < 0) return false;
  state.pos = close + 3;
  return true;
}

// Links of the source become links of the site. What has no public address stays as text.
function links(state) {
  const page = pageAt(state.env.relativePath);
  if (!page) return;
  for (const block of state.tokens) {
    const gone = [];
    for (const token of block.children ?? []) {
      if (token.type === "link_close" && gone.length && gone.pop()) token.hidden = true;
      if (token.type !== "link_open") continue;
      const href = token.attrGet("href");
      const own = !/^([a-z][a-z+.-]*:|\/\/)/i.test(href);
      const to = own ? resolve(page.source, href) : href;
      gone.push(!to);
      if (to) token.attrSet("href", to);
      else token.hidden = true;
      if (to !== "/openapi.json") continue;
      token.attrSet("href", base + to.slice(1));
      token.attrSet("target", "_self");
    }
    block.children = block.children?.filter((token) => !token.hidden) ?? block.children;
  }
}

export const markdown = {
  html: false,
  linkify: false,
  attrs: { disable: true },
  languageAlias: { golang: "go" },
  anchor: { slugify },
  theme: { light: "github-light-high-contrast", dark: "github-dark" },
  config(md) {
    md.disable(["emoji", "snippet", "toc"].filter((rule) => ruled(md, rule)), true);
    for (const name of Object.keys(md.renderer.rules)) {
      if (/^container_/.test(name)) md.block.ruler.disable(name.replace(/_(open|close)$/, ""), true);
    }
    const alt = ["paragraph", "reference", "blockquote", "list", "table"];
    md.block.ruler.before("table", "comment", commentBlock, { alt });
    md.inline.ruler.before("html_inline", "comment", commentInline);
    md.disable(["html_inline", "html_block"]);
    md.core.ruler.push("site_links", links);
    const { text, fence, code_inline: code } = md.renderer.rules;
    md.renderer.rules.code_inline = (tokens, idx, ...rest) => {
      tokens[idx].attrSet("v-pre", "");
      return code(tokens, idx, ...rest);
    };
    md.renderer.rules.text = (...args) => text(...args).replaceAll("{{", "&#123;&#123;");
    // A line break between two elements would be taken away with what it separates.
    md.renderer.rules.softbreak = () => " ";
    md.renderer.rules.fence = (tokens, idx, options, env, self) => {
      const { info, content } = tokens[idx];
      if (info.trim() !== "mermaid") return fence(tokens, idx, options, env, self);
      return `<Mermaid code="${encodeURIComponent(content)}" />\n`;
    };
  },
};

const ruled = (md, name) =>
  [md.core, md.block, md.inline].some(({ ruler }) => ruler.__find__(name) >= 0);

export const ofPage = (relativePath) => {
  const page = pageAt(relativePath);
  return page && { ...page, address: address(page) };
};
