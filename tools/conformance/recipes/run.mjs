// Runs the program of a recipe as its page prints it, with a scripted model: run.mjs PAGE KEY. It makes the same calls
// as scripted.py.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { MockLanguageModelV4 } from 'ai/test';

const [page, key] = process.argv.slice(2);
const code = /```js\n(.*?)```/s.exec(await readFile(page, 'utf8'))[1];
// Next to the packages that it imports.
const file = new URL(`./recipe-${process.pid}.mjs`, import.meta.url);
await writeFile(file, code);
const { run } = await import(file).finally(() => rm(file));

let answers = [];
/** The second is the answer of a tool that takes long: on a busy machine any may. */
const isUnclear = (a) => a?.status === 'processing' || a?.nextAction === 'wait_and_call_again';
/** The next tool and its arguments, or nothing when the purchase is done. */
function next() {
  const last = answers.at(-1);
  if (!last) return ['list_esim_plans', { countryCode: 'JP' }];
  if (last.plans) return ['buy_esim', { purchaseKey: key, planId: last.plans[0].planId }];
  return (isUnclear(last) && answers.length < 60) || answers.length === 2
    ? ['get_order', { purchaseKey: key }]
    : undefined;
}

const textOf = ({ output }) => {
  const value = output.value;
  return typeof value === 'string' ? value : (value.content ?? value)[0].text;
};
const done = 'The eSIM is paid.';
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    answers = prompt
      .filter(({ role }) => role === 'tool')
      .flatMap(({ content }) => content)
      .map((part) => JSON.parse(textOf(part)));
    if (isUnclear(answers.at(-1))) await new Promise((resume) => setTimeout(resume, 500));
    const call = next();
    const content = call
      ? [{ type: 'tool-call', toolCallId: `call-${answers.length}`, toolName: call[0], input: JSON.stringify(call[1]) }]
      : [{ type: 'text', text: done }];
    return {
      content,
      finishReason: { unified: call ? 'tool-calls' : 'stop', raw: undefined },
      usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
      warnings: [],
    };
  },
});
const agree = ({ params }) => {
  if (!params.message.includes('USD')) throw new Error(`the question names no price: ${params.message}`);
  return { action: 'accept', content: { approve: true } };
};
const said = await run(model, `Buy me the cheapest eSIM for Japan. Its purchaseKey is ${key}.`, agree);
const last = answers.at(-1);
if (said !== done || last.status !== 'paid' || last.order?.kind !== 'esim') {
  throw new Error(`it ended with ${said}; the last answer was ${JSON.stringify(last)}`);
}
console.log(JSON.stringify(last.order));
