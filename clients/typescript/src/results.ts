// What calls give: plain data that JSON.stringify writes and JSON.parse reads back the same. Money is whole cents or
// decimal strings, times are ISO 8601, and what can take few values says which.
import { type Message, toJson } from "@bufbuild/protobuf";
import { type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import type * as activity from "./gen/roamcard/v1/activity_pb.js";
import type * as auth from "./gen/roamcard/v1/auth_pb.js";
import type * as card from "./gen/roamcard/v1/card_pb.js";
import type * as esim from "./gen/roamcard/v1/esim_pb.js";
import type * as operator from "./gen/roamcard/v1/operator_pb.js";
import type * as order from "./gen/roamcard/v1/order_pb.js";
import type * as service from "./gen/roamcard/v1/service_pb.js";

/** How far an order is. The last four are left by no order by itself; operator_review waits for an operator. */
export type OrderStatus = UnfinishedStatus | "fulfilled" | "expired" | "refunded";
/** How far an order is that is not final. */
export type UnfinishedStatus =
  | "payment_required"
  | "settling"
  | "settled"
  | "provisioning"
  | "refund_pending"
  | "operator_review";
/** What is sold. */
export type Product = "card_issue" | "card_topup" | "esim" | "esim_topup";
/** What has a kill switch. */
export type SwitchName = Product | `provider.${string}`;
/** What an order buys. */
export type OrderKind = Product;
export type IssuanceStatus = "unpaid" | "queued" | "pending" | "active" | "closed" | "refused" | "review";
export type TopupStatus = "unpaid" | "queued" | "pending" | "credited" | "refused" | "review";
export type DeliveryStatus =
  "unpaid" | "pending" | "fulfilled" | "cancelled" | "review" | "refund_pending" | "refunded";
export type EsimTopupStatus = "unpaid" | "pending" | "fulfilled" | "review" | "refund_pending" | "refunded";
export type RefundStatus = "pending" | "refunded";
/** FROZEN cards may become ACTIVE again; CLOSED and FAILED are final. */
export type CardStatus = "PENDING" | "ACTIVE" | "FROZEN" | "CLOSED" | "FAILED";
/** A purchase takes its amount off the card, a refund gives it back. */
export type TransactionKind = "purchase" | "refund";
export type TransactionStatus = "pending" | "completed" | "declined" | "reversed";
/** Why a transaction was declined. */
export type DeclineReason =
  | "insufficient_funds"
  | "card_frozen"
  | "card_closed"
  | "limit_exceeded"
  | "merchant_not_allowed"
  | "verification_failed"
  | "suspected_fraud"
  | "other";
/** How an eSIM stands at its supplier. */
export type ProfileStatus =
  | "not_installed"
  | "installed"
  | "active"
  | "used_up"
  | "expired"
  | "cancelled"
  | "unknown";
export type CancellationStatus = "cancelling" | "refunding" | "refunded" | "kept" | "review";
export type WorkStatus = "queued" | "processing" | "succeeded" | "operator_review";
export type ClosingStatus = WorkStatus | "approval_pending";
/** What an operator may do; each role may do what those before it may. */
export type OperatorRole = "viewer" | "support" | "treasurer" | "admin";
export type ApprovalStatus = "pending" | "approved" | "rejected" | "expired";
export type TokenStatus = "active" | "expired" | "revoked";
export type ClosingStage = "locking" | "withdrawing" | "refunding" | "ending" | "closed";
export type CancellationStage = "cancelling" | "refunding" | "refunded" | "kept";
export type JobStatus = UnfinishedJobStatus | "succeeded";
export type UnfinishedJobStatus = "queued" | "processing" | "failed" | "operator_review";
/** How a comparison of the books ended. */
export type ReconciliationOutcome = "agreed" | "differed" | "incomplete" | "failed";
export type TransferResolution = "refunded_by_hand" | "donation" | "known";
/** How the sale of a product stands; degraded says that something it depends on is missing. */
export type ServiceStatus = "open" | "degraded" | "paused";

// The members of messages that take few values.
interface Literals {
  "roamcard.v1.Order.kind": OrderKind;
  "roamcard.v1.Order.status": OrderStatus;
  "roamcard.v1.PayableOrder.kind": OrderKind;
  "roamcard.v1.PayableOrder.status": OrderStatus;
  "roamcard.v1.Issuance.status": IssuanceStatus;
  "roamcard.v1.Topup.status": TopupStatus;
  "roamcard.v1.EsimDelivery.status": DeliveryStatus;
  "roamcard.v1.EsimTopup.status": EsimTopupStatus;
  "roamcard.v1.Refund.status": RefundStatus;
  "roamcard.v1.Card.status": CardStatus;
  "roamcard.v1.CardTransaction.kind": TransactionKind;
  "roamcard.v1.CardTransaction.status": TransactionStatus;
  "roamcard.v1.CardTransaction.declineReason": DeclineReason;
  "roamcard.v1.EsimPlan.type": "country" | "region";
  "roamcard.v1.EsimProfile.status": ProfileStatus;
  "roamcard.v1.EsimCancellation.status": CancellationStatus;
  "roamcard.v1.FeeJob.status": JobStatus;
  "roamcard.v1.CardClosing.status": ClosingStatus;
  "roamcard.v1.CardClosing.stage": ClosingStage;
  "roamcard.v1.EsimCancellationJob.status": WorkStatus;
  "roamcard.v1.EsimCancellationJob.stage": CancellationStage;
  "roamcard.v1.StoppedJobs.status": "failed" | "operator_review";
  "roamcard.v1.JobRecord.status": JobStatus;
  "roamcard.v1.OperatorJob.status": JobStatus;
  "roamcard.v1.PaymentRecord.status": "claimed" | "paid" | "dead";
  "roamcard.v1.RefundRecord.status": "signed" | "paid" | "dead";
  "roamcard.v1.ReviewItem.kind": OrderKind;
  "roamcard.v1.ReviewItem.status": OrderStatus;
  "roamcard.v1.OrderCount.kind": OrderKind;
  "roamcard.v1.OrderCount.status": UnfinishedStatus;
  "roamcard.v1.JobGauge.status": UnfinishedJobStatus;
  "roamcard.v1.Switch.product": SwitchName;
  "roamcard.v1.Finding.product": Product;
  "roamcard.v1.Finding.status": "open" | "resolved";
  "roamcard.v1.ReconciliationRun.outcome": ReconciliationOutcome;
  "roamcard.v1.ReconciliationRun.unread": "chain" | "records";
  "roamcard.v1.UnmatchedTransfer.status": "open" | "resolved";
  "roamcard.v1.WhoAmIResponse.role": OperatorRole;
  "roamcard.v1.WhoAmIResponse.source": "configuration" | "token" | "issuer";
  "roamcard.v1.Approval.action": "order.refund" | "order.fulfill" | "transfer.resolve" | "card.close";
  "roamcard.v1.Approval.status": ApprovalStatus;
  "roamcard.v1.Approval.resolution": TransferResolution;
  "roamcard.v1.OperatorToken.role": OperatorRole;
  "roamcard.v1.OperatorToken.status": TokenStatus;
  "roamcard.v1.UnmatchedTransfer.resolution": TransferResolution;
  "roamcard.v1.GetStatusResponse.status": ServiceStatus;
  "roamcard.v1.ProductStatus.product": Product;
  "roamcard.v1.ProductStatus.status": ServiceStatus;
}

type MemberOf<M extends Message, K extends keyof M> = `${M["$typeName"]}.${K & string}` extends keyof Literals
  ? Literals[`${M["$typeName"]}.${K & string}`] | Extract<M[K], undefined>
  : Plain<M[K]>;

/** A message of the service as plain data. */
export type Plain<M> = M extends Timestamp
  ? string
  : M extends Message
    ? { [K in keyof M as K extends "$typeName" | "$unknown" ? never : K]: MemberOf<M, K> }
    : M extends readonly (infer I)[]
      ? Plain<I>[]
      : M;

/** Makes plain data of messages, and of lists of them; everything else is left as it is. */
export function plain<M>(value: M): Plain<M> {
  return plainOf(value) as Plain<M>;
}

function plainOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainOf);
  if (!isMessage(value)) return value;
  if (value.$typeName === TimestampSchema.typeName) return isoOf(value as Timestamp);
  const members = Object.entries(value)
    .filter(([name]) => !name.startsWith("$"))
    .map(([name, member]) => [name, plainOf(member)] as const);
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null && "$typeName" in value;
}

// isoOf leaves a time out that no calendar has: an answer to a payment is not lost for it.
function isoOf(time: Timestamp): string | undefined {
  try {
    return toJson(TimestampSchema, time);
  } catch {
    return undefined;
  }
}

/** Something asked for, its price, and how far it has come. */
export interface Order extends Plain<order.Order> {}
/** What the link of an order tells those who have it. The name of a plan in its description is a stranger's text. */
export interface PayableOrder extends Plain<order.PayableOrder> {}
/** An eSIM: what a phone needs to install it. Whoever has it has the eSIM. */
export interface EsimCredentials extends Plain<order.EsimCredentials> {}
export interface Card extends Plain<card.Card> {}
export interface CardBalance extends Plain<card.GetCardBalanceResponse> {}
/** What merchants ask for when a card is used, next to its number. */
export interface CardDetails extends Plain<card.CardDetails> {}
/** What a wallet allows its card to be used for. */
export interface CardLimits extends Plain<card.CardLimits> {}
/** What a merchant charged to a card or gave back, or tried to. The merchant's name is a stranger's text. */
export interface CardTransaction extends Plain<card.CardTransaction> {}
/** A card, sealed to the key of a presenter. */
export interface SealedCredentials extends Plain<card.SealedCredentials> {}
/** What an owner's signature gives: with it a presenter shows the card. */
export interface Revealed extends Plain<card.RevealCardResponse> {}
export interface CardDiscovery extends Plain<card.GetCardDiscoveryResponse> {}
export interface TopupDiscovery extends Plain<card.GetTopupDiscoveryResponse> {}
/** A plan that can be bought now. */
export interface EsimPlan extends Plain<esim.EsimPlan> {}
/** How an eSIM stands at its supplier, without what installs it. Bytes are decimal numbers in text. */
export interface EsimProfile extends Plain<esim.EsimProfile> {}
/** The cancellation of one eSIM. */
export interface EsimCancellation extends Plain<esim.EsimCancellation> {}
export interface EsimDiscovery extends Plain<esim.GetEsimDiscoveryResponse> {}
/** The network, the payee, the fees and the limits. */
export interface Config extends Plain<service.GetConfigResponse> {}
/** How each product stands, since when, and how long recent deliveries took. */
export interface Status extends Plain<service.GetStatusResponse> {}
/** Whose session it is, what it may do, and until when. */
export interface SessionInfo extends Plain<auth.GetSessionResponse> {}
/** What happened in the last days. */
export interface Activity extends Plain<activity.GetActivityResponse> {}
export interface FeeJob extends Plain<operator.FeeJob> {}
/** The closing of one card. */
export interface CardClosing extends Plain<operator.CardClosing> {}
export interface Finding extends Plain<operator.Finding> {}
/** All there is about an order. */
export interface OrderInspection extends Plain<operator.InspectOrderResponse> {}
/** An order as it lies before an operator. */
export interface ReviewItem extends Plain<operator.ReviewItem> {}
export interface Reconciliation extends Plain<operator.Reconciliation> {}
/** One comparison of the books that has ended. */
export interface ReconciliationRun extends Plain<operator.ReconciliationRun> {}
/** A transfer to the payee that belongs to no order. */
export interface UnmatchedTransfer extends Plain<operator.UnmatchedTransfer> {}
/** What an operator needs to decide about an order. */
export interface OrderReview extends Plain<operator.ReviewOrderResponse> {}
/** Work that survives a restart. */
export interface Job extends Plain<operator.OperatorJob> {}
/** How many orders of a kind are in a status. */
export interface OrderCount extends Plain<operator.OrderCount> {}
/** Whose token it is, its role, and when it expires. */
export interface OperatorIdentity extends Plain<operator.WhoAmIResponse> {}
/** A decision that takes effect once a second operator approves it. */
export interface Approval extends Plain<operator.Approval> {}
/** A token of an operator that was minted, without the token. */
export interface OperatorToken extends Plain<operator.OperatorToken> {}
/** One thing that an operator did. */
export interface AuditRecord extends Plain<operator.AuditRecord> {}
/** The present values of what sales depend on. */
export interface Gauges extends Plain<operator.GetGaugesResponse> {}
/** How much waits for operators. */
export interface Summary extends Plain<operator.GetSummaryResponse> {}
/** The cancellation of one eSIM, as operators see it. */
export interface EsimCancellationJob extends Plain<operator.EsimCancellationJob> {}
/** The kill switch of one product. */
export interface Switch extends Plain<operator.Switch> {}
