"""Buys a card and shows it: WALLET_KEY=0x… python examples/buy_card.py, with `roamcard dev` running."""

import os

from eth_account import Account

from roamcard import AmbiguousPaymentError, EthAccountSigner, Events, FileStore, Policy, Roamcard

events = Events(
    on_quote=lambda quote: print(f"It costs {quote.amount_usd} USDC, paid to {quote.pay_to}."),
    on_replay=lambda key, replay, error: print(f"No clear answer; sending the same payment again ({replay})."),
)
client = Roamcard(
    os.environ.get("ROAMCARD_URL", "http://127.0.0.1:8402"),
    EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"])),
    Policy("autonomous", max_per_payment_usd="25", max_per_day_usd="25"),
    store=FileStore(".roamcard"),
    events=events,
)

with client:
    try:
        bought = client.cards.purchase(idempotency_key="example-card")
    except AmbiguousPaymentError:
        raise SystemExit(
            "It is not known yet whether the payment was taken. Run this again: it pays at most once."
        ) from None
    print(f"Order {bought.order_id} is paid.")
    card = bought.wait_until_active(on_update=lambda order: print(f"The order is {order.status}."))
    print(f"Card {card.id} ending in {card.last4} is ACTIVE.")
    print("You have seen it." if client.cards.reveal(card.id).presented else "Nobody looked.")
