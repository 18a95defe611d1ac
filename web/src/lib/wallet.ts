// A wallet of the browser, as pages deal with it.
import type { Config } from "roamcard";
import { ensureChain, type Wallet, type WalletChain, walletCode } from "roamcard/browser";
import type { NoticeKind } from "./notice.js";
import { texts } from "./text.js";

/** What is waited for. */
export type Step = "connecting" | "switching" | "checking" | "signing" | "sending";

/** The chain that the service is paid on, as wallets have to know it. */
export function chainOf({ network, environment }: Config): WalletChain {
  const { chainId = 0, rpcUrl, explorerUrl } = network ?? {};
  const name = environment === "production" ? texts.baseNetwork : texts.testNetwork;
  return { id: chainId, name, rpcUrl, explorerUrl };
}

/** The accounts of a wallet: those that it shows to this page already, or after it has asked the person. */
export async function accountsOf(wallet: Wallet, how: "asked" | "shown"): Promise<string[]> {
  const method = how === "asked" ? "eth_requestAccounts" : "eth_accounts";
  return (await wallet.provider.request({ method })) as string[];
}

/** Brings a wallet to the chain, and says what a person is told when it stays elsewhere. */
export async function notOn(wallet: Wallet, chain: WalletChain): Promise<NoticeKind | undefined> {
  try {
    await ensureChain(wallet.provider, chain);
    return undefined;
  } catch (error) {
    return walletCode(error) === 4001 ? "refused" : "wrongChain";
  }
}

/** Calls `changed` when a wallet changes its account or its chain, until the function that it returns is called. */
export function followWallet(wallet: Wallet, changed: () => void): () => void {
  const events = ["accountsChanged", "chainChanged"];
  for (const event of events) wallet.provider.on?.(event, changed);
  return () => {
    for (const event of events) wallet.provider.removeListener?.(event, changed);
  };
}
