// Package mutant names planted bugs, none of which is in an ordinary build: they show that the tests would notice.
//
// Each constant is false, so the compiler drops what it guards, unless the program is built with
// -tags mutant,mutant_<name>. tools/teeth.sh builds each of them and expects a test to fail.
package mutant

// Selling.
const (
	// UnknownIs402 asks for another payment while the first may still arrive.
	UnknownIs402 = planted == "unknown_is_402"
	// RepeatUnsigned answers whoever names a wallet and its key with that wallet's order.
	RepeatUnsigned = planted == "repeat_unsigned"
	// BodyNotCompared answers a known key whatever its request asks for.
	BodyNotCompared = planted == "body_not_compared"
	// ForgedQuote honours a quote that nobody has signed.
	ForgedQuote = planted == "forged_quote"
	// DeliverFirst delivers before the payment is proven.
	DeliverFirst = planted == "deliver_first"
	// OrderOfAnyone shows an order to every wallet that knows its id.
	OrderOfAnyone = planted == "order_of_anyone"
	// SoldBeforeCaughtUp sells while the record of what was paid may lack something.
	SoldBeforeCaughtUp = planted == "sold_before_caught_up"
	// RecoveredTwice takes a transfer up again that has been taken up.
	RecoveredTwice = planted == "recovered_twice"
	// AdoptedForgotten does not know a recovered order by its buyer's key.
	AdoptedForgotten = planted == "adopted_forgotten"
	// RefusalUnjudged tells a payer to pay again without asking the chain where the first payment's money is.
	RefusalUnjudged = planted == "refusal_unjudged"
	// PublicProves takes a spent authorization, which anyone can read, for its payer.
	PublicProves = planted == "public_proves"
	// GoodsUnasked lets money that arrived buy what the provider may have delivered for it already.
	GoodsUnasked = planted == "goods_unasked"
	// AnyonePays lets a wallet pay an order that another one opened.
	AnyonePays = planted == "anyone_pays"
)

// Paying.
const (
	// AmountAtLeast takes a payment of more than the price.
	AmountAtLeast = planted == "amount_at_least"
	// ExpiredAccepted takes an authorization whose time is over.
	ExpiredAccepted = planted == "expired_accepted"
	// ReceiptTrusted takes any use of an authorization for the payment, wherever the money went.
	ReceiptTrusted = planted == "receipt_trusted"
	// TransferOfAnother takes a transfer anywhere in the transaction for this authorization's.
	TransferOfAnother = planted == "transfer_of_another"
	// ExpiryAtHead calls a payment dead by a block that may be reorganised away.
	ExpiryAtHead = planted == "expiry_at_head"
	// OneNodeBuries gives a payment up on the word of one node.
	OneNodeBuries = planted == "one_node_buries"
	// ArrivedSubmitted sends for money that arrived without us, for which nobody gave us a signature.
	ArrivedSubmitted = planted == "arrived_submitted"
	// ArrivalUnchecked claims money that was read as arrived without asking whether the chain shows it.
	ArrivalUnchecked = planted == "arrival_unchecked"
	// ArrivedUnlocked lets an order claim money that an operator sends back at the same moment.
	ArrivedUnlocked = planted == "arrived_unlocked"
	// OneNodeDelivers takes a transfer for made on the word of one node.
	OneNodeDelivers = planted == "one_node_delivers"
	// OneNodeIncludes takes a transaction for included, or reverted, on the word of one node.
	OneNodeIncludes = planted == "one_node_includes"
	// OneNodeRefuses turns a payer away because one node refuses the transfer.
	OneNodeRefuses = planted == "one_node_refuses"
	// HeadBelieved holds all nodes against the newest block that any of them shows.
	HeadBelieved = planted == "head_believed"
	// SlowNodeAwaited waits for a node that takes long before it asks the next one.
	SlowNodeAwaited = planted == "slow_node_awaited"
	// NonceBelieved numbers a transaction by the largest count that any node claims.
	NonceBelieved = planted == "nonce_believed"
	// ErrorsAnswer takes a node's error for the answer, whatever was asked.
	ErrorsAnswer = planted == "errors_answer"
	// QuorumOfOne believes the last node of several that answers.
	QuorumOfOne = planted == "quorum_of_one"
	// HistoryBelieved reads what arrived from the node that answers first.
	HistoryBelieved = planted == "history_believed"
	// HashBelieved takes the transaction that an operator names for the payment without looking into it.
	HashBelieved = planted == "hash_believed"
	// SentBeforeStored sends a transaction that no crash would leave a trace of.
	SentBeforeStored = planted == "sent_before_stored"
	// InFlightIsFailed makes a second transaction while the first can still be included.
	InFlightIsFailed = planted == "in_flight_is_failed"
)

// Inviting.
const (
	// PauseIgnored asks for payments while the token's issuer lets nobody move it.
	PauseIgnored = planted == "pause_ignored"
	// ReorgIgnored asks for payments while blocks are being replaced.
	ReorgIgnored = planted == "reorg_ignored"
	// SettleFailureIgnored takes a facilitator for ready that lists our kind and settles nothing.
	SettleFailureIgnored = planted == "settle_failure_ignored"
	// PayerNotTold tells a blocked payer to sign another payment.
	PayerNotTold = planted == "payer_not_told"
)

// Refunding and deciding.
const (
	// RefundNonceFresh signs a refund again with a nonce of its own, so that the token takes both.
	RefundNonceFresh = planted == "refund_nonce_fresh"
	// UndoneRefunded gives a payment back that a reorganisation took out.
	UndoneRefunded = planted == "undone_refunded"
	// DecidedOverRefund decides an order while its refund may still move money.
	DecidedOverRefund = planted == "decided_over_refund"
	// RetrySameReference asks the issuer once more what it has refused for good.
	RetrySameReference = planted == "retry_same_reference"
	// SwitchIgnored sells what operators have closed.
	SwitchIgnored = planted == "switch_ignored"
)

// Keeping.
const (
	// PurchaseKeyNotUnique drops the index that makes (kind, payer, key) one order.
	PurchaseKeyNotUnique = planted == "purchase_key_not_unique"
	// AuthorizationNotUnique drops the index that makes one authorization buy one thing.
	AuthorizationNotUnique = planted == "authorization_not_unique"
	// JobForgotten places an order that nothing carries.
	JobForgotten = planted == "job_forgotten"
	// OrderUnfenced lets a worker that has lost its job go on moving the order.
	OrderUnfenced = planted == "order_unfenced"
	// PaidTooLate claims a payment for an order whose time is over.
	PaidTooLate = planted == "paid_too_late"
	// SupplierNotAsked tells the terms of an eSIM that its supplier could not make now.
	SupplierNotAsked = planted == "supplier_not_asked"
	// ClaimUnswitched claims by what was known of the kill switch a moment ago.
	ClaimUnswitched = planted == "claim_unswitched"
	// HoldsKept leaves what is scarce with claims whose payers do not have the money.
	HoldsKept = planted == "holds_kept"
	// HoldsUnlimited promises the same float to everyone.
	HoldsUnlimited = planted == "holds_unlimited"
	// LanesOverlap leaves no room for what those in other lanes are taking of the same float.
	LanesOverlap = planted == "lanes_overlap"
	// HoldsReleasedEarly gives a paid order's float away before the order is delivered.
	HoldsReleasedEarly = planted == "holds_released_early"
)

// Comparing the books.
const (
	// FindingsBlockAll closes top-ups for everybody by a finding that concerns one wallet, or by one that strangers can cause.
	FindingsBlockAll = planted == "findings_block_all"
	// AnyAmountOfNonce takes a transfer of any amount for the payment whose nonce it used.
	AnyAmountOfNonce = planted == "any_amount_of_nonce"
	// RangesNotHalved gives a comparison up at a range of blocks that the nodes refuse.
	RangesNotHalved = planted == "ranges_not_halved"
	// DifferenceSeenOnce reports what differs only because the books are read one after the other.
	DifferenceSeenOnce = planted == "difference_seen_once"
	// ResolutionForgotten reopens what an operator has resolved at the next comparison.
	ResolutionForgotten = planted == "resolution_forgotten"
	// ReportUnbounded lists everything that is open in the report.
	ReportUnbounded = planted == "report_unbounded"
)

// Delivering.
const (
	// ResendUnknown calls the issuer again after an unknown answer, without looking what became of it.
	ResendUnknown = planted == "resend_unknown"
	// HorizonIgnored believes "no such reference" at once.
	HorizonIgnored = planted == "horizon_ignored"
	// ReferenceOfOrder names a purchase to the issuer by the order's random id, which is another one once the row was lost.
	ReferenceOfOrder = planted == "reference_of_order"
	// NewReference gives each opening of a card a reference of its own.
	NewReference = planted == "new_reference"
	// FeeVersionPerAttempt makes each attempt of a fee job another withdrawal.
	FeeVersionPerAttempt = planted == "fee_version_per_attempt"
	// FeeOnTheCard opens a card with the fee on it, although the issuer could keep it back.
	FeeOnTheCard = planted == "fee_on_the_card"
	// FeeForgiven forgets a fee that its holder has spent.
	FeeForgiven = planted == "fee_forgiven"
	// CardStateBelieved believes our own record of a card that its issuer has closed.
	CardStateBelieved = planted == "card_state_believed"
	// MarkerAfterCall stores that a call was begun when it is over.
	MarkerAfterCall = planted == "marker_after_call"
)

// Showing.
const (
	// ChallengeReused reveals a card again for the same signature.
	ChallengeReused = planted == "challenge_reused"
	// ScopeIgnored lets a session do what it was not granted.
	ScopeIgnored = planted == "scope_ignored"
	// SealedInTheOpen answers in plain text to who asked for a sealed answer.
	SealedInTheOpen = planted == "sealed_in_the_open"
	// SecretsReplayed shows an order's secrets to whoever can rebuild its payment from the chain.
	SecretsReplayed = planted == "secrets_replayed"
	// PaymentLogged writes the payment header into the log.
	PaymentLogged = planted == "payment_logged"
)

// Fairness.
const (
	// ClassesShareSlots lets the work of one class take the slots of another.
	ClassesShareSlots = planted == "classes_share_slots"
	// PeriodicPiles queues periodic work while earlier work of its kind is open.
	PeriodicPiles = planted == "periodic_piles"
	// ParkedForEver leaves parked periodic jobs to stand when the work is done.
	ParkedForEver = planted == "parked_for_ever"
	// SimulatedForNothing simulates in nobody's name, for a gas price of zero.
	SimulatedForNothing = planted == "simulated_for_nothing"
	// CodeIgnored takes payments of accounts with whatever code.
	CodeIgnored = planted == "code_ignored"
	// BumpedWithCode raises the fee of a transaction whose payer has got code since it was sent.
	BumpedWithCode = planted == "bumped_with_code"
	// RevertsUnbounded sends again however often it reverted and whatever it cost.
	RevertsUnbounded = planted == "reverts_unbounded"
	// NonceForgotten prunes the attempt that the next account nonce follows from.
	NonceForgotten = planted == "nonce_forgotten"
	// UndecidedUnlimited claims any number of undecided payments of one payer.
	UndecidedUnlimited = planted == "undecided_unlimited"
	// UnsettledUnlimited lets claims that nobody has paid hold all of the float.
	UnsettledUnlimited = planted == "unsettled_unlimited"
	// PaidIsUnsettled counts what a paid order holds among what nobody has paid.
	PaidIsUnsettled = planted == "paid_is_unsettled"
	// ValidityUnbounded takes an authorization however far ahead it ends.
	ValidityUnbounded = planted == "validity_unbounded"
)

// Limiting.
const (
	// PaymentsUncounted lets by whoever sends some text as a payment.
	PaymentsUncounted = planted == "payments_uncounted"
	// OrdersUncounted opens as many orders as are asked for.
	OrdersUncounted = planted == "orders_uncounted"
	// TurnsPerProcess counts what guards money in each process alone.
	TurnsPerProcess = planted == "turns_per_process"
	// ExpiredKept leaves expired orders in the table for ever.
	ExpiredKept = planted == "expired_kept"
	// ConnectionsUncounted takes every connection.
	ConnectionsUncounted = planted == "connections_uncounted"
)
