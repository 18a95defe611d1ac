// Safes, with the code of the package that the project publishes, through the official x402 client: a card, a top-up, a
// sign-in and a reveal, for one owner and for two of three; and what does not pay.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { concatHex, encodeFunctionData, hashMessage, hashTypedData, numberToHex, parseAbi, zeroAddress } from "viem";
import { toAccount } from "viem/accounts";
import { dev, hangsAfter as timeout, rpc, transfers } from "./paying.mjs";
import { buys, buysTopsUpAndReveals, client, funded, mined, newKey, rich, session } from "./smartaccounts.mjs";

const artifacts = join(import.meta.dirname, "node_modules/@safe-global/safe-smart-account/build/artifacts/contracts");
// Where version 1.5.0 is on Base.
const contracts = {
  "SafeL2.sol": "0xEdd160fEBBD92E350D4D398fb636302fccd67C7e",
  "handler/CompatibilityFallbackHandler.sol": "0x3EfCBb83A4A7AfcB4F68D501E2c2203a38be77f4",
  "proxies/SafeProxyFactory.sol": "0x14F2982D601c9458F93bd70B218933A6f8165e7b",
};
const [singleton, handler, factory] = Object.values(contracts);
const abi = parseAbi([
  "function setup(address[] owners, uint256 threshold, address to, bytes data, address fallbackHandler, " +
    "address paymentToken, uint256 payment, address paymentReceiver)",
  "function createProxyWithNonce(address singleton, bytes initializer, uint256 saltNonce) returns (address)",
  "function changeThreshold(uint256 threshold)",
  "function setFallbackHandler(address handler)",
  "function execTransaction(address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, " +
    "uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, bytes signatures)",
]);

before(async () => {
  for (const [path, address] of Object.entries(contracts)) {
    const name = path.split("/").at(-1).replace(".sol", ".json");
    const { deployedBytecode } = JSON.parse(await readFile(join(artifacts, path, name), "utf8"));
    await rpc("anvil_setCode", [address, deployedBytecode]);
  }
});

/** A Safe that has money and these owners, of whom so many sign. */
async function safeOf(owners, threshold, fallbackHandler = handler) {
  const addresses = owners.map((owner) => owner.address);
  const initializer = encodeFunctionData({
    abi, functionName: "setup",
    args: [addresses, BigInt(threshold), zeroAddress, "0x", fallbackHandler, zeroAddress, 0n, zeroAddress],
  });
  const { request, result } = await client.simulateContract({
    abi, address: factory, functionName: "createProxyWithNonce", account: rich.account,
    args: [singleton, initializer, BigInt(Date.now())],
  });
  await mined(await rich.writeContract(request));
  return funded(accountOf(result, owners.slice(0, threshold)));
}

/** A Safe as its owners sign for it, in the order of their addresses. */
function accountOf(address, owners) {
  const signed = async (digest) => {
    const document = {
      domain: { chainId: dev.chainId, verifyingContract: address },
      types: { SafeMessage: [{ name: "message", type: "bytes" }] },
      primaryType: "SafeMessage", message: { message: digest },
    };
    const inOrder = owners.toSorted((a, b) => (BigInt(a.address) < BigInt(b.address) ? -1 : 1));
    return concatHex(await Promise.all(inOrder.map((owner) => owner.signTypedData(document))));
  };
  return toAccount({
    address,
    signMessage: ({ message }) => signed(hashMessage(message)),
    signTypedData: (document) => signed(hashTypedData(document)),
    signTransaction: () => assert.fail("a Safe sends no transaction"),
  });
}

/** A call that a Safe makes of itself, by its only owner, who sends it. */
async function changes(account, owner, functionName, args) {
  const word = (number) => numberToHex(number, { size: 32 });
  const bySender = concatHex([word(BigInt(owner.address)), word(0n), "0x01"]);
  await mined(await rich.sendTransaction({ to: owner.address, value: 10n ** 16n }));
  const data = encodeFunctionData({ abi, functionName, args });
  await mined(await rich.writeContract({
    account: owner, abi, address: account.address, functionName: "execTransaction",
    args: [account.address, 0n, data, 0, 0n, 0n, 0n, zeroAddress, zeroAddress, bySender],
  }));
}

const card = () => ["/api/card/purchase", { idempotencyKey: crypto.randomUUID() }];

for (const [name, owners, threshold] of [["one owner", 1, 1], ["two of three owners", 3, 2]]) {
  test(`a Safe for which ${name} signs buys a card, tops it up and reveals it`, { timeout }, async () => {
    await buysTopsUpAndReveals(await safeOf(Array.from({ length: owners }, newKey), threshold));
  });
}

test("who is no owner of a Safe neither pays nor signs in for it", { timeout }, async () => {
  const { address } = await safeOf([newKey()], 1);
  const thief = accountOf(address, [newKey()]);
  await assert.rejects(buys(thief, ...card()), /402/);
  await assert.rejects(session(thief), /signature_invalid/);
  assert.equal(await transfers(address), 0);
});

test("a Safe that wants more owners than have signed does not pay", { timeout },
  async () => {
    const owner = newKey();
    const account = await safeOf([owner, newKey()], 1);
    await buys(account, ...card());
    await changes(account, owner, "changeThreshold", [2n]);
    await assert.rejects(buys(account, ...card()), /402/);
    await assert.rejects(session(account), /signature_invalid/);
    assert.equal(await transfers(account.address), 1);
  });

test("a Safe whose signatures another contract judges is refused for its kind", { timeout }, async () => {
  const owner = newKey();
  const account = await safeOf([owner], 1);
  await changes(account, owner, "setFallbackHandler", [dev.usdc]);
  await assert.rejects(buys(account, ...card()), /payer_kind_not_accepted/);
  assert.equal(await transfers(account.address), 0);
});
