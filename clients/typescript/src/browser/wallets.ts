// The wallets of a browser: found by EIP-6963, brought to the right chain, and asked what they hold.
import type { Eip1193Provider } from "../signers.js";

/** A provider that tells of changes, as those of browser wallets do. */
export interface WalletProvider extends Eip1193Provider {
  on?(event: string, listener: (...args: never[]) => void): unknown;
  removeListener?(event: string, listener: (...args: never[]) => void): unknown;
}

/** A wallet as it announces itself. Its name is a stranger's text. */
export interface Wallet {
  id: string;
  name: string;
  /** A picture as a data: URL; undefined when the wallet has none that needs no request. */
  icon: string | undefined;
  provider: WalletProvider;
}

/** A chain, as wallets have to know it. */
export interface WalletChain {
  /** The EIP-155 id. */
  id: number;
  name: string;
  /** A node; without one, a wallet that does not know the chain cannot be told. */
  rpcUrl?: string | undefined;
  explorerUrl?: string | undefined;
}

/** How long wallets have to announce themselves before a provider without a name is taken. */
const announcing = 300;

/**
 * Calls `found` with all wallets that are there, now and whenever another one announces itself, until the function that
 * it returns is called. A browser that has one wallet and no EIP-6963, as those in phones, has that one.
 */
export function discoverWallets(found: (wallets: Wallet[]) => void): () => void {
  const all = new Map<string, Wallet>();
  const add = (wallet: Wallet) => {
    if (all.has(wallet.id)) return;
    all.set(wallet.id, wallet);
    found([...all.values()]);
  };
  const announced = (event: Event) => {
    const { info, provider } = ((event as CustomEvent<unknown>).detail ?? {}) as {
      info?: Record<string, unknown>;
      provider?: WalletProvider;
    };
    if (!info || typeof provider?.request !== "function") return;
    const icon = String(info.icon ?? "");
    const name = String(info.name ?? "").slice(0, 60);
    const shown = icon.startsWith("data:image/") ? icon : undefined;
    add({ id: String(info.uuid ?? info.rdns ?? name), name, icon: shown, provider });
  };
  const unnamed = setTimeout(() => {
    const { ethereum } = globalThis as { ethereum?: WalletProvider };
    if (all.size === 0 && typeof ethereum?.request === "function")
      add({ id: "ethereum", name: "", icon: undefined, provider: ethereum });
  }, announcing);
  addEventListener("eip6963:announceProvider", announced);
  dispatchEvent(new Event("eip6963:requestProvider"));
  return () => {
    clearTimeout(unnamed);
    removeEventListener("eip6963:announceProvider", announced);
  };
}

/** What a wallet answers that does not know a chain. */
const unknownChain = 4902;

/** Brings a wallet to a chain, and tells it the chain when it does not know it. It rejects when the person refuses. */
export async function ensureChain(provider: Eip1193Provider, chain: WalletChain): Promise<void> {
  const chainId = `0x${chain.id.toString(16)}`;
  const there = async () => Number(await provider.request({ method: "eth_chainId" })) === chain.id;
  if (await there()) return;
  const change = () => provider.request({ method: "wallet_switchEthereumChain", params: [{ chainId }] });
  try {
    await change();
  } catch (error) {
    if (walletCode(error) !== unknownChain || chain.rpcUrl === undefined) throw error;
    const nativeCurrency = { name: "Ether", symbol: "ETH", decimals: 18 };
    const explorers = chain.explorerUrl === undefined ? {} : { blockExplorerUrls: [chain.explorerUrl] };
    const told = { chainId, chainName: chain.name, nativeCurrency, rpcUrls: [chain.rpcUrl], ...explorers };
    await provider.request({ method: "wallet_addEthereumChain", params: [told] });
    if (!(await there())) await change();
  }
  if (!(await there())) throw new TypeError(`the wallet stays on another chain than ${chain.name}`);
}

/** What an account has of a token, in the token's smallest unit, as the wallet's own node tells. */
export async function tokenBalance(provider: Eip1193Provider, token: string, account: string): Promise<bigint> {
  const data = `0x70a08231${account.slice(2).toLowerCase().padStart(64, "0")}`;
  const answer = String(await provider.request({ method: "eth_call", params: [{ to: token, data }, "latest"] }));
  if (!/^0x[0-9a-fA-F]{1,64}$/.test(answer)) throw new TypeError("the wallet's node does not tell the balance");
  return BigInt(answer);
}

/** The EIP-1193 code of what a wallet rejected with, at any depth: 4001 is a person's no. */
export function walletCode(error: unknown): number | undefined {
  for (let at: unknown = error, depth = 0; at && typeof at === "object" && depth < 6; depth++) {
    const { code, data, cause } = at as { code?: unknown; data?: { originalError?: unknown }; cause?: unknown };
    const inner = data?.originalError ?? cause;
    if (typeof code === "number" && (code === 4001 || code === unknownChain || inner === undefined)) return code;
    at = inner;
  }
  return undefined;
}
