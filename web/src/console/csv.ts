// Tables as RFC 4180 has them, which no spreadsheet runs.

// formula is how a text begins that a spreadsheet runs, as the command's export has it: some skip what is not seen in
// front, and read wide signs as others. A tab or a line's end in front may leave the rest to a cell of its own.
const formula = /^[\p{Z}\p{C}]*(?:[\t\r\n]|[=+\-@\uFF1D\uFF0B\uFF0D\uFF20])/u;

function cellOf(text: string): string {
  const inert = formula.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

/** Rows of some columns, with their names in front. */
export function csvOf<Name extends string>(columns: readonly Name[], rows: { [name in Name]?: string }[]): string {
  const cells = rows.map((row) => columns.map((name) => cellOf(row[name] ?? "")));
  return [columns, ...cells].map((row) => `${row.join(",")}\r\n`).join("");
}
