package faultpoint

// Point is one named point of the program.
type Point struct {
	Name string
	// Fails says that "error" may be armed: the caller handles an error there.
	Fails bool
	// Doc is what has happened when the point is reached, and what has not.
	Doc string
}

// Points lists every point in the order in which a purchase reaches it: an order before it is paid, then a card, with
// the points of a top-up and of a refund where they differ.
func Points() []Point {
	return []Point{
		{"create.before_commit", true, "an unpaid order is written; the transaction is open"},
		{"create.committed", false, "an unpaid order is stored; nobody is told"},
		{"expire.before_commit", true, "unpaid orders whose time is over are moved to expired; the transaction is open"},
		{"expire.committed", false, "unpaid orders whose time is over are expired"},
		{"catchup.read", true, "after a start or a change of the database: the transfers have been read; sales are not open"},
		{
			"recover.before_commit", true, "a recovery's order, payment, job and audit row are written; the transaction is open",
		},
		{"recover.committed", false, "one step of a recovery is stored; the next is not begun"},
		{"buy.challenged", false, "an unpaid request is priced; the challenge is not sent"},
		{"buy.decoded", false, "the payment header is read; nothing is verified or stored"},
		{"buy.verified", false, "the payment is good; nothing is stored"},
		{"arrive.before_commit", true, "a transfer that somebody showed us is written as arrived; the transaction is open"},
		{"arrive.committed", false, "a transfer that somebody showed us is stored as arrived; nobody is told"},
		{"claim.before_commit", true, "order, payment, reservations and job are written; the transaction is open"},
		{"claim.committed", false, "the claim is stored; nobody works on it yet"},
		{"fulfill.leased", false, "the order's job is leased, by the buyer's own process or by another; no step is taken"},
		{"transaction.before_commit", true,
			"the settlement transaction is signed and written; its database transaction is open"},
		{"transaction.stored", false, "the signed transaction is stored; it is not sent"},
		{"batch.stored", false, "a signed transaction for several payments is stored; it is not sent"},
		{"batch.sent", false, "a transaction for several payments is sent; none of them knows"},
		{"transaction.reverted", false, "a block shows that a transaction moved nothing; that is not noted"},
		{"transaction.sent", false, "the signed transaction is sent; its acceptance is not noted"},
		{
			"bump.stored", false,
			"a transaction that waited too long is signed again with a higher fee and stored; it is not sent",
		},
		{"facilitator.before_settle", false, "the facilitator is about to be asked to settle"},
		{"facilitator.after_settle", false, "the facilitator has answered or the call has failed; nothing is noted"},
		{"settle.undecided", false, "one look at the chain has not decided the payment; the job is not put back"},
		{"settle.seen", false, "the chain shows the transfer; it is not recorded"},
		{"settle.before_commit", true, "the paid payment is written; the transaction is open"},
		{"settle.committed", false, "the payment is recorded and the order settled; nobody is told"},
		{"resume.before_commit", true, "what a late payment reserves again is written; the transaction is open"},
		{"prove.before_commit", true, "a payment that an operator has proven is written; the transaction is open"},
		{"void.before_commit", true, "the dead payment is written; the transaction is open"},
		{"void.committed", false, "the dead payment is recorded and the order payable again; nobody is told"},
		{"answer.ready", false, "the paid request's answer is made; none of it is sent"},
		{"answer.half", false, "half of the paid request's answer is sent"},
		{
			"move.before_commit", true,
			"a step of the order is written; the transaction is open. Passes: settled, provisioning, fulfilled",
		},
		{
			"move.committed", false,
			"a step of the order is stored; the next is not begun. Passes: settled, provisioning, fulfilled",
		},
		{"card.reserved", false, "the card's row and reference are stored; the issuer knows nothing"},
		{
			"submit.marked", false,
			"the marker of a call to the issuer is stored; the call is not made. Passes: opening, withdrawal",
		},
		{"issuer.before_open", true, "the opening is about to be sent"},
		{"issuer.unloaded", false, "an issuer that loads cards by themselves has the card; its load is not sent"},
		{"issuer.after_open", true, "the issuer has opened the card; its answer is not recorded"},
		{"card.before_commit", true, "the active card and its fee job are written; the transaction is open"},
		{"card.activated", false, "the active card and its fee job are stored; the order is not fulfilled"},
		{"turn.before_commit", true,
			"a card is taken for one movement, with what that brings it to; the transaction is open"},
		{"load.taken", false, "the top-up's card is taken; the load is not sent"},
		{"load.before_send", true, "a top-up's load is about to be sent"},
		{"load.after_send", true, "the issuer has the load; its answer is not recorded"},
		{"esim.reserved", false, "the eSIM's row and reference are stored; the supplier knows nothing"},
		{"supplier.before_order", true, "the order is about to be sent to the supplier"},
		{"journal.begun", false, "what is sent to a supplier without references is in its journal; it is not sent"},
		{"journal.unnamed", false, "such a supplier has the order; the journal does not have its name"},
		{"supplier.after_order", true, "the supplier has the order; its answer is not recorded"},
		{"esim.before_commit", true, "the sealed eSIM is written; the transaction is open"},
		{"esim.installed", false, "the sealed eSIM is stored; the order is not fulfilled"},
		{"refund.stored", false, "the refund's authorization is stored; nobody else has it"},
		{"refund.before_send", false, "the chain shows no refund; the relayer is about to be asked for it"},
		{"refund.sent", false, "the relayer has taken the refund; the money may have moved"},
		{"refund.seen", false, "the chain shows the refund; it is not recorded"},
		{"refund.before_commit", true, "the paid refund is written; the transaction is open"},
		{"refund.committed", false, "the refund is recorded and the order refunded; its job is not closed"},
		{"fulfill.done", false, "the order is final; its job is not closed"},
		{"fee.leased", false, "the fee job is leased; no step is taken"},
		{"fee.turn", false, "the card is taken for the withdrawal; it is not sent"},
		{"fee.before_withdraw", true, "the withdrawal is about to be sent"},
		{"fee.after_withdraw", true, "the issuer has the withdrawal; its answer is not recorded"},
		{"fee.taken", false, "the issuer confirmed the withdrawal; the fee job is not closed"},
		{"owe.before_commit", true, "the fee that is owed is written; the transaction is open"},
		{"owe.committed", false, "the fee that is owed is stored; nobody is told"},
		{"close.before_order", true, "the job that closes a card is written; the transaction is open"},
		{"close.leased", false, "the job that closes a card is leased; no step is taken"},
		{"close.locked", false, "the issuer has locked the card that is closed; what is left on it is not read"},
		{"close.before_withdraw", true, "the withdrawal of what is left on a card is about to be sent"},
		{"close.after_withdraw", true, "the issuer has that withdrawal; its answer is not recorded"},
		{"close.withdrawn", false, "the issuer confirmed that withdrawal; it is not recorded, and nothing is refunded"},
		{"close.before_commit", true, "a step of the closing is written; the transaction is open"},
		{"close.committed", false, "a step of the closing is stored; the next is not begun"},
		{"return.stored", false, "the authorization that refunds what is handed back is stored; nobody else has it"},
		{"return.seen", false, "the chain shows that refund; it is not recorded"},
		{"return.before_commit", true, "that refund is written as paid; the transaction is open"},
		{"return.committed", false, "that refund is recorded; the job that asked for it does not know"},
		{"close.before_end", false, "the owner has what was left; the issuer is about to be asked to close the card"},
		{"close.ended", false, "the issuer has closed the card; that is not recorded"},
		{"cancel.before_begin", true, "the job that gives an eSIM back is written; the transaction is open"},
		{"cancel.leased", false, "the job that gives an eSIM back is leased; no step is taken"},
		{"cancel.before_send", true, "the supplier is about to be asked to take an eSIM back"},
		{"cancel.after_send", true, "the supplier has been asked to; its answer is not recorded"},
		{"cancel.confirmed", false, "the supplier has taken the eSIM back; it is not recorded, and nothing is refunded"},
		{"cancel.before_commit", true, "what the supplier credits, or its refusal, is written; the transaction is open"},
		{"cancel.committed", false, "what the supplier credits, or its refusal, is stored; no refund is begun"},
		{"extend.reserved", false, "the row and the reference of data for an eSIM are stored; the supplier knows nothing"},
		{"extend.before_send", true, "the order of data for an eSIM is about to be sent to the supplier"},
		{"extend.after_send", true, "the supplier has that order; its answer is not recorded"},
		{"extend.before_commit", true, "the data that was added is written; the transaction is open"},
		{"extend.stored", false, "the data that was added is stored; its order is not fulfilled"},
		{"webhook.received", false, "an event of a provider is verified; nothing is stored"},
		{"webhook.before_commit", true, "an event and its job are written; the transaction is open"},
		{"webhook.stored", false, "an event is stored with its job; the provider is not answered"},
		{"webhook.read", false, "what an event is about has been read; its job is not done"},
		{"observe.before_commit", true, "what the issuer reports of cards is written; the transaction is open"},
		{"confirm.final", false, "nothing can undo the payment any more; the job that follows it is not closed"},
		{"refund.final", false, "nothing can undo the refund any more; the job that follows it is not closed"},
		{"periodic.succeeded", false, "periodic work is done and its job closed; what was parked of its kind is not deleted"},
		{"transactions.pruned", true, "a batch of old transactions is deleted; the next is not begun"},
		{"timeline.before_commit", true, "old lines of some final orders are deleted; the transaction is open"},
	}
}

func find(name string) (Point, bool) {
	for _, p := range Points() {
		if p.Name == name {
			return p, true
		}
	}
	return Point{}, false
}
