export { commandSigner } from "./command-signer.js";
export { defaultJournal, FileStore } from "./file-store.js";
export { ConfigError, fromEnv } from "./from-env.js";
export { pagePresenter } from "./page.js";
export { terminalPresenter } from "./terminal.js";
