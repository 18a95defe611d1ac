export type { Admin } from "./admin.js";
export { type Auth, Buyer, type Pending, type Resumed } from "./buyer.js";
export type { Call, CallHeaders, CallOptions, Listing, Page, PageOptions, RawResponse } from "./call.js";
export type { CardOrder, Cards } from "./cards.js";
export { payingInterceptor } from "./connect.js";
export type { RoamcardOptions } from "./connection.js";
export type { Discovery, Quotes } from "./discovery.js";
export * from "./errors.js";
export type { DeliveryOptions, DeliveryToken, EsimOrder, Esims, PlanFilter, Plans } from "./esims.js";
export { failure } from "./failures.js";
export {
  type Book,
  emptyBook,
  type Entry,
  Journal,
  MemoryStore,
  readBook,
  type SignedAuthorization,
  type Store,
} from "./journal.js";
export { isMasked, type LinkPayment, PayLink, type PayLinkOptions } from "./links.js";
export type { Logger } from "./logger.js";
export { type Dollars, dollarsOf, unitsOfDollars } from "./money.js";
export type { KeyOptions, ListOptions } from "./operated.js";
export type { Orders, PaidOrder, PurchaseOptions, WaitOptions } from "./orders.js";
export { Payer, type PayerOptions, type PaymentEvents, type Published, type Quotation } from "./payer.js";
export type { Policy, Quote } from "./policy.js";
export type { EsimPresenter, Presented, Presenter, Showing } from "./presenter.js";
export { type Fetch, type FetchOptions, payingFetch } from "./rest.js";
export type * from "./results.js";
export { Roamcard } from "./roamcard.js";
export { Secret } from "./secret.js";
export { Storefront, type StorefrontOptions } from "./storefront.js";
export { safeSigner } from "./safe.js";
export { type Eip1193Provider, eip1193Signer, type Signer, type TypedData } from "./signers.js";
export { version } from "./version.js";
export { nonceOf, type Offer, type Receipt, type Terms } from "./x402.js";
