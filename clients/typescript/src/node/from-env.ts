// A client as the environment describes it: the same names in the clients of every language and in the command.
import type { RoamcardOptions } from "../connection.js";
import { RoamcardError } from "../errors.js";
import type { Policy } from "../policy.js";
import { Roamcard } from "../roamcard.js";
import type { Signer } from "../signers.js";
import { commandSigner } from "./command-signer.js";
import { ExposedError, groupReaders, readOwn } from "./custody.js";
import { FileStore } from "./file-store.js";

/** The environment, or what is passed in code, does not make a client. It names every mistake, and no secret. */
export class ConfigError extends RoamcardError {
  override readonly code = "config_invalid";

  constructor(readonly mistakes: readonly string[]) {
    super(`the environment makes no client: ${mistakes.join("; ")}`);
  }
}

const modes = ["autonomous", "policy_gated", "human_approval"] as const;

/**
 * Makes a client of the environment: ROAMCARD_URL; ROAMCARD_SIGNER with ROAMCARD_SIGNER_ADDRESS and the names of its
 * variables in ROAMCARD_SIGNER_ENV, or ROAMCARD_WALLET_KEY or ROAMCARD_WALLET_KEY_FILE, without which it only reads;
 * ROAMCARD_MODE, ROAMCARD_MAX_PER_PAYMENT_USD, ROAMCARD_MAX_PER_DAY_USD and ROAMCARD_APPROVE_ABOVE_USD;
 * ROAMCARD_JOURNAL, ROAMCARD_RPC_URL, and ROAMCARD_OPERATOR_TOKEN or ROAMCARD_OPERATOR_TOKEN_FILE. The journal is a
 * file, the one that all clients share unless it is named. What is given here goes before the environment, and
 * `approve` with the policy that it has. It throws a ConfigError that names all mistakes.
 */
export async function fromEnv({
  approve,
  ...options
}: Partial<RoamcardOptions> & { approve?: Policy["approve"] } = {}): Promise<Roamcard> {
  const env = new Environment();
  const baseUrl = options.baseUrl ?? env.url("ROAMCARD_URL") ?? env.missing("ROAMCARD_URL");
  const rpcUrl = options.rpcUrl ?? env.url("ROAMCARD_RPC_URL");
  const signer = options.signer ?? (await signerOf(env));
  const policy = { ...(options.policy ?? policyOf(env)), ...(approve && { approve }) };
  const operatorToken = options.operatorToken ?? env.secret("ROAMCARD_OPERATOR_TOKEN");
  if (env.mistakes.length > 0) throw new ConfigError(env.mistakes);
  return new Roamcard({
    ...options,
    baseUrl,
    rpcUrl,
    signer,
    policy,
    operatorToken,
    store: options.store ?? new FileStore(),
  });
}

// Environment reads variables and gathers what is wrong with them. An empty one is as good as none.
class Environment {
  readonly mistakes: string[] = [];

  text(name: string): string | undefined {
    return process.env[name]?.trim() || undefined;
  }

  missing(name: string): string {
    this.mistakes.push(`${name} is not set`);
    return "";
  }

  wrong(name: string, rule: string): undefined {
    this.mistakes.push(`${name} ${rule}`);
  }

  url(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined || (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol))) return text;
    return this.wrong(name, "is no http or https URL");
  }

  dollars(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined || /^[0-9]{1,9}(\.[0-9]{1,2})?$/.test(text)) return text;
    return this.wrong(name, 'is no amount in US dollars, such as "25.00"');
  }

  /** An amount that is a cap: one of 0 would refuse everything. */
  cap(name: string): string | undefined {
    const text = this.dollars(name);
    return text !== undefined && Number(text) === 0 ? this.wrong(name, "is not more than 0") : text;
  }

  /**
   * A secret, or the content of the file that its name with _FILE names, which nobody else may write, and nobody
   * outside its group may read. What is wrong with it is told without it.
   */
  secret(name: string): string | undefined {
    const [text, file] = [this.text(name), this.text(`${name}_FILE`)];
    if (text !== undefined && file !== undefined) return this.wrong(name, `and ${name}_FILE are both set`);
    if (file === undefined) return text;
    try {
      return readOwn(file, groupReaders).trim() || this.wrong(`${name}_FILE`, "names an empty file");
    } catch (error) {
      if (error instanceof ExposedError) return this.wrong(`${name}_FILE`, `is not used: ${error.message}`);
      return this.wrong(`${name}_FILE`, `cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown"})`);
    }
  }
}

async function signerOf(env: Environment): Promise<Signer | undefined> {
  const [program, address] = [env.text("ROAMCARD_SIGNER"), env.text("ROAMCARD_SIGNER_ADDRESS")];
  if (address !== undefined && !/^0x[0-9a-fA-F]{40}$/.test(address))
    return env.wrong("ROAMCARD_SIGNER_ADDRESS", "is no address");
  if ((program === undefined) !== (address === undefined))
    return env.wrong("ROAMCARD_SIGNER", "and ROAMCARD_SIGNER_ADDRESS need each other");
  if (program !== undefined && address !== undefined) {
    const [command, ...args] = program.split(/\s+/);
    const environment = env.text("ROAMCARD_SIGNER_ENV")?.split(/\s+/) ?? [];
    return commandSigner({ address, command: command!, args, environment });
  }
  const key = env.secret("ROAMCARD_WALLET_KEY")?.replace(/^0x/, "");
  if (key === undefined) return undefined;
  if (!/^[0-9a-fA-F]{64}$/.test(key)) return env.wrong("ROAMCARD_WALLET_KEY", "is no private key of 32 bytes in hex");
  return keySigner(env, key);
}

async function keySigner(env: Environment, key: string): Promise<Signer | undefined> {
  const viem = await import("viem/accounts").catch(() =>
    env.wrong("ROAMCARD_WALLET_KEY", "needs the package viem: npm install viem"),
  );
  try {
    return viem && (viem.privateKeyToAccount(`0x${key}`) as unknown as Signer);
  } catch {
    return env.wrong("ROAMCARD_WALLET_KEY", "is no private key of this curve"); // the reason could quote the key
  }
}

function policyOf(env: Environment): Policy {
  const named = env.text("ROAMCARD_MODE") ?? "human_approval";
  const mode =
    modes.find((m) => m === named) ?? env.wrong("ROAMCARD_MODE", `is none of ${modes.join(", ")}`) ?? "human_approval";
  const [maxPerPaymentUsd, maxPerDayUsd] = [
    env.cap("ROAMCARD_MAX_PER_PAYMENT_USD"),
    env.cap("ROAMCARD_MAX_PER_DAY_USD"),
  ];
  const approveAboveUsd = env.dollars("ROAMCARD_APPROVE_ABOVE_USD");
  return {
    mode,
    ...(maxPerPaymentUsd !== undefined && { maxPerPaymentUsd }),
    ...(maxPerDayUsd !== undefined && { maxPerDayUsd }),
    ...(approveAboveUsd !== undefined && { approveAboveUsd }),
  };
}
