// The snippets of READMEs: held to the strict compiler, and made to run.
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import ts from "typescript";

const dist = join(import.meta.dirname, "../../dist");
const options = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  types: ["node"],
  skipLibCheck: true,
};

/** The snippets of a file in a language. */
export async function snippetsOf(file, language) {
  const text = await readFile(file, "utf8");
  return [...text.matchAll(/```(\w+)\n([\s\S]*?)```/g)].filter(([, of]) => of === language).map(([, , code]) => code);
}

/** What `tsc --strict` says against snippets, each a module that has this package next to it. */
export async function complaints(snippets) {
  const files = snippets.map((_, i) => join(dist, `strict-${process.pid}-${i}.ts`));
  try {
    await Promise.all(files.map((file, i) => writeFile(file, `${snippets[i]}\nexport {};\n`)));
    return ts.getPreEmitDiagnostics(ts.createProgram(files, options)).map((d) => {
      const line = d.file && d.start !== undefined ? d.file.getLineAndCharacterOfPosition(d.start).line : 0;
      const text = ts.flattenDiagnosticMessageText(d.messageText, "\n");
      return `snippet ${files.indexOf(d.file?.fileName) + 1}, line ${line + 1}: ${text}`;
    });
  } finally {
    await Promise.all(files.map((file) => rm(file, { force: true })));
  }
}

/** A snippet without its types, as Node runs it. */
export function runnable(code) {
  return ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } })
    .outputText;
}
