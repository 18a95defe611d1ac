// The snippets of READMEs: held to the strict compiler, and made to run.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** What the compiler has to say about files of a folder: lines with "error TS". */
export function tsc(folder, ...args) {
  const command = [join(root, "node_modules/typescript/bin/tsc"), "--ignoreConfig", "--pretty", "false", ...args];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, command, { cwd: folder }, (error, stdout) => {
      const told = stdout.split("\n").filter((line) => line.includes("error TS"));
      if (error && told.length === 0) reject(error);
      else resolve(told);
    });
  });
}

/** The snippets of a file in a language. */
export async function snippetsOf(file, language) {
  const text = await readFile(file, "utf8");
  return [...text.matchAll(/```(\w+)\n([\s\S]*?)```/g)].filter(([, of]) => of === language).map(([, , code]) => code);
}

/** Snippets as modules of a folder that has this package next to it, for as long as they are used. */
export async function asModules(snippets, use) {
  const folder = await mkdtemp(join(root, "dist", "snippets-"));
  const names = snippets.map((_, i) => `${i + 1}.mts`);
  try {
    await Promise.all(names.map((name, i) => writeFile(join(folder, name), `${snippets[i]}\nexport {};\n`)));
    return await use(folder, names);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** What `tsc --strict` says against snippets, each a module that has this package next to it. */
export function complaints(snippets) {
  return asModules(snippets, async (folder, names) => {
    const told = await tsc(
      folder, "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--types", "node", "--lib",
      "es2023,dom,dom.iterable", "--skipLibCheck", ...names,
    );
    return told.map((line) => line.replace(/^(\d+)\.mts\((\d+),\d+\): error TS\d+/, "snippet $1, line $2"));
  });
}

/**
 * Runs a file in a folder that has nothing but it and the packages: no package.json says what kind of module it is, so
 * its name alone does. Returns what it prints.
 */
export async function runAlone(name, code, env) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-alone-"));
  try {
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, name), code);
    await tsc(folder, "--noCheck", "--noResolve", "--noLib", "--target", "es2022", "--module", "nodenext", name);
    const program = name.replace(/ts$/, "js");
    return await new Promise((resolve, reject) => {
      execFile(process.execPath, [program], { cwd: folder, env: { ...process.env, ...env } }, (error, stdout) =>
        error ? reject(error) : resolve(stdout),
      );
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Snippets without their types, as Node runs them. */
export function runnable(snippets) {
  return asModules(snippets, async (folder, names) => {
    await tsc(folder, "--noCheck", "--noResolve", "--noLib", "--target", "es2022", "--module", "esnext", ...names);
    return Promise.all(names.map((name) => readFile(join(folder, name.replace(".mts", ".mjs")), "utf8")));
  });
}
