"""Buys roamcard cards and eSIMs with USDC on Base; a purchase cannot be paid twice by accident."""

from ._async.groups import AsyncCardOrder
from ._async.paging import AsyncListing, AsyncPage
from ._gen.models import (
    Card,
    CardMerchant,
    CardStatus,
    CardTransaction,
    EsimPlan,
    GetCardBalanceResponse,
    GetCardDiscoveryResponse,
    GetConfigResponse,
    GetEsimDiscoveryResponse,
    GetSessionResponse,
    GetTopupDiscoveryResponse,
    Order,
    OrderKind,
    OrderStatus,
)
from ._gen.roamcard.v1.order_pb import EsimCredentials
from ._sync.groups import CardOrder
from ._sync.paging import Listing, Page
from .aio import AsyncPayingInterceptor, AsyncRoamcard
from .answers import RawResponse, RawResponses
from .client import PayingInterceptor, Roamcard
from .errors import (
    AmbiguousPaymentError,
    ApiError,
    ApprovalDeniedError,
    ClockError,
    ConfigError,
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
from .journal import Book, Entry, Journal, MemoryStore, SignedAuthorization, Store, default_journal
from .model import Model
from .payer import Events
from .policy import Policy, Quote, Quoted
from .presenters import (
    BrowserPresenter,
    EsimPresenter,
    PagePresenter,
    Presented,
    Presenter,
    Showing,
    TerminalPresenter,
)
from .results import EsimOrder, PaidOrder, Pending, Resumed
from .secret import Secret
from .signers import CommandSigner, EthAccountSigner, NoWallet, OutsideWallet, Signer
from .x402 import Receipt, nonce_of

__all__ = [
    "AmbiguousPaymentError",
    "ApiError",
    "ApprovalDeniedError",
    "AsyncCardOrder",
    "AsyncListing",
    "AsyncPage",
    "AsyncPayingInterceptor",
    "AsyncRoamcard",
    "Book",
    "BrowserPresenter",
    "Card",
    "CardMerchant",
    "CardOrder",
    "CardStatus",
    "CardTransaction",
    "ClockError",
    "CommandSigner",
    "ConfigError",
    "ConflictError",
    "Entry",
    "EsimCredentials",
    "EsimOrder",
    "EsimPlan",
    "EsimPresenter",
    "EthAccountSigner",
    "Events",
    "FileStore",
    "GetCardBalanceResponse",
    "GetCardDiscoveryResponse",
    "GetConfigResponse",
    "GetEsimDiscoveryResponse",
    "GetSessionResponse",
    "GetTopupDiscoveryResponse",
    "InsufficientFundsError",
    "Journal",
    "JournalError",
    "KeyConflictError",
    "Listing",
    "MemoryStore",
    "Model",
    "NoWallet",
    "NotFoundError",
    "Order",
    "OrderKind",
    "OrderStatus",
    "OutsideWallet",
    "Page",
    "PagePresenter",
    "PaidOrder",
    "PayingInterceptor",
    "PaymentError",
    "Pending",
    "Policy",
    "PolicyDeniedError",
    "Presented",
    "Presenter",
    "Quote",
    "Quoted",
    "RawResponse",
    "RawResponses",
    "Receipt",
    "Resumed",
    "RevealError",
    "Roamcard",
    "RoamcardError",
    "Secret",
    "Showing",
    "SignedAuthorization",
    "Signer",
    "Store",
    "TerminalPresenter",
    "TermsMismatchError",
    "UnauthorizedError",
    "UnavailableError",
    "UntrustedMessageError",
    "default_journal",
    "nonce_of",
]  # fmt: skip
