// Makes the pages of docs/api from the OpenAPI document, which is made from the protos: one for each service, one for
// the objects that several of them share, one for the problems, which the agents' contract lists.
//   node tools/api-pages.mjs gen/openapi/openapi.json internal/transport/discovery/testdata/api_agent docs/api
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [document, contract, folder] = process.argv.slice(2);
const api = JSON.parse(readFileSync(document, 'utf8'));
const schemas = api.components.schemas;
const mark = '<!-- Made by `make gen`. Edit the comments in proto/. -->\n\n';

const named = (ref) => ref.split('/').at(-1);
const deref = (object) => {
  const { $ref, ...own } = object;
  return $ref ? { ...$ref.slice(2).split('/').reduce((at, key) => at[key], api), ...own } : object;
};
const cell = (text) => (text ?? '').replace(/\s+/g, ' ').replaceAll('|', '\\|').trim();
const anchor = (heading) => heading.toLowerCase().replace(/[^a-z0-9 _-]/g, '').replaceAll(' ', '-');
const fill = (text) => {
  const lines = [''];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const line = lines.at(-1);
    if (line && line.length + 1 + word.length > 120) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines.join('\n');
};
const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

// Operations, by service. Those of one rpc on several routes, or methods, are one.
const services = new Map(api.tags.map((tag) => [tag.name, { ...tag, operations: new Map(), uses: new Set() }]));
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const service = services.get(operation.tags[0]);
    const stem = operation.operationId.replace(/\d+$/, '');
    const key = service.name === 'Discovery' ? operation.operationId : stem;
    const known = service.operations.get(key) ?? { ...operation, name: key, routes: [] };
    // The one whose body is described tells more.
    if (operation.requestBody && !known.requestBody) Object.assign(known, operation);
    known.routes.push({ method: method.toUpperCase(), path });
    service.operations.set(key, known);
  }
}

// Which services an object is seen in; one that a single service has is described on that service's page.
const seenIn = new Map();
const see = (value, service) => {
  if (value === null || typeof value !== 'object') return;
  if (typeof value.$ref === 'string') {
    if (!value.$ref.startsWith('#/components/schemas/')) return;
    const name = named(value.$ref);
    const seen = seenIn.get(name) ?? new Set();
    if (!seen.has(service)) {
      seenIn.set(name, seen.add(service));
      see(schemas[name], service);
    }
  }
  for (const part of Object.values(value)) see(part, service);
};
for (const service of services.values()) {
  for (const { requestBody, responses, parameters } of service.operations.values()) {
    see([requestBody, parameters, Object.values(responses).map((r) => r.content)], service.name);
  }
}
const pageOf = (service) => `${service.toLowerCase()}.md`;
const home = (schema) => {
  const seen = [...(seenIn.get(schema) ?? [])];
  return seen.length === 1 ? pageOf(seen[0]) : 'objects.md';
};
const link = (schema, page) => {
  const at = home(schema);
  return `[${schema}](${at === page ? '' : at}#${anchor(schema)})`;
};

const type = (schema, page) => {
  if (schema.$ref) return link(named(schema.$ref), page);
  if (schema.oneOf) return schema.oneOf.map((one) => type(one, page)).join(' or ');
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.type === 'array') return `list of ${type(schema.items, page)}`;
  if (schema.type === 'object' && schema.additionalProperties?.type) {
    return `map of ${type(schema.additionalProperties, page)}`;
  }
  return schema.format ? `${schema.type} (${schema.format})` : (schema.type ?? 'any');
};
// What a caller has to keep to, beyond the type.
const bounds = (schema) => {
  const said = [];
  const range = (low, high, unit) => {
    if (low > 0 && high !== undefined) said.push(low === high ? `${low}${unit}` : `${low} to ${high}${unit}`);
    else if (low > 0) said.push(`at least ${low}${unit}`);
    else if (high !== undefined && high < 2 ** 32 - 1) said.push(`at most ${high}${unit}`);
  };
  range(schema.minLength ?? 0, schema.maxLength, ' characters');
  range(schema.minimum ?? 0, schema.maximum, '');
  if (schema.maxItems) said.push(`at most ${schema.maxItems} items`);
  if (schema.pattern && schema.pattern !== '^[^\\x00]*$') said.push(`\`${schema.pattern}\``);
  if (schema.items) said.push(...bounds(schema.items).map((of) => `each ${of}`));
  return said;
};
const about = (schema, { limits = false } = {}) => {
  // Comments often say the limits in words.
  const of = limits ? bounds(schema).filter((bound) => !schema.description?.includes(bound)).join(', ') : '';
  const parts = [schema.description ? sentence(schema.description) : '', of ? `${of}.` : '',
    schema['x-sensitive'] ? 'Secret.' : ''];
  return cell(parts.filter(Boolean).join(' '));
};
const fields = (schema, page, options) =>
  table(['field', 'type', '', 'what'], Object.entries(schema.properties ?? {}).map(([name, field]) => [
    `\`${name}\``, cell(type(field, page)), schema.required?.includes(name) ? 'always' : '', about(field, options)]));

const caller = (operation) => {
  if (operation['x-payment-info']) return 'payer';
  const ways = (operation.security ?? []).map((way) => {
    const [[kind, roles]] = Object.entries(way);
    const scope = operation['x-required-scope'];
    if (kind === 'operatorKey') return roles[0] ?? 'operator';
    if (kind === 'signInWithX') return '`SIGN-IN-WITH-X`';
    return kind === 'walletSession' ? `session${scope ? `, scope ${scope}` : ''}` : 'delivery token';
  });
  return ways.join(' or ') || 'anyone';
};

// Problems, by their codes: all that there are, and those of an operation, with the status and what each says.
const problems = new Map(JSON.parse(readFileSync(contract, 'utf8')).errors
  .map(({ code, status, title }) => [code, { status: String(status), message: title }]));
const ofNone = new Set(problems.keys());
for (const { operations } of services.values()) {
  for (const operation of operations.values()) {
    operation.problems = Object.entries(operation.responses).flatMap(([status, { description = '' }]) =>
      [...description.matchAll(/^\* `([a-z0-9_]+)`: (.*)$/gm)].map(([, code, message]) => ({ status, code, message })));
    for (const { code } of operation.problems) ofNone.delete(code);
  }
}
const methods = [...services.values()].filter(({ name }) => name !== 'Discovery')
  .flatMap(({ operations }) => [...operations.values()]);
const everywhere = [...problems.keys()].sort().filter((code) =>
  methods.every((operation) => operation.problems.some((problem) => problem.code === code)));

const section = (operation, service, page) => {
  const out = [`### ${operation.name}`];
  const routes = operation.routes.map(({ method, path }) => `\`${method} ${path}\``);
  const rpc = service.name === 'Discovery' ? '' : ` · Connect \`roamcard.v1.${service.name}Service/${operation.name}\``;
  out.push(fill(`${routes.join(', ')}${rpc} · ${caller(operation)}`), fill(sentence(operation.description)));
  const parameters = (operation.parameters ?? []).map(deref).filter((p) => p.in !== 'path' || p.description);
  if (parameters.length) {
    out.push(table(['parameter', 'in', 'type', '', 'what'], parameters.map((p) => [`\`${p.name}\``, p.in,
      cell(type(p.schema, page)), p.required ? 'always' : '',
      about({ ...p.schema, description: p.description }, { limits: true })])));
  }
  const body = operation.requestBody?.content?.['application/json'];
  if (body) {
    const of = deref(body.schema);
    out.push(fill(`Body: ${operation.requestBody.description}`));
    if (Object.keys(of.properties ?? {}).length) out.push(fields(of, page, { limits: true }));
    const example = Object.values(body.examples ?? {})[0];
    if (example) out.push(`\`\`\`json\n${JSON.stringify(example.value, null, 2)}\n\`\`\``);
  }
  const rows = [];
  for (const [status, response] of Object.entries(operation.responses)) {
    if (response.$ref) continue;
    const [[media, { schema }] = ['', {}]] = Object.entries(response.content ?? {});
    const what = schema ? type(schema, page) : '';
    const headers = Object.keys(response.headers ?? {}).filter((name) => name !== 'X-Request-Id');
    const bare = what === 'object' || what === 'string' || what === '';
    const kind = bare ? media : what;
    rows.push([status, cell(kind), headers.map((h) => `\`${h}\``).join(', '), cell(response.description)]);
  }
  if (rows.length === 1) {
    const [[status, kind, headers, text]] = rows;
    const body = kind ? ` with ${kind}` : '';
    out.push(fill(sentence(`Answers ${status}${body}${headers ? ` and ${headers}` : ''}: ${text}`)));
  } else {
    out.push(table(['answer', 'body', 'headers', ''], rows));
  }
  const special = operation.problems.filter(({ code }) => !everywhere.includes(code));
  if (special.length) {
    const by = new Map();
    for (const { status, code } of special) by.set(status, [...(by.get(status) ?? []), code]);
    out.push(fill(`Problems: ${[...by].map(([status, of]) =>
      `${status} ${of.map((code) => `[\`${code}\`](problems.md#${code})`).join(', ')}`).join('; ')}.`));
  }
  return out.join('\n\n');
};
const objects = (page) => Object.keys(schemas).filter((name) => seenIn.has(name) && home(name) === page)
  // The body of a request stands with its operation.
  .filter((name) => !/Request$/.test(name))
  .map((name) => {
    const of = deref(schemas[name]);
    const head = `### ${name}\n\n${of.description ? `${fill(sentence(of.description))}\n\n` : ''}`;
    if (of.properties) return head + fields(of, page);
    return `${head}${fill(`${type(of, page)}.`)}`;
  });

const pages = new Map();
for (const service of services.values()) {
  const page = pageOf(service.name);
  const operations = [...service.operations.values()];
  const index = operations.flatMap((operation) => operation.routes.map(({ method, path }) => [
    method, `\`${path}\``, `[${operation.name}](#${anchor(operation.name)})`, caller(operation),
    cell(operation.summary)]));
  const own = objects(page);
  pages.set(page, [
    `# ${service.name}`, fill(service.description), table(['method', 'path', 'operation', 'caller', 'what'], index),
    '## Operations', ...operations.map((operation) => section(operation, service, page)),
    ...(own.length ? ['## Objects', ...own] : [])]);
}
pages.set('objects.md', ['# Shared objects', fill('What the answers of several services have in common.'),
  ...objects('objects.md').map((text) => text.replace(/^###/, '##'))]);
pages.set('problems.md', ['# Problems',
  fill('Failures are `application/problem+json` with a stable `code`. What each means, whether to repeat the request '
    + 'and whether it is safe to pay again, is at `/problems/{code}` of every service.'),
  fill(`Every operation that is a Connect method may answer ${everywhere.map((code) => `\`${code}\``).join(', ')}, `
    + 'which the pages do not repeat.'),
  fill(`No operation lists ${[...ofNone].sort().map((code) => `\`${code}\``).join(', ')}: they are about the path, `
    + 'the method or the time of a request, or about an event of a provider.'),
  ...[...problems].sort(([a], [b]) => a.localeCompare(b)).map(([code, { status, message }]) =>
    `## ${code}\n\n${status}: ${message}`.replace(/.{121,}/g, fill))]);

for (const file of readdirSync(folder)) {
  if (file.endsWith('.md') && readFileSync(join(folder, file), 'utf8').startsWith(mark)) rmSync(join(folder, file));
}
for (const [page, parts] of pages) writeFileSync(join(folder, page), `${mark}${parts.join('\n\n')}\n`);
