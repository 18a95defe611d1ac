"""Buys roamcard cards and eSIMs with USDC on Base; a purchase cannot be paid twice by accident."""

from ._gen.roamcard.v1.card_pb import Card, GetCardBalanceResponse
from ._gen.roamcard.v1.esim_pb import EsimPlan
from ._gen.roamcard.v1.order_pb import EsimCredentials, Order
from .aio import AsyncPayingInterceptor, AsyncRoamcard
from .aio_groups import AsyncCardOrder
from .answers import RawResponse, RawResponses
from .client import PayingInterceptor, Roamcard
from .errors import (
    AmbiguousPaymentError,
    ApiError,
    ApprovalDeniedError,
    ClockError,
    ConflictError,
    InsufficientFundsError,
    JournalError,
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
from .filestore import FileStore
from .groups import CardOrder
from .journal import Book, Entry, Journal, MemoryStore, SignedAuthorization, Store, default_journal
from .payer import Events
from .policy import Policy, Quote, Quoted
from .presenters import EsimPresenter, PagePresenter, Presented, Presenter, Showing, TerminalPresenter
from .results import EsimOrder, PaidOrder, Pending, Resumed
from .secret import Secret
from .signers import CommandSigner, EthAccountSigner, OutsideWallet, Signer
from .x402 import Receipt, nonce_of

__all__ = [
    "AmbiguousPaymentError", "ApiError", "ApprovalDeniedError", "AsyncCardOrder", "AsyncPayingInterceptor", "AsyncRoamcard", "Book", "Card",
    "CardOrder", "ClockError", "CommandSigner", "ConflictError", "Entry", "EsimCredentials", "EsimOrder", "EsimPlan", "EsimPresenter",
    "EthAccountSigner", "Events", "FileStore", "GetCardBalanceResponse", "InsufficientFundsError", "Journal", "JournalError", "KeyConflictError",
    "MemoryStore", "NotFoundError", "Order", "OutsideWallet", "PagePresenter", "PaidOrder", "PayingInterceptor", "PaymentError", "Pending",
    "Policy", "PolicyDeniedError", "Presented", "Presenter", "Quote", "Quoted", "RawResponse", "RawResponses", "Receipt", "Resumed",
    "RevealError", "Roamcard", "RoamcardError", "Secret", "Showing", "SignedAuthorization", "Signer", "Store", "TerminalPresenter",
    "TermsMismatchError", "UnauthorizedError", "UnavailableError", "UntrustedMessageError", "default_journal", "nonce_of",
]  # fmt: skip
