"""Writes _gen/models.py: the messages of the API that are results, as plain classes.

The generated messages are what they are made of.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
GENERATED = Path(__file__).parents[1] / "src/roamcard/_gen"

# The messages alone: the package itself needs what is written here.
sys.path.insert(0, str(GENERATED))
from roamcard.v1 import activity_pb, auth_pb, card_pb, esim_pb, operator_pb, order_pb, service_pb  # noqa: E402

RESULTS = (
    order_pb.Order, card_pb.Card, card_pb.GetCardBalanceResponse, card_pb.CardTransaction, card_pb.CardLimits,
    card_pb.CardDetails,
    esim_pb.EsimPlan, esim_pb.EsimProfile, esim_pb.EsimCancellation, auth_pb.GetSessionResponse,
    service_pb.GetConfigResponse, service_pb.GetStatusResponse,
    card_pb.GetCardDiscoveryResponse,
    card_pb.GetTopupDiscoveryResponse, esim_pb.GetEsimDiscoveryResponse, operator_pb.FeeJob, operator_pb.CardClosing,
    operator_pb.Finding, operator_pb.Reconciliation, operator_pb.ReconciliationRun, operator_pb.ReviewItem,
    operator_pb.InspectOrderResponse, operator_pb.Switch, operator_pb.UnmatchedTransfer,
    operator_pb.OrderCount, operator_pb.AuditRecord, operator_pb.ReviewOrderResponse, operator_pb.OperatorJob,
    operator_pb.OperatorCard,
    operator_pb.GetGaugesResponse, operator_pb.Approval, operator_pb.OperatorToken, operator_pb.MintTokenResponse,
    operator_pb.WhoAmIResponse, operator_pb.GetSummaryResponse, operator_pb.EsimCancellationJob,
    operator_pb.GetChallengeRetentionResponse, operator_pb.PruneChallengesResponse, activity_pb.GetActivityResponse,
    activity_pb.PruneActivityResponse,
)  # fmt: skip

UNIONS = {
    "OrderKind": ("card_issue", "card_topup", "esim", "esim_topup"),
    "OrderStatus": (
        "payment_required", "settling", "settled", "provisioning", "fulfilled", "expired", "refund_pending", "refunded",
        "operator_review",
    ),
    "IssuanceStatus": ("unpaid", "queued", "pending", "active", "closed", "refused", "review"),
    "TopupStatus": ("unpaid", "queued", "pending", "credited", "refused", "review"),
    "RefundStatus": ("pending", "refunded"),
    "DeliveryStatus": ("unpaid", "pending", "fulfilled", "cancelled", "review", "refund_pending", "refunded"),
    "EsimTopupStatus": ("unpaid", "pending", "fulfilled", "review", "refund_pending", "refunded"),
    "CardStatus": ("PENDING", "ACTIVE", "FROZEN", "CLOSED", "FAILED"),
    "TransactionKind": ("purchase", "refund"),
    "TransactionStatus": ("pending", "completed", "declined", "reversed"),
    "DeclineReason": (
        "insufficient_funds", "card_frozen", "card_closed", "limit_exceeded", "merchant_not_allowed",
        "verification_failed", "suspected_fraud", "other",
    ),
    "PlanType": ("country", "region"),
    "CancellationStatus": ("cancelling", "refunding", "refunded", "kept", "review"),
    "ProfileStatus": ("not_installed", "installed", "active", "used_up", "expired", "cancelled", "unknown"),
    "FeeJobStatus": ("queued", "processing", "succeeded", "failed", "operator_review"),
    "ReviewStatus": ("open", "resolved"),
    "ReconciliationOutcome": ("agreed", "differed", "incomplete", "failed"),
    "TransferResolution": ("refunded_by_hand", "donation", "known"),
    "RefundRecordStatus": ("signed", "paid", "dead"),
    "ServiceStatus": ("open", "degraded", "paused"),
}  # fmt: skip
"""The texts that a member can be; a later service may add some."""

MEMBERS = {
    "Order.kind": "OrderKind", "Order.status": "OrderStatus", "Issuance.status": "IssuanceStatus",
    "Topup.status": "TopupStatus", "Refund.status": "RefundStatus", "EsimDelivery.status": "DeliveryStatus",
    "EsimTopup.status": "EsimTopupStatus",
    "Card.status": "CardStatus", "CardTransaction.kind": "TransactionKind",
    "CardTransaction.status": "TransactionStatus", "CardTransaction.decline_reason": "DeclineReason",
    "EsimPlan.type": "PlanType", "EsimProfile.status": "ProfileStatus",
    "OperatorCard.status": "CardStatus",
    "EsimCancellation.status": "CancellationStatus", "FeeJob.status": "FeeJobStatus",
    "Finding.product": "OrderKind", "Finding.status": "ReviewStatus", "UnmatchedTransfer.status": "ReviewStatus",
    "ReconciliationRun.outcome": "ReconciliationOutcome", "UnmatchedTransfer.resolution": "TransferResolution",
    "ReviewItem.kind": "OrderKind",
    "ReviewItem.status": "OrderStatus", "RefundRecord.status": "RefundRecordStatus",
    "GetStatusResponse.status": "ServiceStatus", "ProductStatus.status": "ServiceStatus",
    "ProductStatus.product": "OrderKind", "OrderCount.kind": "OrderKind",
}  # fmt: skip

ALWAYS = {
    "GetConfigResponse": ("*",), "GetCardDiscoveryResponse": ("*",), "GetTopupDiscoveryResponse": ("*",),
    "GetEsimDiscoveryResponse": ("*",), "Card": ("created_at",), "GetCardBalanceResponse": ("as_of",),
    "CardTransaction": ("at", "merchant"), "EsimProfile": ("read_at",), "EsimCancellation": ("since",),
    "GetSessionResponse": ("expires_at",), "GetStatusResponse": ("as_of",), "ProductStatus": ("since",),
    "OrderCount": ("since",), "AuditRecord": ("at",), "GetGaugesResponse": ("as_of",), "MintTokenResponse": ("token",),
    "OperatorToken": ("minted_at", "expires_at"), "Approval": ("requested_at", "expires_at"), "LedgerPosting": ("at",),
    "GetSummaryResponse": ("as_of",), "EsimCancellationJob": ("since", "created_at"),
    "ReviewOrderResponse": ("order",), "ReconciliationRun": ("began_at", "ended_at"),
}  # fmt: skip
"""Members that every answer has, although a message could be without: all of a result, or some."""

SCALARS = {1: "float", 2: "float", 8: "bool", 9: "str", 12: "bytes"}
"""The types of descriptor.proto that are no whole numbers."""


def main() -> None:
    docs = read_docs()
    messages: dict[str, Any] = {}
    for result in RESULTS:
        walk(result._desc, messages)
    # The words of ReviewItem.status are told once, with those of an order.
    told = {**docs, "ReviewItem.status": docs["Order.status"]}
    unknown = [
        f"{member}: {word}" for member, union in MEMBERS.items() for word in UNIONS[union] if word not in told[member]
    ]
    if unknown:
        sys.exit(f"the contract does not say: {unknown}")
    parts = [HEAD]
    parts += [f"{name}: TypeAlias = Literal[{', '.join(map(json.dumps, words))}]\n" for name, words in UNIONS.items()]
    parts += [written(message, docs) for message in messages.values()]
    (GENERATED / "models.py").write_text("".join(parts))


HEAD = '''# Generated by tools/models.py. DO NOT EDIT.
# ruff: noqa
# fmt: off
"""What the service answers, as plain and immutable classes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ..model import Model

'''


def walk(message: Any, messages: dict[str, Any]) -> None:
    """Collects what a message is made of, inner ones first."""
    if message.name in messages or message.type_name.startswith("google."):
        return
    for field in message.fields:
        if (inner := message_of(field)) is not None and not is_secret(field):
            walk(inner, messages)
    messages[message.name] = message


def message_of(field: Any) -> Any:
    element = getattr(field.value, "element", None)
    return element if hasattr(element, "type_name") else getattr(field.value, "message", None)


def is_secret(field: Any) -> bool:
    """Whether a member is one, or has nothing but secrets in it."""
    inner = message_of(field)
    if inner is not None and not inner.type_name.startswith("google."):
        return all(map(is_secret, inner.fields)) and bool(inner.fields)
    options = field.proto.options
    return options is not None and bool(options.debug_redact)


def type_of(message: Any, field: Any) -> str:
    inner = message_of(field)
    if inner is None:
        kind = MEMBERS.get(f"{message.name}.{field.name}") or SCALARS.get(int(field.proto.type), "int")
    elif inner.type_name == "google.protobuf.Timestamp":
        kind = "datetime"
    else:
        kind = str(inner.name)
    if type(field.value).__name__ == "DescFieldValueList":
        return f"tuple[{kind}, ...]"
    return f"{kind} | None = None" if is_optional(message, field) else kind


def is_optional(message: Any, field: Any) -> bool:
    always = ALWAYS.get(message.name, ())
    return int(field.presence) == 1 and "*" not in always and field.name not in always


def written(message: Any, docs: dict[str, str]) -> str:
    """A message as a class."""
    lines = ["", "", "@dataclass(frozen=True, kw_only=True)", f"class {message.name}(Model):"]
    lines += quoted(docs.get(message.name) or "Part of an answer.")
    for field in message.fields:
        if is_secret(field):
            continue
        lines.append(f"    {field.local_name}: {type_of(message, field)}")
        lines += quoted(docs.get(f"{message.name}.{field.name}", ""))
    return "\n".join(lines) + "\n"


def quoted(text: str) -> list[str]:
    lines = text.replace("\\", "\\\\").splitlines()
    if len(lines) < 2:
        return [f'    """{line}"""' for line in lines]
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def read_docs() -> dict[str, str]:
    """The comments of the contract, by message and by message.member."""
    docs: dict[str, str] = {}
    for file in sorted((ROOT / "proto/roamcard/v1").glob("*.proto")):
        inside, comment = "", []
        for line in file.read_text().splitlines():
            text = line.strip()
            if text.startswith("//"):
                comment.append(text[2:].strip())
                continue
            if opened := re.match(r"message (\w+) \{", text):
                inside = opened[1]
                docs[inside] = "\n".join(comment)
            elif member := re.match(r"(?:optional |repeated )?[\w.]+ (\w+) = \d+", text):
                docs[f"{inside}.{member[1]}"] = "\n".join(comment)
            comment = []
    return docs


main()
