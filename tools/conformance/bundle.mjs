// Fills in and checks what packaging/ describes:
//   bundle.mjs manifest VERSION OS SUFFIX       the manifest of one system's bundle
//   bundle.mjs server VERSION TAG BUNDLE…       the registry's server.json, with the bundles' hashes
//   bundle.mjs check SCHEMA FILE                fails unless FILE is what the JSON schema says
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';

const read = async (file) => JSON.parse(await readFile(file, 'utf8'));
const packaging = (name) => read(new URL(`../../packaging/${name}`, import.meta.url));
const platforms = { linux: 'linux', darwin: 'darwin', windows: 'win32' };
// Where roamcard itself looks for its settings.
const folders = { linux: '.config', darwin: 'Library/Application Support', windows: 'AppData/Roaming' };

async function manifest(version, os, suffix = '') {
  const m = await packaging('manifest.json');
  m.version = version;
  m.server.entry_point += suffix;
  m.server.mcp_config.command += suffix;
  m.compatibility.platforms = [platforms[os]];
  m.user_config.settings.default = `\${HOME}/${folders[os]}/roamcard/agent.json`;
  return m;
}

async function server(version, tag, ...bundles) {
  const s = await packaging('server.json');
  s.version = version;
  s.packages = await Promise.all(
    bundles.map(async (file) => ({
      registryType: 'mcpb',
      identifier: `https://github.com/roamcard/roamcard/releases/download/${tag}/${basename(file)}`,
      version,
      fileSha256: createHash('sha256').update(await readFile(file)).digest('hex'),
      transport: { type: 'stdio' },
    })),
  );
  return s;
}

async function check(schema, file) {
  const ajv = new Ajv({ allErrors: true, strict: false });
  addFormats(ajv);
  const valid = ajv.compile(await read(schema));
  const document = await read(file);
  const { $id } = await read(schema);
  if (document.$schema !== $id) throw new Error(`${file} names ${document.$schema}, and the schema is ${$id}`);
  if (!valid(document)) throw new Error(ajv.errorsText(valid.errors, { dataVar: file, separator: '\n' }));
  if (!document.packages.length) throw new Error(`${file} names no package`);
  return `${file} is valid: ${document.name} ${document.version}, ${document.packages.length} package(s)`;
}

const [what, ...rest] = process.argv.slice(2);
const made = await { manifest, server, check }[what](...rest);
console.log(typeof made === 'string' ? made : JSON.stringify(made, null, 2));
