export { IndexedDbStore } from "./indexed-db-store.js";
export { elementPresenter } from "./presenter.js";
