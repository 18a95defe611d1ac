// What really happened to the money, asked of the chain and not of the service.
import assert from "node:assert/strict";
import { concat, createPublicClient, http, keccak256, pad, parseAbi, parseAbiItem, toHex } from "viem";
import { toCoinbaseSmartAccount } from "viem/account-abstraction";

/** The price of a card in USDC's smallest unit. */
export const cardPrice = 25_000_000n;

const ether = { name: "Ether", symbol: "ETH", decimals: 18 };
const usdc = parseAbi(["function balanceOf(address) view returns (uint256)"]);
const transfer = parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)");

export class Chain {
  constructor(ready) {
    this.asset = ready.usdc;
    this.payTo = ready.payTo;
    // What it asks is the same on every chain; viem/chains takes half a second to load.
    this.client = createPublicClient({
      // What a smart account signs names the chain.
      chain: { id: ready.chainId, name: "dev", nativeCurrency: ether, rpcUrls: { default: { http: [ready.rpcUrl] } } },
      transport: http(ready.rpcUrl),
      pollingInterval: 100,
      cacheTime: 0,
    });
  }

  balance(address) {
    return this.client.readContract({ address: this.asset, abi: usdc, functionName: "balanceOf", args: [address] });
  }

  /** Gives a wallet USDC: the token of the development chain keeps balances in its third slot. */
  mint(address, amount) {
    const slot = keccak256(concat([pad(address), pad("0x02")]));
    return this.client.request({ method: "anvil_setStorageAt", params: [this.asset, slot, pad(toHex(amount))] });
  }

  /** A Coinbase Smart Wallet of an account's as viem has it, which nobody has made on the chain. */
  async undeployedAccount(owner, usdc = 1_000_000_000n) {
    const account = await toCoinbaseSmartAccount({ client: this.client, owners: [owner], version: "1.1" });
    await this.mint(account.address, usdc);
    return account;
  }

  /** The same, made by its factory. */
  async smartAccount(owner, usdc) {
    const account = await this.undeployedAccount(owner, usdc);
    const { factory: to, factoryData: data } = await account.getFactoryArgs();
    const from = owner.address;
    await this.client.request({ method: "anvil_setBalance", params: [from, toHex(10n ** 18n)] });
    await this.client.request({ method: "anvil_impersonateAccount", params: [from] });
    const hash = await this.client.request({ method: "eth_sendTransaction", params: [{ from, to, data }] });
    const { status } = await this.client.waitForTransactionReceipt({ hash });
    assert.equal(status, "success");
    return account;
  }

  /** Every transfer of USDC from the payer to the service. */
  transfers(payer) {
    return this.client.getLogs({
      address: this.asset, event: transfer, args: { from: payer, to: this.payTo }, fromBlock: 0n, toBlock: "latest",
    });
  }

  /** Every transfer of USDC to a wallet. */
  received(wallet) {
    return this.client.getLogs({
      address: this.asset,
      event: transfer,
      args: { to: wallet },
      fromBlock: 0n,
      toBlock: "latest",
    });
  }

  /**
   * What payers have, and have paid to the service. The payee's own balance is left out: others pay it at the same
   * time.
   */
  async snapshot(...payers) {
    const wallets = payers.map((p) => p.address);
    const balances = await Promise.all(wallets.map((w) => this.balance(w)));
    const transfers = await Promise.all(wallets.map((w) => this.transfers(w)));
    return { balances, transfers };
  }

  /** Checks that since the snapshot each payer has paid for so many cards, one transfer each, and nothing else. */
  async assertPaid(before, payers, counts) {
    const now = await this.snapshot(...payers);
    const moved = now.transfers.map((logs, i) => logs.slice(before.transfers[i].length).map((log) => log.args.value));
    assert.deepEqual(
      moved,
      counts.map((n) => Array(n).fill(cardPrice)),
      "the transfers from payer to payee",
    );
    assert.deepEqual(
      before.balances.map((b, i) => b - now.balances[i]),
      counts.map((n) => BigInt(n) * cardPrice),
      "what left the payers' wallets",
    );
    return now;
  }
}

/** Runs an action by one payer and checks that it paid for exactly so many cards. */
export async function paying(chain, payer, count, action) {
  const before = await chain.snapshot(payer);
  const result = await action();
  await chain.assertPaid(before, [payer], [count]);
  return result;
}
