import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

// The TypeScript client, by the names that its package has.
const client = {
  "roamcard/browser": at("../clients/typescript/src/browser/index.ts"),
  roamcard: at("../clients/typescript/src/index.ts"),
};

export default defineConfig({
  root: at("."),
  base: "/ui/",
  publicDir: false,
  resolve: { alias: client },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: at("../internal/transport/web/dist"),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    // What the document names is loaded at once; a part that comes later needs no list of what it needs.
    modulePreload: { polyfill: false, resolveDependencies: (_, all, { hostType }) => (hostType === "html" ? all : []) },
    reportCompressedSize: false,
    rolldownOptions: {
      // Named by a library for Node; browsers have their own.
      external: ["crypto"],
      input: { pay: at("pay.html"), shop: at("shop.html") },
      // Reading a member of a generated descriptor does nothing.
      treeshake: { propertyReadSideEffects: false },
    },
  },
});
