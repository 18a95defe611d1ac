// A world for made-up stories: the service, the wallet, the journal on its disk, the processes that crash, and who
// watches them.
import { createHash } from "node:crypto";
import { JournalError, MemoryStore, Roamcard } from "roamcard";
import { FakeService } from "roamcard/testing";
import { Exchange, purchaseOf } from "./lies.mjs";

const wallet = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const perPayment = 25_000_000n;
const operations = ["esim", "card", "topup"];
/** How far a machine's clock may be ahead of the world's and still be let pass, in ms. */
const skews = [0, 55_000, -5_000, -55_000];
/** Further ahead than that, and longer than a payment is good for. */
const far = 200_000;

/** What outlives a process. */
export class World {
  story = [];
  wrong = [];
  sent = [];
  /** How often the service called a payment of a key dead. */
  dead = new Map();
  disk = new MemoryStore();

  constructor(seed, clock) {
    Object.assign(this, { clock, random: randomOf(seed) });
    clock.skew = 0;
    this.service = new FakeService({ verify: async () => true, now: () => new Date(clock.ms) });
    this.cap = ["1", "5", "30", "60"][this.draw(4)];
  }

  draw(n) {
    return Math.floor(this.random() * n);
  }

  tell(event) {
    this.story.push(`${new Date().toISOString().slice(8, 19)} ${event}`);
  }

  fail(what) {
    this.wrong.push(what);
  }

  /** Makes up one story. */
  async live() {
    this.tell(`cap ${this.cap}`);
    let process = new Process(this);
    for (let left = 10 + this.draw(15); left > 0 && this.wrong.length === 0; left--) {
      if (process.crashed || this.draw(12) === 0) process = new Process(this);
      process.plan(this.draw(3), this.draw(6));
      const event = this.draw(11);
      if (event === 0) process = await this.#together(process);
      else if (event === 1)
        this.tell(`resume all: ${await process.client.resumeAll().then((all) => all.length, String)}`);
      else if (event < 4) await this.clock.sleep([5, 60, 110, 181, 3600, 25 * 3600][this.draw(6)] * 1000);
      else if (event === 4) await this.#steal();
      else if (event === 5) this.jump([...skews, far]);
      else await process.buy(Math.max(0, this.draw(5) - 2), this.draw(4));
      this.#look();
    }
  }

  // together makes calls of one key at the same time, in one process and in another one on the same disk.
  async #together(process) {
    const [what, key] = [Math.max(0, this.draw(5) - 2), this.draw(3)];
    const other = new Process(this);
    other.plan(this.draw(3), this.draw(6));
    await Promise.all([process, other, process].slice(0, 2 + this.draw(2)).map((p) => p.buy(what, key)));
    return other;
  }

  /** Sets the machine's clock forward or back, or lets a machine sleep past the end of its payments. */
  jump(to) {
    const kind = this.draw(to.length + 1);
    if (kind < to.length) this.clock.skew = to[kind];
    else this.clock.suspend(far);
    this.tell(kind < to.length ? `the clock is ${to[kind] / 1000} s ahead` : "the machine was suspended");
  }

  async #steal() {
    if (this.sent.length === 0) return;
    const { key, header } = this.sent[this.draw(this.sent.length)];
    this.tell(`the payment of ${key} is taken: ${(await this.service.token.take(header)).reason}`);
  }

  /** Watches a payment leave a process. */
  async seen(key, header) {
    if (this.sent.some((s) => s.header === header)) return;
    const { from, to, value, nonce, validAfter, validBefore } = JSON.parse(Buffer.from(header, "base64")).payload
      .authorization;
    const [amount, signedAt, now] = [BigInt(value), Number(validAfter) + 600, this.clock.ms / 1000];
    const one = { key, header, nonce, amount, signedAt, sentAt: now, validBefore: Number(validBefore) };
    this.sent.push(one);
    // One that is over may come again from a process that had it before another one signed anew.
    const { purchases } = await this.disk.read();
    if (!Object.values(purchases).some((e) => e.header === header))
      this.fail(`${key}: an authorization was sent that the journal does not have`);
    if (from !== wallet || to !== this.service.payTo) this.fail(`${key}: ${from} pays ${to}`);
    if (one.amount > perPayment) this.fail(`${key}: ${one.amount} units in one payment`);
    const live = this.sent.filter((s) => s.key === key && now < s.validBefore);
    if (live.length > 1) this.fail(`${key} has ${live.length} live authorizations`);
    for (const last of this.sent) this.#holdsCap(last);
  }

  // holdsCap checks the day that ends with an authorization. The token takes a nonce once: of those that share one, the
  // largest counts.
  #holdsCap(last) {
    const most = new Map();
    for (const { nonce, amount, signedAt } of this.sent) {
      const ago = last.signedAt - signedAt;
      if (ago >= 0 && ago < 86_400 && amount > (most.get(nonce) ?? 0n)) most.set(nonce, amount);
    }
    const sum = [...most.values()].reduce((a, b) => a + b, 0n);
    if (sum > BigInt(this.cap) * 1_000_000n)
      this.fail(`${sum} units were signed for in a day, and the cap is ${this.cap}`);
  }

  // look checks what the token took: what was sent, and of a key only one, unless the service called the one before
  // dead and its time was over when the next one was sent, as the clients' rules have it.
  #look() {
    const [taken, counts] = [new Map(), new Map()];
    for (const { nonce } of this.service.token.transfers) {
      const one = this.sent.findLast((s) => s.nonce === nonce);
      if (!one) {
        this.fail(`the token took ${nonce}, which nobody sent`);
        continue;
      }
      const before = taken.get(one.key);
      taken.set(one.key, one);
      counts.set(one.key, (counts.get(one.key) ?? 0) + 1);
      const overlap = before && one.sentAt < before.validBefore && before.sentAt < one.validBefore;
      if (overlap || counts.get(one.key) > 1 + (this.dead.get(one.key) ?? 0)) {
        this.fail(
          `${one.key} has ${counts.get(one.key)} transfers, ` +
            `and ${this.dead.get(one.key) ?? 0} of its payments were called dead`,
        );
      }
    }
  }
}

/** A program that buys, until it crashes; from then on it does nothing. */
class Process {
  crashed = false;
  mood = 0;
  #crashIn = 0;
  #fullIn = 0;
  #jumpIn = 0;

  constructor(world) {
    this.world = world;
    this.client = new Roamcard({
      baseUrl: world.service.url,
      signer: this.#signer(),
      store: this.#store(),
      fetch: (input, init) => this.#fetch(new Request(input, init)),
      maxReplays: 2,
      policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: world.cap },
    });
  }

  /** Says what is to go wrong next. Mood 0 is a good network, 1 a bad one, 2 a thief. */
  plan(mood, accident) {
    this.mood = mood;
    this.#crashIn = accident === 0 ? 1 + this.world.draw(30) : 0;
    this.#fullIn = accident === 1 ? 1 + this.world.draw(5) : 0;
    this.#jumpIn = accident === 2 ? 1 + this.world.draw(20) : 0;
    this.world.tell(`mood ${mood}, crash in ${this.#crashIn}, full in ${this.#fullIn}, jump in ${this.#jumpIn}`);
  }

  /** Buys under one of three keys, or under none. */
  async buy(what, k) {
    const [operation, before] = [operations[what], this.world.sent.length];
    const idempotencyKey = k < 3 ? `${operation}-${k}` : undefined;
    const call = {
      esim: () => this.client.esim.purchase({ idempotencyKey }),
      card: () => this.client.cards.purchase({ idempotencyKey }),
      topup: () => this.client.cards.topUp({ amountUsdCents: 2500, idempotencyKey }),
    }[operation];
    try {
      this.world.tell(`buy ${operation} ${idempotencyKey}: ${(await call()).orderId}`);
    } catch (error) {
      this.world.tell(`buy ${operation} ${idempotencyKey}: ${error}`);
      const { sent: all } = this.world;
      // Under a key that others use at the same time, what was sent before this call.
      const earlier = all.slice(0, before).filter(({ key }) => key.endsWith(` ${idempotencyKey}`));
      const sent = idempotencyKey ? earlier : all.slice(before);
      const untold = !error.idempotencyKey && !this.crashed;
      if (untold && sent.length > 0)
        this.world.fail(`an authorization was sent under a key that is not told: ${error}`);
    }
  }

  #step(at) {
    if (--this.#jumpIn === 0) this.world.jump(skews);
    if (!this.crashed && --this.#crashIn === 0) {
      this.crashed = true;
      this.world.tell(`crash: ${at}`);
    }
    if (this.crashed) throw new Error("the process has crashed");
  }

  // A signature is made up: the fake believes it, and the client does not look.
  #signer() {
    return {
      address: wallet,
      signTypedData: async (data) => {
        this.#step("before it signs");
        const signature = createHash("sha512").update(JSON.stringify(data)).digest("hex");
        this.#step("after it signed");
        return `0x${signature}1b`;
      },
    };
  }

  #store() {
    return {
      read: async () => {
        this.#step("before it reads the journal");
        return this.world.disk.read();
      },
      update: async (change) => {
        this.#step("before it writes the journal");
        if (--this.#fullIn === 0) {
          this.world.tell("the disk is full");
          throw new JournalError("journal.json", "full", "no space left");
        }
        const result = await this.world.disk.update(change);
        this.#step("after it wrote the journal");
        return result;
      },
    };
  }

  async #fetch(request) {
    const path = new URL(request.url).pathname;
    this.#step(`before it sends ${path}`);
    const body = await request.text();
    const header = request.headers.get("payment-signature");
    const key = purchaseOf(path, body);
    if (header) await this.world.seen(key, header);
    const answer = await new Exchange(this.world, request, body, key, header).answer(this.mood).catch((error) => error);
    this.#step(`after it sent ${path}`);
    if (answer instanceof Error) throw answer;
    return answer;
  }
}

// randomOf is mulberry32: the same numbers for the same seed.
function randomOf(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
