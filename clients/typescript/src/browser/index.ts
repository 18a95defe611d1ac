export { IndexedDbStore } from "./indexed-db-store.js";
export { elementPresenter, type PresenterLabels, type PresenterOptions } from "./presenter.js";
export {
  discoverWallets, ensureChain, tokenBalance, type Wallet, type WalletChain, walletCode, type WalletProvider,
} from "./wallets.js";
