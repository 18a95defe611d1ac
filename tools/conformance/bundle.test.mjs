// The bundle starts as its manifest says, with the tools that its manifest names; what is wrong with server.json is
// found. ROAMCARD_BUNDLE is the folder that tools/mcpb.sh wrote, ROAMCARD_SETTINGS the server's settings.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const { ROAMCARD_BUNDLE: folder, ROAMCARD_SETTINGS: settings } = process.env;
const schema = join(folder, 'server.schema.json');
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const work = await mkdtemp(join(tmpdir(), 'bundle-'));
after(() => rm(work, { recursive: true }));

test('the bundle starts, and has the tools that it names', async () => {
  const [bundle] = (await readdir(folder)).filter((name) => name.endsWith('.mcpb'));
  execFileSync(here('node_modules/.bin/mcpb'), ['unpack', join(folder, bundle), join(work, 'unpacked')],
    { stdio: 'ignore' });
  const manifest = JSON.parse(await readFile(join(work, 'unpacked', 'manifest.json'), 'utf8'));
  const filled = (text) => text.replaceAll('${__dirname}', join(work, 'unpacked'))
    .replaceAll('${user_config.settings}', settings);
  const { command, args } = manifest.server.mcp_config;
  const client = new Client({ name: 'bundle', version: '1' });
  await client.connect(new StdioClientTransport({ command: filled(command), args: args.map(filled) }));
  try {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map(({ name }) => name).sort(), manifest.tools.map(({ name }) => name).sort());
  } finally {
    await client.close();
  }
});

test('server.json with a mistake is refused', async () => {
  const good = JSON.parse(await readFile(join(folder, 'server.json'), 'utf8'));
  const [bundle] = good.packages;
  const mistakes = {
    'another schema': {
      ...good, $schema: 'https://static.modelcontextprotocol.io/schemas/2025-07-09/server.schema.json',
    },
    'no packages': { ...good, packages: [] },
    'a name without a namespace': { ...good, name: 'roamcard' },
    'a hash that is none': { ...good, packages: [{ ...bundle, fileSha256: 'abc' }] },
    'no transport': { ...good, packages: [{ ...bundle, transport: undefined }] },
    'a long description': { ...good, description: 'x'.repeat(101) },
  };
  for (const [name, document] of Object.entries({ nothing: good, ...mistakes })) {
    const file = join(work, 'server.json');
    await writeFile(file, JSON.stringify(document));
    const checked = () =>
      execFileSync(process.execPath, [here('bundle.mjs'), 'check', schema, file], { stdio: 'pipe' });
    if (name === 'nothing') checked();
    else assert.throws(checked, name);
  }
});
