package invariants

// Tables are what is recorded where no database is: Books.Tables instead of DatabaseURL. What is not recorded there
// stays empty.
type Tables struct {
	Orders       []OrderRow
	Moves        []MoveRow
	Payments     []PaymentRow
	Refunds      []RefundRow
	Cards        []CardRow
	Profiles     []ProfileRow
	Topups       []TopupRow
	Journal      []JournalRow
	Reservations []ReservationRow
	Jobs         []JobRow
	Fees         []FeeRow
	Closings     []ClosingRow
	Cancels      []CancelRow
	Postings     []PostingRow
	Entries      []EntryRow
}

// The rows have the values of readDatabase's columns.
type (
	OrderRow       = orderRow
	MoveRow        = moveRow
	PaymentRow     = paymentRow
	RefundRow      = refundRow
	CardRow        = cardRow
	ProfileRow     = profileRow
	TopupRow       = topupRow
	JournalRow     = journalRow
	ReservationRow = reservationRow
	JobRow         = jobRow
	FeeRow         = feeRow
	ClosingRow     = closingRow
	CancelRow      = cancelRow
	PostingRow     = postingRow
	EntryRow       = entryRow
)

// database is what was recorded, as it is read from a database.
func (t Tables) database() database {
	return database{
		orders: t.Orders, moves: t.Moves, payments: t.Payments, refunds: t.Refunds, cards: t.Cards, profiles: t.Profiles,
		topups: t.Topups, journal: t.Journal, reservations: t.Reservations, jobs: t.Jobs, fees: t.Fees,
		closings: t.Closings, cancels: t.Cancels, postings: t.Postings, entries: t.Entries,
	}
}
