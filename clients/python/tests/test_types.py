"""What a caller hands over in a wrong type is refused at once; errors and results survive being copied."""

from __future__ import annotations

import copy
import inspect
import pickle
import secrets
from typing import Any

import httpx
import pytest
from eth_account import Account
from test_given import GROUPS, Signer, arguments, failure
from wire import Wire

import roamcard
from roamcard import AsyncRoamcard, EsimOrder, Policy, Roamcard, RoamcardError, Secret, WrongTypeError
from roamcard._gen.models import Order
from roamcard._sync.groups import CardOrder
from roamcard.errors import WrongField

WRONG = {"int": (2500.5, True, "2500", -1, 2**70, b"1"), "str": (5, True, b"x", 2.5, ["x"])}
NO_PART_OF_A_REQUEST = {"resource", "present", "secret"}


def wrong(client: Any) -> list[tuple[str, str, str, Any]]:
    """Every argument of every method that is a text or a whole number, with what is neither."""
    return [
        (group, name, parameter.name, value)
        for group in GROUPS
        for name, method in inspect.getmembers(type(getattr(client, group)), callable)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters.values()
        if parameter.name not in NO_PART_OF_A_REQUEST
        for kind in [str(parameter.annotation).removesuffix(" | None")]
        for value in WRONG.get(kind, ())
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nothing_is_signed_or_sent_for_a_wrong_type(kind: str) -> None:
    signer = Signer(Account.from_key("0x" + secrets.token_hex(32)))
    wire = Wire(kind, *[lambda request: httpx.ConnectError("sent")] * 1000)
    of: Any = Roamcard if kind == "sync" else AsyncRoamcard
    client = of(
        "http://127.0.0.1:9", signer, Policy("autonomous", "250", "1000"), operator_token="t",
        http_transport=wire.transport,
    )  # fmt: skip
    found = wrong(client)
    assert {("cards", "top_up"), ("quote", "topup"), ("esim", "purchase")} <= {(g, n) for g, n, _, _ in found}
    for group, name, parameter, value in found:
        method = getattr(getattr(client, group), name)
        given = {**arguments(method, "", ""), parameter: value}
        error = failure(method, given)
        what = f"{group}.{name}({parameter}={value!r})"
        assert isinstance(error, WrongTypeError) and isinstance(error, TypeError), f"{what}: {error!r}"
        assert (wire.requests, signer.signed) == ([], []), what
    for order in (5, None, object()):
        assert isinstance(failure(client.esim.cancel, {"order": order}), WrongTypeError)
    assert isinstance(failure(client.cards.set_limits, {"card_id": "x", "allowed_categories": "5411"}), WrongTypeError)


def every_error() -> list[RoamcardError]:
    api = roamcard.ConflictError(
        409, "order_open", "There is one.", request_id="r", retryable=True, next_action="poll_order", order_id="ord_1",
        fields=(WrongField("a", "in", "b"),), retry_after=2.5,
    )  # fmt: skip
    api.retry_at = 17
    made: list[RoamcardError] = [
        api, roamcard.ConfigError(["one", "two"]), roamcard.InsufficientFundsError("r"),
        roamcard.KeyConflictError("k"), roamcard.AmbiguousPaymentError("k", "ord_1", "r"),
        roamcard.JournalError("f", "read_only", "d"),
    ]  # fmt: skip
    kinds = [one for one in vars(roamcard).values() if isinstance(one, type) and issubclass(one, RoamcardError)]
    for kind in kinds:
        if not any(type(error) is kind for error in made):
            made.append(kind(404, "gone", "text") if issubclass(kind, roamcard.ApiError) else kind("text"))
    assert len(made) == len(kinds) and len(kinds) > 15
    return made


def test_errors_survive_pickle_and_copy() -> None:
    for error in every_error():
        error.idempotency_key = "kept"
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(again) is type(error)
            assert (str(again), again.to_dict(), vars(again)) == (str(error), error.to_dict(), vars(error))


def test_results_are_copied_and_their_secrets_are_not_written_down() -> None:
    of: Any = Order
    order: Order = of(**dict.fromkeys(inspect.signature(Order).parameters))  # what it holds does not matter
    client = Roamcard("http://127.0.0.1:9", None, Policy("autonomous", "1", "1"))
    esim = EsimOrder(order, "k", False, None, "r", Secret("token"), None)
    card = CardOrder(order, "k", False, None, "r", _cards=client.cards)
    for result in (order, esim, card):
        for again in (copy.copy(result), copy.deepcopy(result)):
            assert again == result and again.to_dict() == result.to_dict()
    token = copy.deepcopy(esim).delivery_token
    assert token is not None and token.reveal() == "token"
    with pytest.raises(TypeError, match="not written down"):
        pickle.dumps(esim)


def test_the_package_says_its_version() -> None:
    assert roamcard.__version__ and f"/{roamcard.__version__} " in roamcard.version.USER_AGENT
