"""A tiny shop: colleagues order eSIMs on its page, and whoever has the team's wallet pays them at their links.

The shop signs the wallet in and creates unpaid orders. It cannot pay. It keeps nothing either: the orders are the
service's, so that a shop that is killed and started again goes on where it was.
"""

import json
import os
import threading
import uuid
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from eth_account import Account
from roamcard import EthAccountSigner, Order, Policy, Roamcard, RoamcardError


class SignInOnly(EthAccountSigner):
    """A wallet that signs in, and refuses what could move money: payments are typed data, sign-ins are texts."""

    def sign_typed_data(self, data: dict[str, object]) -> str:
        raise RoamcardError("the shop signs no payment")


# Each payment would have to be approved, and nobody is asked. One client serves all threads.
client = Roamcard(
    os.environ.get("ROAMCARD_URL", "http://127.0.0.1:8402"),
    SignInOnly(Account.from_key(os.environ["WALLET_KEY"])),
    Policy("human_approval"),
)


watched: dict[str, threading.Thread] = {}


def watch(order: Order) -> None:
    """Tells how an order goes on, in a thread of its own. The service pushes each change."""

    def run() -> None:
        for now in client.orders.watch(order):
            where = "paid on chain" if now.payment else now.payable_url
            print(f"Order {now.order_id} is {now.status}: {where}", flush=True)

    thread = threading.Thread(target=run, daemon=True)
    if watched.setdefault(order.order_id, thread) is thread:
        thread.start()


def row(order: Order) -> str:
    """One order as a row. The link can be given to anybody: only the wallet that ordered can pay at it."""
    # The name of a plan is a supplier's text, and is escaped like any other text of strangers.
    name = escape(order.delivery.plan_name or "" if order.delivery else "")
    link = f'<a href="{escape(order.payable_url)}">pay {order.order_id}</a>' if order.payable_url else order.order_id
    return f"<tr><td>{name}<td>{order.amount_usd_cents / 100:.2f} USD<td>{order.status}<td>{link}"


def page() -> str:
    plans = "".join(
        f'<option value="{escape(p.plan_id)}">{escape(p.name)}, {p.price_usd_cents / 100:.2f} USD'
        for p in client.plans.list(country_code="FR")
    )
    orders = "".join(row(order) for order in client.orders.list(kind="esim").page(size=20).items)
    # The key is made with the form and not when it is sent: a form that is sent twice is one order.
    return f"""<!doctype html><meta charset="utf-8"><title>eSIMs</title><h1>eSIMs for the team</h1>
<form method="post" action="/orders"><input type="hidden" name="key" value="{uuid.uuid4()}">
<select name="plan">{plans}</select> <button>Order</button></form><table>{orders}</table>"""


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/":
            self.answer(200, "text/html; charset=utf-8", page())
        elif self.path == "/orders":
            orders = client.orders.list(kind="esim").page(size=20).items
            self.answer(200, "application/json", json.dumps([order.to_dict() for order in orders]))
        else:
            self.answer(404, "text/plain", "not found")

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 4096)).decode())
        try:
            order = client.orders.create_esim(form["plan"][0], idempotency_key=form["key"][0])
        except KeyError:
            return self.answer(400, "text/plain", "a plan and a key are needed")
        except RoamcardError as error:
            return self.answer(502, "text/plain", str(error))
        watch(order)
        self.answer(303, "text/plain", order.order_id, location="/")

    def answer(self, status: int, kind: str, body: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Says nothing of requests."""


session = client.auth.sign_in()
for open_order in client.orders.list(active=True, kind="esim"):  # those of an earlier run
    watch(open_order)
server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Shop)
print(f"The shop of {session.wallet} is at http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
