/**
 * Tests programs that buy: a fake of the service in this process, and faults between a client and the fake or a real
 * service. It is what roamcard.testing is for Python and roamcardtest for Go, by the same words. For Node.
 *
 * The fake needs no chain, no database and no network. It serves what the clients call, over Connect and REST:
 * settings, plans, 402 with the terms of x402, purchases, orders that are paid later, sign-in, cards, balances, eSIMs.
 * It does not serve streams (clients ask again and again instead), reveals of cards, or what operators do.
 *
 * Its token keeps balances in memory, checks each authorization as the chain would (EIP-3009: payee, amount, time, and
 * the signature where viem is installed), takes each nonce once, and lists its transfers. A repeat gets the same order,
 * with `replayed: true`.
 *
 * Faults hit the requests that a `When` names: the answer is lost after the service acted, or the request before it;
 * the answer is cut, held, another one, or a page; the request comes twice.
 *
 * `look` is the person at a pagePresenter's page.
 */
export { type Answer, Faults, type SeenRequest, type When } from "./faults.js";
export { look, type Seen } from "./person.js";
export { FaultProxy } from "./proxy.js";
export { FakeService, type FakeServiceOptions } from "./service.js";
export { Token, type Transfer, type Verify } from "./token.js";
