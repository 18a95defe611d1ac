// A wallet behind a command: the key stays with it.
import { spawn } from "node:child_process";
import { RoamcardError } from "../errors.js";
import type { Signer } from "../signers.js";
import { programEnvironment } from "./custody.js";

/**
 * A wallet that signs by an external command, the same for the clients of every language. For each signature the
 * command is started again: it reads {"method": "eth_signTypedData_v4", "address", "typedData"} from its standard input
 * and writes the signature, 0x and hex, to its standard output. Of this program's environment it gets what programs
 * need, such as PATH, HOME and the language, and the variables that `environment` names: no key or token else.
 */
export function commandSigner({ address, command, args = [], environment = [], timeoutMs = 120_000 }: {
  address: string; command: string; args?: readonly string[]; environment?: readonly string[]; timeoutMs?: number;
}): Signer {
  const sign = (input: string) => run(command, args, input, environment, timeoutMs);
  return {
    address,
    signTypedData: (typedData) => sign(JSON.stringify({ method: "eth_signTypedData_v4", address, typedData })),
  };
}

function run(
  command: string,
  args: readonly string[],
  input: string,
  environment: readonly string[],
  timeout: number,
): Promise<string> {
  return new Promise((done, fail) => {
    const env = programEnvironment(environment);
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env, timeout });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output = (output + text).slice(0, 4096)));
    child.stdin.on("error", () => undefined); // a command that does not read has its say by its end
    child.once("error", (error) =>
      fail(new RoamcardError(`the signer ${command} cannot be started`, { cause: error })),
    );
    child.once("close", (code, signal) => {
      if (code === 0) done(output.trim());
      else fail(new RoamcardError(`the signer ${command} ended with ${signal ?? `code ${code}`}`));
    });
    child.stdin.end(input);
  });
}
