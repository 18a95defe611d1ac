// A wallet as a command: typed data in, signature out.
import { privateKeyToAccount } from "viem/accounts";

const { typedData } = JSON.parse((await process.stdin.setEncoding("utf8").toArray()).join(""));
console.log(await privateKeyToAccount(process.env.TEST_WALLET_KEY).signTypedData(typedData));
