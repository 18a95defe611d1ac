"""The routes of operators, thin over the generated messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from protobuf import Message

from .._gen.models import (
    Approval,
    AuditRecord,
    CardClosing,
    EsimCancellation,
    EsimCancellationJob,
    FeeJob,
    Finding,
    GetActivityResponse,
    GetChallengeRetentionResponse,
    GetGaugesResponse,
    GetSummaryResponse,
    InspectOrderResponse,
    MintTokenResponse,
    OperatorJob,
    OperatorToken,
    OrderCount,
    OrderKind,
    OrderStatus,
    PruneActivityResponse,
    PruneChallengesResponse,
    Reconciliation,
    ReconciliationRun,
    ReviewItem,
    ReviewOrderResponse,
    Switch,
    UnmatchedTransfer,
    WhoAmIResponse,
)
from .._gen.roamcard.v1.activity_pb import GetActivityRequest, PruneActivityRequest
from .._gen.roamcard.v1.operator_pb import (
    ApproveDecisionRequest,
    CloseCardRequest,
    ConcludeCardClosingRequest,
    ConcludeEsimCancellationRequest,
    CountOrdersRequest,
    DecideOrderRequest,
    DropJobRequest,
    GetApprovalRequest,
    GetChallengeRetentionRequest,
    GetGaugesRequest,
    GetJobRequest,
    GetReconciliationRequest,
    GetSummaryRequest,
    InspectOrderRequest,
    ListApprovalsRequest,
    ListAuditRequest,
    ListCardClosingsRequest,
    ListEsimCancellationsRequest,
    ListFeeJobsRequest,
    ListFindingsRequest,
    ListJobsRequest,
    ListOrderQueueRequest,
    ListReconciliationsRequest,
    ListSwitchesRequest,
    ListTokensRequest,
    ListTransfersRequest,
    MintTokenRequest,
    PruneChallengesRequest,
    ReconcileFeeJobRequest,
    ReconcileRequest,
    RejectDecisionRequest,
    ResolveFindingRequest,
    ResolveTransferRequest,
    RetryCardClosingRequest,
    RetryEsimCancellationRequest,
    RetryFeeJobRequest,
    RetryJobRequest,
    ReviewOrderRequest,
    RevokeTokenRequest,
    SetSwitchRequest,
    WhoAmIRequest,
    WriteOffFeeJobRequest,
)
from ..calls import owned
from ..core import key_of
from ..model import M, read
from .groups import Group
from .paging import AsyncListing


class AsyncAdmin(Group):
    """What operators do. It needs an operator_token; activity needs a wallet whose sessions have that scope instead."""

    def fee_jobs(
        self, *, status: Literal["queued", "processing", "succeeded", "failed", "operator_review"] | None = None
    ) -> AsyncListing[FeeJob]:
        """Lists the withdrawals of the platform fee, newest first, page by page as they are taken."""
        return self._list(FeeJob, "list_fee_jobs", "jobs", ListFeeJobsRequest(status=status))

    async def reconcile_fee_job(self, id: str) -> FeeJob:
        """Reads what became of a withdrawal at the issuer. It never asks for it again."""
        answer = await self._call("reconcile_fee_job", ReconcileFeeJobRequest(id=id))
        return read(FeeJob, answer.job)

    async def retry_fee_job(
        self, id: str, reason: str, *, revision: int | None = None, idempotency_key: str | None = None
    ) -> FeeJob:
        """Queues the next version of a withdrawal whose failure the issuer confirmed. The same key queues it once."""
        request = RetryFeeJobRequest(id=id, reason=reason, revision=revision)
        answer = await self._call("retry_fee_job", request, key_of(idempotency_key))
        return read(FeeJob, answer.job)

    async def write_off_fee_job(
        self, id: str, reason: str, *, revision: int | None = None, idempotency_key: str | None = None
    ) -> FeeJob:
        """Gives up a fee that the card could not pay: it becomes a cost, and the owner can top up again.

        The same key writes it off once.
        """
        request = WriteOffFeeJobRequest(id=id, reason=reason, revision=revision)
        answer = await self._call("write_off_fee_job", request, key_of(idempotency_key))
        return read(FeeJob, answer.job)

    async def close_card(self, id: str, reason: str, *, idempotency_key: str | None = None) -> CardClosing:
        """Closes a card for good: what is left on it is refunded to its owner on chain.

        It goes on by itself. A card that is being closed, or was closed so, answers with that closing.
        """
        request = CloseCardRequest(id=id, reason=reason)
        answer = await self._call("close_card", request, key_of(idempotency_key))
        return read(CardClosing, answer.closing)

    def card_closings(
        self, *, status: Literal["queued", "processing", "succeeded", "operator_review"] | None = None
    ) -> AsyncListing[CardClosing]:
        """Lists the closings of cards, newest first, page by page as they are taken."""
        return self._list(CardClosing, "list_card_closings", "closings", ListCardClosingsRequest(status=status))

    async def retry_card_closing(
        self, id: str, reason: str, *, revision: int | None = None, idempotency_key: str | None = None
    ) -> CardClosing:
        """Lets a closing that waits for an operator go on from its stage. The same key does it once."""
        request = RetryCardClosingRequest(id=id, reason=reason, revision=revision)
        answer = await self._call("retry_card_closing", request, key_of(idempotency_key))
        return read(CardClosing, answer.closing)

    async def conclude_card_closing(
        self,
        id: str,
        transaction: str,
        reason: str,
        *,
        revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> CardClosing:
        """Lets a closing go on whose remainder was refunded by hand, by the transaction that did it.

        The chain has to show it. A repeat changes nothing.
        """
        request = ConcludeCardClosingRequest(id=id, transaction=transaction, reason=reason, revision=revision)
        answer = await self._call("conclude_card_closing", request, key_of(idempotency_key))
        return read(CardClosing, answer.closing)

    def esim_cancellations(
        self, *, status: Literal["queued", "processing", "succeeded", "operator_review"] | None = None
    ) -> AsyncListing[EsimCancellationJob]:
        """Lists the cancellations of eSIMs, newest first, page by page as they are taken."""
        request = ListEsimCancellationsRequest(status=status)
        return self._list(EsimCancellationJob, "list_esim_cancellations", "cancellations", request)

    async def retry_esim_cancellation(
        self, order_id: str, reason: str, *, idempotency_key: str | None = None
    ) -> EsimCancellation:
        """Lets the cancellation of an order's eSIM that waits for an operator go on from its stage.

        The same key does it once.
        """
        request = RetryEsimCancellationRequest(order_id=order_id, reason=reason)
        answer = await self._call("retry_esim_cancellation", request, key_of(idempotency_key))
        return read(EsimCancellation, answer.cancellation)

    async def conclude_esim_cancellation(
        self, order_id: str, transaction: str, reason: str, *, idempotency_key: str | None = None
    ) -> EsimCancellation:
        """Ends the cancellation of an order's eSIM whose refund was done by hand, by the transaction that did it.

        The chain has to show it. A repeat changes nothing.
        """
        request = ConcludeEsimCancellationRequest(order_id=order_id, transaction=transaction, reason=reason)
        answer = await self._call("conclude_esim_cancellation", request, key_of(idempotency_key))
        return read(EsimCancellation, answer.cancellation)

    async def reconcile(self) -> Reconciliation:
        """Compares the books now."""
        answer = await self._call("reconcile", ReconcileRequest())
        return read(Reconciliation, answer.report)

    async def reconciliation(self) -> Reconciliation:
        """Reads what the last comparison of the books found."""
        answer = await self._call("get_reconciliation", GetReconciliationRequest())
        return read(Reconciliation, answer.report)

    def transfers(self, *, status: Literal["open", "resolved"] | None = None) -> AsyncListing[UnmatchedTransfer]:
        """Lists the transfers to the payee that match no order, newest first: open ones, or those in another status."""
        return self._list(UnmatchedTransfer, "list_transfers", "transfers", ListTransfersRequest(status=status))

    async def resolve_transfer(
        self,
        transaction: str,
        log_index: int,
        resolution: Literal["refunded_by_hand", "donation", "known"],
        reason: str,
        *,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> UnmatchedTransfer:
        """Says what has become of such a transfer, for good. No money moves. The same key resolves it once."""
        request = ResolveTransferRequest(
            transaction=transaction, log_index=log_index, resolution=resolution, reason=reason, version=version
        )
        answer = await self._call("resolve_transfer", request, key_of(idempotency_key))
        return read(UnmatchedTransfer, answer.transfer)

    def reconciliations(
        self, *, outcome: Literal["agreed", "differed", "incomplete", "failed"] | None = None
    ) -> AsyncListing[ReconciliationRun]:
        """Lists the comparisons of the books that have ended, newest first: all, or those that ended so."""
        request = ListReconciliationsRequest(outcome=outcome)
        return self._list(ReconciliationRun, "list_reconciliations", "reconciliations", request)

    def findings(
        self, *, status: Literal["open", "resolved"] | None = None, code: str | None = None
    ) -> AsyncListing[Finding]:
        """Lists the differences between the books, newest first: open ones, or those in another status; of any code."""
        return self._list(Finding, "list_findings", "findings", ListFindingsRequest(status=status, code=code))

    async def resolve_finding(
        self, id: str, reason: str, *, version: int | None = None, idempotency_key: str | None = None
    ) -> Finding:
        """Says that a finding is understood.

        It blocks nothing until there is more of it. The same key resolves it once.
        """
        request = ResolveFindingRequest(id=id, reason=reason, version=version)
        answer = await self._call("resolve_finding", request, key_of(idempotency_key))
        return read(Finding, answer.finding)

    async def whoami(self) -> str:
        """Reads the name of the operator whose token it is."""
        answer = await self._call("who_am_i", WhoAmIRequest())
        return str(answer.operator)

    async def identity(self) -> WhoAmIResponse:
        """Reads whose token it is, its role, and when it expires."""
        return read(WhoAmIResponse, await self._call("who_am_i", WhoAmIRequest()))

    def approvals(
        self, *, status: Literal["pending", "approved", "rejected", "expired"] | None = None
    ) -> AsyncListing[Approval]:
        """Lists the decisions that wait for a second operator, newest first, or those in a status."""
        return self._list(Approval, "list_approvals", "approvals", ListApprovalsRequest(status=status))

    async def approval(self, id: str) -> Approval:
        """Reads one such decision."""
        answer = await self._call("get_approval", GetApprovalRequest(id=id))
        return read(Approval, answer.approval)

    async def approve_decision(self, id: str, reason: str, *, idempotency_key: str | None = None) -> Approval:
        """Lets a decision of another operator take effect. The same key does it once."""
        request = ApproveDecisionRequest(id=id, reason=reason)
        answer = await self._call("approve_decision", request, key_of(idempotency_key))
        return read(Approval, answer.approval)

    async def reject_decision(self, id: str, reason: str, *, idempotency_key: str | None = None) -> Approval:
        """Ends the waiting of a decision, which takes no effect. The same key does it once."""
        request = RejectDecisionRequest(id=id, reason=reason)
        answer = await self._call("reject_decision", request, key_of(idempotency_key))
        return read(Approval, answer.approval)

    def tokens(self, *, status: Literal["active", "expired", "revoked"] | None = None) -> AsyncListing[OperatorToken]:
        """Lists the operators' tokens that were minted, newest first."""
        return self._list(OperatorToken, "list_tokens", "tokens", ListTokensRequest(status=status))

    async def mint_token(
        self,
        name: str,
        role: Literal["viewer", "support", "treasurer", "admin"],
        expires_in_seconds: int,
        reason: str,
        *,
        idempotency_key: str | None = None,
    ) -> MintTokenResponse:
        """Mints a token. Its secret is shown this once: a repeat with the same key has none."""
        request = MintTokenRequest(name=name, role=role, expires_in_seconds=expires_in_seconds, reason=reason)
        return read(MintTokenResponse, await self._call("mint_token", request, key_of(idempotency_key)))

    async def revoke_token(self, id: str, reason: str, *, idempotency_key: str | None = None) -> OperatorToken:
        """Ends a token at once. The same key does it once."""
        request = RevokeTokenRequest(id=id, reason=reason)
        answer = await self._call("revoke_token", request, key_of(idempotency_key))
        return read(OperatorToken, answer.token)

    def orders(
        self,
        *,
        status: OrderStatus | None = None,
        kind: OrderKind | None = None,
        owner: str | None = None,
        transaction: str | None = None,
        request_id: str | None = None,
        sort: Literal["newest", "oldest"] | None = None,
    ) -> AsyncListing[ReviewItem]:
        """Lists orders, newest first unless sort says otherwise: those that wait for an operator, or those selected."""
        request = ListOrderQueueRequest(
            status=status, kind=kind, owner=owner, transaction=transaction, request_id=request_id, sort=sort
        )
        return self._list(ReviewItem, "list_order_queue", "orders", request)

    async def order_counts(self) -> Sequence[OrderCount]:
        """Counts the orders that are not final, by kind and status."""
        answer = await self._call("count_orders", CountOrdersRequest())
        return [read(OrderCount, count) for count in answer.counts]

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncListing[AuditRecord]:
        """Lists what operators did, newest first. Times are of RFC 3339."""
        request = ListAuditRequest(actor=actor, action=action, subject=subject, since=since, until=until)
        return self._list(AuditRecord, "list_audit", "records", request)

    async def gauges(self) -> GetGaugesResponse:
        """Reads the present values of what sales depend on: floats, accounts, jobs and nodes."""
        return read(GetGaugesResponse, await self._call("get_gauges", GetGaugesRequest()))

    async def summary(self, order_id: str | None = None) -> GetSummaryResponse:
        """Reads how much waits for operators, for who watches; with an order, its version too.

        It leaves no audit record.
        """
        return read(GetSummaryResponse, await self._call("get_summary", GetSummaryRequest(order_id=order_id)))

    async def inspect_order(self, order_id: str) -> InspectOrderResponse:
        """Reads the full history of one order."""
        return read(InspectOrderResponse, await self._call("inspect_order", InspectOrderRequest(order_id=order_id)))

    async def review_order(self, order_id: str) -> ReviewOrderResponse:
        """Reads what an operator needs to decide about an order: its version, what can be done, postings and audit."""
        return read(ReviewOrderResponse, await self._call("review_order", ReviewOrderRequest(order_id=order_id)))

    async def decide_order(
        self,
        order_id: str,
        action: Literal["refund", "retry", "fulfilled"],
        reason: str,
        *,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ReviewItem:
        """Decides an order that waits in operator_review. The same key decides it once.

        With the version that was read, an order that has changed since is not decided.
        """
        request = DecideOrderRequest(order_id=order_id, action=action, reason=reason, version=version)
        answer = await self._call("decide_order", request, key_of(idempotency_key))
        return read(ReviewItem, answer.order)

    def jobs(
        self,
        *,
        status: Literal["queued", "processing", "succeeded", "failed", "operator_review"] | None = None,
        kind: str | None = None,
    ) -> AsyncListing[OperatorJob]:
        """Lists jobs, newest first: those that have stopped, or those that are selected."""
        return self._list(OperatorJob, "list_jobs", "jobs", ListJobsRequest(status=status, kind=kind))

    async def job(self, id: str) -> OperatorJob:
        """Reads one job."""
        answer = await self._call("get_job", GetJobRequest(id=id))
        return read(OperatorJob, answer.job)

    async def retry_job(
        self, id: str, reason: str, *, version: int | None = None, idempotency_key: str | None = None
    ) -> OperatorJob:
        """Puts a job that has stopped back into the queue. The same key does it once."""
        request = RetryJobRequest(id=id, reason=reason, version=version)
        answer = await self._call("retry_job", request, key_of(idempotency_key))
        return read(OperatorJob, answer.job)

    async def drop_job(
        self, id: str, reason: str, *, version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """Deletes a job that has stopped. The same key does it once."""
        request = DropJobRequest(id=id, reason=reason, version=version)
        await self._call("drop_job", request, key_of(idempotency_key))

    async def switches(self) -> Sequence[Switch]:
        """Lists the kill switch of every product and every provider."""
        answer = await self._call("list_switches", ListSwitchesRequest())
        return [read(Switch, switch) for switch in answer.switches]

    async def set_switch(
        self,
        product: str,
        paused: bool,
        reason: str,
        *,
        idempotency_key: str | None = None,
    ) -> Switch:
        """Closes or opens the sale of a product, or over a provider: `provider.` and its name."""
        request = SetSwitchRequest(product=product, paused=paused, reason=reason)
        answer = await self._call("set_switch", request, key_of(idempotency_key))
        return read(Switch, answer.switch)

    async def challenge_retention(self) -> GetChallengeRetentionResponse:
        """Reads how many sign-in and reveal challenges are kept."""
        answer = await self._call("get_challenge_retention", GetChallengeRetentionRequest())
        return read(GetChallengeRetentionResponse, answer)

    async def prune_challenges(self) -> PruneChallengesResponse:
        """Deletes challenges that are past their retention, in batches. Call it again while some remain."""
        return read(PruneChallengesResponse, await self._call("prune_challenges", PruneChallengesRequest()))

    async def activity(self, *, days: int | None = None) -> GetActivityResponse:
        """Reads what happened in the last days, 7 unless they are named. By the wallet's session."""
        return read(GetActivityResponse, await self._own("get_activity", GetActivityRequest(days=days)))

    async def prune_activity(self) -> PruneActivityResponse:
        """Deletes the product events that are past their retention. By the wallet's session."""
        return read(PruneActivityResponse, await self._own("prune_activity", PruneActivityRequest()))

    async def _call(self, method: str, request: Message[Any], key: str | None = None) -> Any:
        return await self._engine.run(self._core.operated(method, request, key))

    async def _own(self, method: str, request: Message[Any]) -> Any:
        return await self._engine.run(owned("activity", method, request))

    def _list(self, kind: type[M], method: str, items: str, request: Message[Any]) -> AsyncListing[M]:
        return AsyncListing(self._engine, self._core.pages(kind, method, items, request))
