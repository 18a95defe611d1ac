// Runs made-up stories, and prints the first one that goes wrong.
//
//   node test/support/stories.mjs SEED RUNS
import { createHash } from "node:crypto";
import { Clock } from "./clock.mjs";
import { World } from "./world.mjs";

const [seed, runs] = process.argv.slice(2).map(Number);
// The pool of threads would make the order of events another one each time.
Object.defineProperty(crypto.subtle, "digest", {
  value: async (_, data) => Uint8Array.from(createHash("sha256").update(data).digest()).buffer,
});
const clock = new Clock();
const told = { events: 0, sent: 0, taken: 0 };
for (let run = seed; run < seed + runs; run++) {
  const world = new World(run, clock);
  await clock.during(world.live());
  if (world.wrong.length > 0) {
    console.log(
      `ROAMCARD_SEED=${run} ROAMCARD_RUNS=1 repeats it:\n${world.story.join("\n")}\n` +
        `wrong: ${world.wrong.join("\nwrong: ")}`,
    );
    process.exit(1);
  }
  told.events += world.story.length;
  told.sent += world.sent.length;
  told.taken += world.service.token.transfers.length;
}
console.log(
  `seed ${seed}: ${runs} runs, ${told.events} events, ${told.sent} authorizations sent, ${told.taken} transfers`,
);
// A network that lets nothing through proves nothing.
if (runs > 5 && (told.sent === 0 || told.taken === 0)) process.exit(1);
