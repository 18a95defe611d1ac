"""The routes of operators for the client that awaits, thin over the generated messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal

from ._gen.roamcard.v1.activity_pb import GetActivityRequest, GetActivityResponse, PruneActivityRequest, PruneActivityResponse
from ._gen.roamcard.v1.operator_pb import (
    DecideOrderRequest,
    FeeJob,
    Finding,
    GetChallengeRetentionRequest,
    GetChallengeRetentionResponse,
    GetReconciliationRequest,
    InspectOrderRequest,
    InspectOrderResponse,
    ListFeeJobsRequest,
    ListFindingsRequest,
    ListOrderQueueRequest,
    ListSwitchesRequest,
    ListTransfersRequest,
    PruneChallengesRequest,
    PruneChallengesResponse,
    QueuedOrder,
    ReconcileFeeJobRequest,
    ReconcileRequest,
    Reconciliation,
    ResolveFindingRequest,
    ResolveTransferRequest,
    RetryFeeJobRequest,
    SetSwitchRequest,
    StrayTransfer,
    Switch,
)
from .aio_groups import Group
from .calls import owned, present
from .core import new_key


class AsyncAdmin(Group):
    """What operators do. It needs an operator_token; activity needs a wallet whose sessions have that scope instead."""

    def fee_jobs(self, *, status: Literal["queued", "processing", "succeeded", "failed", "operator_review"] | None = None) -> AsyncIterator[FeeJob]:
        """Lists the withdrawals of the platform fee, newest first, page by page as they are taken."""
        return self._engine.each(self._core.pages("list_fee_jobs", "jobs", ListFeeJobsRequest(status=status)))

    async def reconcile_fee_job(self, id: str) -> FeeJob:
        """Reads what became of a withdrawal at the issuer. It never asks for it again."""
        return present(FeeJob, (await self._engine.run(self._core.operated("reconcile_fee_job", ReconcileFeeJobRequest(id=id)))).job)

    async def retry_fee_job(self, id: str, reason: str, *, idempotency_key: str | None = None) -> FeeJob:
        """Queues the next version of a withdrawal whose failure the issuer confirmed. The same key queues it once."""
        request = RetryFeeJobRequest(id=id, reason=reason)
        return present(FeeJob, (await self._engine.run(self._core.operated("retry_fee_job", request, idempotency_key or new_key()))).job)

    async def reconcile(self) -> Reconciliation:
        """Compares the books now."""
        return present(Reconciliation, (await self._engine.run(self._core.operated("reconcile", ReconcileRequest()))).report)

    async def reconciliation(self) -> Reconciliation:
        """Reads what the last comparison of the books found."""
        return present(Reconciliation, (await self._engine.run(self._core.operated("get_reconciliation", GetReconciliationRequest()))).report)

    def transfers(self, *, status: Literal["open", "resolved"] | None = None) -> AsyncIterator[StrayTransfer]:
        """Lists the transfers to the payee that belong to no order, newest first: open ones, or those in another status."""
        return self._engine.each(self._core.pages("list_transfers", "transfers", ListTransfersRequest(status=status)))

    async def resolve_transfer(
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
        answer = await self._engine.run(self._core.operated("resolve_transfer", request, idempotency_key or new_key()))
        return present(StrayTransfer, answer.transfer)

    def findings(self, *, status: Literal["open", "resolved"] | None = None, code: str | None = None) -> AsyncIterator[Finding]:
        """Lists what differs between the books, newest first: what is open, or in another status; of any code, or of one."""
        return self._engine.each(self._core.pages("list_findings", "findings", ListFindingsRequest(status=status, code=code)))

    async def resolve_finding(self, id: str, reason: str, *, idempotency_key: str | None = None) -> Finding:
        """Says that a finding is understood. It blocks nothing until there is more of it. The same key resolves it once."""
        request = ResolveFindingRequest(id=id, reason=reason)
        return present(Finding, (await self._engine.run(self._core.operated("resolve_finding", request, idempotency_key or new_key()))).finding)

    def orders(self, *, status: str | None = None) -> AsyncIterator[QueuedOrder]:
        """Lists orders, newest first: those that wait for an operator, or those in another status."""
        return self._engine.each(self._core.pages("list_order_queue", "orders", ListOrderQueueRequest(status=status)))

    async def inspect_order(self, order_id: str) -> InspectOrderResponse:
        """Reads the whole life of one order."""
        answer: InspectOrderResponse = await self._engine.run(self._core.operated("inspect_order", InspectOrderRequest(order_id=order_id)))
        return answer

    async def decide_order(
        self, order_id: str, action: Literal["refund", "retry", "fulfilled"], reason: str, *, idempotency_key: str | None = None
    ) -> QueuedOrder:
        """Decides an order that waits in operator_review. The same key decides it once."""
        request = DecideOrderRequest(order_id=order_id, action=action, reason=reason)
        return present(QueuedOrder, (await self._engine.run(self._core.operated("decide_order", request, idempotency_key or new_key()))).order)

    async def switches(self) -> Sequence[Switch]:
        """Lists the kill switch of every product."""
        return list((await self._engine.run(self._core.operated("list_switches", ListSwitchesRequest()))).switches)

    async def set_switch(
        self, product: Literal["card_issue", "card_topup", "esim"], paused: bool, reason: str, *, idempotency_key: str | None = None
    ) -> Switch:
        """Closes or opens the sale of a product."""
        request = SetSwitchRequest(product=product, paused=paused, reason=reason)
        return present(Switch, (await self._engine.run(self._core.operated("set_switch", request, idempotency_key or new_key()))).switch)

    async def challenge_retention(self) -> GetChallengeRetentionResponse:
        """Reads how many sign-in and reveal challenges are kept."""
        answer: GetChallengeRetentionResponse = await self._engine.run(self._core.operated("get_challenge_retention", GetChallengeRetentionRequest()))
        return answer

    async def prune_challenges(self) -> PruneChallengesResponse:
        """Deletes challenges that are past their retention, in batches. Call it again while some remain."""
        answer: PruneChallengesResponse = await self._engine.run(self._core.operated("prune_challenges", PruneChallengesRequest()))
        return answer

    async def activity(self, *, days: int | None = None) -> GetActivityResponse:
        """Reads what happened in the last days, 7 unless they are named. By the wallet's session."""
        answer: GetActivityResponse = await self._engine.run(owned("activity", "get_activity", GetActivityRequest(days=days)))
        return answer

    async def prune_activity(self) -> PruneActivityResponse:
        """Deletes the product events that are past their retention. By the wallet's session."""
        answer: PruneActivityResponse = await self._engine.run(owned("activity", "prune_activity", PruneActivityRequest()))
        return answer
