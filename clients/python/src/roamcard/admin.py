"""The routes of operators, thin over the generated messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ._gen.models import (
    FeeJob,
    Finding,
    GetActivityResponse,
    GetChallengeRetentionResponse,
    InspectOrderResponse,
    PruneActivityResponse,
    PruneChallengesResponse,
    QueuedOrder,
    Reconciliation,
    StrayTransfer,
    Switch,
)
from ._gen.roamcard.v1.activity_pb import GetActivityRequest, PruneActivityRequest
from ._gen.roamcard.v1.operator_pb import (
    DecideOrderRequest,
    GetChallengeRetentionRequest,
    GetReconciliationRequest,
    InspectOrderRequest,
    ListFeeJobsRequest,
    ListFindingsRequest,
    ListOrderQueueRequest,
    ListSwitchesRequest,
    ListTransfersRequest,
    PruneChallengesRequest,
    ReconcileFeeJobRequest,
    ReconcileRequest,
    ResolveFindingRequest,
    ResolveTransferRequest,
    RetryFeeJobRequest,
    SetSwitchRequest,
)
from .calls import owned
from .core import new_key
from .groups import Group
from .model import read
from .paging import Listing


class Admin(Group):
    """What operators do. It needs an operator_token; activity needs a wallet whose sessions have that scope instead."""

    def fee_jobs(self, *, status: Literal["queued", "processing", "succeeded", "failed", "operator_review"] | None = None) -> Listing[FeeJob]:
        """Lists the withdrawals of the platform fee, newest first, page by page as they are taken."""
        return Listing(self._engine, self._core.pages(FeeJob, "list_fee_jobs", "jobs", ListFeeJobsRequest(status=status)))

    def reconcile_fee_job(self, id: str) -> FeeJob:
        """Reads what became of a withdrawal at the issuer. It never asks for it again."""
        return read(FeeJob, self._engine.run(self._core.operated("reconcile_fee_job", ReconcileFeeJobRequest(id=id))).job)

    def retry_fee_job(self, id: str, reason: str, *, idempotency_key: str | None = None) -> FeeJob:
        """Queues the next version of a withdrawal whose failure the issuer confirmed. The same key queues it once."""
        request = RetryFeeJobRequest(id=id, reason=reason)
        return read(FeeJob, self._engine.run(self._core.operated("retry_fee_job", request, idempotency_key or new_key())).job)

    def reconcile(self) -> Reconciliation:
        """Compares the books now."""
        return read(Reconciliation, self._engine.run(self._core.operated("reconcile", ReconcileRequest())).report)

    def reconciliation(self) -> Reconciliation:
        """Reads what the last comparison of the books found."""
        return read(Reconciliation, self._engine.run(self._core.operated("get_reconciliation", GetReconciliationRequest())).report)

    def transfers(self, *, status: Literal["open", "resolved"] | None = None) -> Listing[StrayTransfer]:
        """Lists the transfers to the payee that belong to no order, newest first: open ones, or those in another status."""
        return Listing(self._engine, self._core.pages(StrayTransfer, "list_transfers", "transfers", ListTransfersRequest(status=status)))

    def resolve_transfer(
        self,
        transaction: str,
        log_index: int,
        resolution: Literal["refunded_by_hand", "donation", "known"],
        reason: str,
        *,
        idempotency_key: str | None = None,
    ) -> StrayTransfer:
        """Says what has become of such a transfer, for good. No money moves. The same key resolves it once."""
        request = ResolveTransferRequest(transaction=transaction, log_index=log_index, resolution=resolution, reason=reason)
        answer = self._engine.run(self._core.operated("resolve_transfer", request, idempotency_key or new_key()))
        return read(StrayTransfer, answer.transfer)

    def findings(self, *, status: Literal["open", "resolved"] | None = None, code: str | None = None) -> Listing[Finding]:
        """Lists what differs between the books, newest first: what is open, or in another status; of any code, or of one."""
        return Listing(self._engine, self._core.pages(Finding, "list_findings", "findings", ListFindingsRequest(status=status, code=code)))

    def resolve_finding(self, id: str, reason: str, *, idempotency_key: str | None = None) -> Finding:
        """Says that a finding is understood. It blocks nothing until there is more of it. The same key resolves it once."""
        request = ResolveFindingRequest(id=id, reason=reason)
        return read(Finding, self._engine.run(self._core.operated("resolve_finding", request, idempotency_key or new_key())).finding)

    def orders(self, *, status: str | None = None) -> Listing[QueuedOrder]:
        """Lists orders, newest first: those that wait for an operator, or those in another status."""
        return Listing(self._engine, self._core.pages(QueuedOrder, "list_order_queue", "orders", ListOrderQueueRequest(status=status)))

    def inspect_order(self, order_id: str) -> InspectOrderResponse:
        """Reads the whole life of one order."""
        return read(InspectOrderResponse, self._engine.run(self._core.operated("inspect_order", InspectOrderRequest(order_id=order_id))))

    def decide_order(
        self, order_id: str, action: Literal["refund", "retry", "fulfilled"], reason: str, *, idempotency_key: str | None = None
    ) -> QueuedOrder:
        """Decides an order that waits in operator_review. The same key decides it once."""
        request = DecideOrderRequest(order_id=order_id, action=action, reason=reason)
        return read(QueuedOrder, self._engine.run(self._core.operated("decide_order", request, idempotency_key or new_key())).order)

    def switches(self) -> Sequence[Switch]:
        """Lists the kill switch of every product."""
        return [read(Switch, switch) for switch in self._engine.run(self._core.operated("list_switches", ListSwitchesRequest())).switches]

    def set_switch(
        self, product: Literal["card_issue", "card_topup", "esim"], paused: bool, reason: str, *, idempotency_key: str | None = None
    ) -> Switch:
        """Closes or opens the sale of a product."""
        request = SetSwitchRequest(product=product, paused=paused, reason=reason)
        return read(Switch, self._engine.run(self._core.operated("set_switch", request, idempotency_key or new_key())).switch)

    def challenge_retention(self) -> GetChallengeRetentionResponse:
        """Reads how many sign-in and reveal challenges are kept."""
        return read(GetChallengeRetentionResponse, self._engine.run(self._core.operated("get_challenge_retention", GetChallengeRetentionRequest())))

    def prune_challenges(self) -> PruneChallengesResponse:
        """Deletes challenges that are past their retention, in batches. Call it again while some remain."""
        return read(PruneChallengesResponse, self._engine.run(self._core.operated("prune_challenges", PruneChallengesRequest())))

    def activity(self, *, days: int | None = None) -> GetActivityResponse:
        """Reads what happened in the last days, 7 unless they are named. By the wallet's session."""
        return read(GetActivityResponse, self._engine.run(owned("activity", "get_activity", GetActivityRequest(days=days))))

    def prune_activity(self) -> PruneActivityResponse:
        """Deletes the product events that are past their retention. By the wallet's session."""
        return read(PruneActivityResponse, self._engine.run(owned("activity", "prune_activity", PruneActivityRequest())))
