"""What can go wrong, as types that a caller can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

_LONGEST = 2_000
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Controls of terminals, and what makes a text look like another one."""


def printable(text: object) -> str:
    """A text of the service, safe for a terminal, a log and a reader: controls are escaped, and a long text is cut."""
    shown = _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], str(text))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


class RoamcardError(Exception):
    """The base of everything this package raises on purpose."""

    request_id: str = ""
    """What the service's operators ask for; empty when no answer of theirs led to this."""
    idempotency_key: str = ""
    """Set once a payment was signed: only a call with this key is safe from paying twice."""
    _told: tuple[str, ...] = ("request_id", "idempotency_key")

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(message))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again from their message alone, which is not what the classes of this package take.
        return _restored, (type(self), self.args, dict(vars(self)))

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as json.dumps takes it: `type`, `message`, and the members that are set."""
        members = {name: value for name in self._told if (value := getattr(self, name)) not in ("", None, ())}
        if fields := members.get("fields"):
            members["fields"] = [asdict(field) for field in fields]
        return {"type": type(self).__name__, "message": str(self), **members}


def _restored(kind: type[RoamcardError], args: tuple[Any, ...], members: dict[str, Any]) -> RoamcardError:
    """An error that was copied or pickled."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(members)
    return error


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Adds the `idempotency_key` to whatever is raised: after a signature, interrupts need it too."""
    try:
        yield
    except BaseException as error:
        vars(error)["idempotency_key"] = key
        if not isinstance(error, RoamcardError) and (note := getattr(error, "add_note", None)):
            note(f"A payment may be signed: call again with the idempotency_key {key}.")
        raise


class EmptyError(RoamcardError, ValueError):
    """A key, an id, a token or a reason was given and is empty, as a variable that is not set makes it.

    Nothing was signed or sent. A new key is made when none is given.
    """


class WrongTypeError(RoamcardError, TypeError):
    """An argument has another type than the call takes, or a number that it has no place for. Nothing was sent."""


class ConfigError(RoamcardError):
    """The environment makes no client. It names every mistake, and no secret."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__(f"the environment makes no client: {'; '.join(mistakes)}")
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True)
class WrongField:
    """One wrong member of a request."""

    path: str
    rule: str
    message: str


class ApiError(RoamcardError):
    """The service answered with a failure. `request_id` is what its operators ask for."""

    _told = (
        "status", "code", "detail", "request_id", "idempotency_key", "retryable", "safe_to_pay_again", "next_action",
        "order_id", "fields", "retry_after", "retry_at",
    )  # fmt: skip

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        request_id: str = "",
        retryable: bool = False,
        safe_to_pay_again: bool = False,
        next_action: str = "",
        order_id: str | None = None,
        fields: tuple[WrongField, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        """The HTTP status; 0 when no answer of the service came."""
        self.code = printable(code)
        self.detail = printable(detail)
        self.request_id = printable(request_id)
        self.retryable = retryable
        """Whether the same request can succeed later: where there is a `retry_at`, from then on."""
        self.safe_to_pay_again = safe_to_pay_again
        """Whether a new payment is safe: no authorization of this key can still land."""
        self.next_action = printable(next_action)
        self.order_id = None if order_id is None else printable(order_id)
        self.fields = fields
        self.retry_after = retry_after
        """How many seconds the service asks to wait before another try."""
        self.retry_at: int | None = None
        """When another payment may be signed for the key, in seconds since 1970: the chain no longer takes this one."""


class ConflictError(ApiError):
    """409: the state of the service, or an earlier use of the key, forbids it."""


class NotFoundError(ApiError):
    """404."""


class UnauthorizedError(ApiError):
    """401: the session or a signature was not accepted."""


class UnavailableError(ApiError):
    """429 or 5xx: not now."""


def api_error_type(status: int) -> type[ApiError]:
    """The error class of a status."""
    kinds: dict[int, type[ApiError]] = {
        401: UnauthorizedError,
        404: NotFoundError,
        409: ConflictError,
        429: UnavailableError,
    }
    return UnavailableError if status >= 500 else kinds.get(status, ApiError)


def may_pass(error: ApiError) -> bool:
    """Whether a failure to read may pass by itself."""
    return is_unclear(error.status, error.retryable)


def is_unclear(status: int, retryable: bool) -> bool:
    """Whether an answer of this status says nothing final."""
    return retryable or status >= 500 or status in (408, 425, 429)


class PaymentError(RoamcardError):
    """A payment was not made, or its outcome is not known."""


class TermsMismatchError(PaymentError):
    """The service asks for something else than it publishes or than is pinned. Nothing was signed."""


class PolicyDeniedError(PaymentError):
    """The policy forbids this payment. Nothing was signed."""


class ApprovalDeniedError(PaymentError):
    """The person, or the function in their place, said no. Nothing was signed."""


class InsufficientFundsError(PaymentError):
    """The wallet holds less than the price."""

    def __init__(self, request_id: str) -> None:
        super().__init__("the wallet holds less USDC than the price")
        self.request_id = request_id


class KeyConflictError(PaymentError):
    """The key was used with another request before. Nothing was signed."""

    def __init__(self, idempotency_key: str) -> None:
        super().__init__(
            f"the idempotency key {idempotency_key} belongs to another request; use a new key for a new purchase"
        )
        self.idempotency_key = idempotency_key


class AmbiguousPaymentError(PaymentError):
    """Whether the payment was taken is not known yet.

    Call again with the same idempotency_key, in this process or another one with the same store: the same signed bytes
    go out, and nothing can be paid twice.
    """

    retryable = True
    _told = ("request_id", "idempotency_key", "order_id", "retryable")

    def __init__(self, idempotency_key: str, order_id: str | None, request_id: str = "") -> None:
        super().__init__(
            f"the outcome of the payment is not known yet; call again with idempotency_key {idempotency_key}"
        )
        self.idempotency_key = idempotency_key
        self.order_id = order_id
        self.request_id = request_id


class NotDeployedError(PaymentError):
    """The smart account that is to pay has no code on the chain, and its signature does not say how it is made.

    Nothing was sent.
    """


class ClockError(PaymentError):
    """This computer's clock differs from the service's by more than a minute. Nothing was signed."""


JournalReason = Literal["damaged", "foreign", "unreadable", "read_only", "full", "failed", "locked", "exposed"]


class JournalError(RoamcardError):
    """The journal cannot be read or kept. Nothing is sent that is not kept."""

    _told = ("file", "reason", "idempotency_key")

    def __init__(self, file: str, reason: JournalReason, detail: str) -> None:
        super().__init__(f"the journal {file} is {reason.replace('_', ' ')}: {detail}")
        self.file = file
        self.reason = reason


class UntrustedMessageError(RoamcardError):
    """A message or typed data that the client was asked to sign is not what it should be. It was not signed."""


class RevealError(RoamcardError):
    """The presenter did not show the card, or what came could not be opened."""
