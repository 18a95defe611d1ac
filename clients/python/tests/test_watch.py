"""An order is followed to its end, whatever becomes of the stream."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest
from conftest import CountingSigner, Dev, Proxy

from roamcard import NotFoundError

STREAM = "/roamcard.v1.OrderService/WatchOrder"
LIFECYCLE = ["settling", "settled", "provisioning", "fulfilled"]


def calls(proxy: Proxy, method: str) -> int:
    return sum(r["path"].endswith(f"/{method}") for r in proxy.requests())


def followed(dev: Dev, proxy: Proxy, make: Any, *faults: dict[str, Any]) -> tuple[Any, str]:
    """Buys a card and follows its order through faults: it has to be seen to move forwards only, each time once, to its end."""
    client = make(CountingSigner(dev.wallet()))
    order_id: str = client.buy_card().order.order_id
    proxy.inject(*({"on": STREAM, **fault} for fault in faults))
    seen = list(client.watch_order(order_id, interval=0.1))
    states = [(LIFECYCLE.index(o.status), o.issuance.status) for o in seen]
    assert [step for step, _ in states] == sorted(step for step, _ in states)
    assert len(set(states)) == len(states)
    assert states[-1] == (3, "active")
    return client, order_id


def test_an_order_is_followed_over_the_stream_without_asking(dev: Dev, proxy: Proxy, make: Any) -> None:
    client, order_id = followed(dev, proxy, make)
    assert calls(proxy, "GetOrder") == 0
    assert [o.status for o in client.watch_order(order_id)] == ["fulfilled"]


@pytest.mark.parametrize("cuts", [(1,), (2,), (2, 1, 2, 1)], ids=["in its first answer", "in its second answer", "again and again"])
def test_a_stream_that_is_cut_misses_no_change(dev: Dev, proxy: Proxy, make: Any, cuts: tuple[int, ...]) -> None:
    followed(dev, proxy, make, *({"cutMessage": n} for n in cuts))


def test_where_no_stream_gets_through_the_order_is_asked_for_again_and_again(dev: Dev, proxy: Proxy, make: Any) -> None:
    followed(dev, proxy, make, *[{"status": 501, "forward": False}] * 10)
    assert calls(proxy, "WatchOrder") <= 2, "streams that do not get through are given up"
    assert calls(proxy, "GetOrder") >= 1


def test_another_wallets_order_is_not_followed(dev: Dev, proxy: Proxy, make: Any) -> None:
    _, order_id = followed(dev, proxy, make)
    with pytest.raises(NotFoundError):
        list(make(CountingSigner(dev.wallet())).watch_order(order_id))


def test_a_session_that_ended_is_made_anew_for_a_stream_too(dev: Dev, proxy: Proxy, make: Any) -> None:
    client, order_id = followed(dev, proxy, make)
    token = next(r["authorization"] for r in proxy.requests() if r["path"] == STREAM)
    logout = urllib.request.Request(f"{dev.base_url}/api/auth/logout", b"", {"authorization": token}, method="POST")
    urllib.request.urlopen(logout, timeout=10).close()
    assert [o.status for o in client.watch_order(order_id, interval=0.1)] == ["fulfilled"]
