"""Buys roamcard cards and eSIMs with USDC on Base; a purchase cannot be paid twice by accident."""

from ._gen.roamcard.v1.card_pb import Card, GetCardBalanceResponse
from ._gen.roamcard.v1.esim_pb import EsimPlan
from ._gen.roamcard.v1.order_pb import EsimCredentials, Order
from .aio import AsyncPayingInterceptor, AsyncRoamcard
from .client import PayingInterceptor, Roamcard
from .core import Bought, BoughtEsim, Pending
from .errors import (
    AmbiguousPaymentError,
    ApiError,
    ApprovalDeniedError,
    ConflictError,
    InsufficientFundsError,
    KeyConflictError,
    NotFoundError,
    PaymentError,
    PolicyDeniedError,
    RevealError,
    RoamcardError,
    TermsMismatchError,
    UnauthorizedError,
    UnavailableError,
    UntrustedMessageError,
)
from .journal import Book, Entry, FileStore, MemoryStore, Store
from .policy import Policy, Quote
from .presenters import EsimPresenter, PagePresenter, Presented, Presenter, Showing, TerminalPresenter
from .programs import Events
from .secret import Secret
from .signers import CommandSigner, EthAccountSigner, Signer
from .x402 import Receipt, nonce_of

__all__ = [
    "AmbiguousPaymentError", "ApiError", "ApprovalDeniedError", "AsyncPayingInterceptor", "AsyncRoamcard", "Book", "Bought", "BoughtEsim", "Card",
    "CommandSigner", "ConflictError", "Entry", "EsimCredentials", "EsimPlan", "EsimPresenter", "EthAccountSigner", "Events", "FileStore", "GetCardBalanceResponse",
    "InsufficientFundsError", "KeyConflictError", "MemoryStore", "NotFoundError", "Order", "PagePresenter", "PayingInterceptor",
    "PaymentError", "Pending", "Policy", "PolicyDeniedError", "Presented", "Presenter", "Quote", "Receipt", "RevealError", "Roamcard",
    "RoamcardError", "Secret", "Showing", "Signer", "Store", "TerminalPresenter", "TermsMismatchError", "UnauthorizedError", "UnavailableError",
    "UntrustedMessageError", "nonce_of",
]  # fmt: skip
