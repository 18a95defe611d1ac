// The operators' console is built by itself: its origin has nothing of the other pages', and theirs nothing of it.
import { fileURLToPath } from "node:url";
import { defineConfig, mergeConfig } from "vite";
import pages from "./vite.config.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const { rolldownOptions, ...build } = pages.build;

export default mergeConfig(
  { ...pages, build },
  defineConfig({
    build: {
      outDir: at("../internal/transport/web/dist/console"),
      rolldownOptions: { ...rolldownOptions, input: { console: at("console.html") } },
    },
  }),
);
