export { IndexedDbStore } from "./indexed-db-store.js";
