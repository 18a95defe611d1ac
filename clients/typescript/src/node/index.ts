export { commandSigner } from "./command-signer.js";
export { FileStore } from "./file-store.js";
export { pagePresenter } from "./page.js";
export { terminalPresenter } from "./terminal.js";
