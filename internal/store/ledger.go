package store

import (
	"fmt"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// A posting and its entries are one statement, at whose end the database checks that they balance. What is posted already stays
// as it is.
const postSQL = `
	WITH posted AS (
		INSERT INTO ledger_postings (id, order_id, kind, at) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING RETURNING id)
	INSERT INTO ledger_entries (posting_id, account, amount)
	SELECT posted.id, e.account, e.amount FROM posted, unnest($5::varchar[], $6::bigint[]) AS e (account, amount)`

// post queues the record of a movement of value. It belongs into the transaction that records the movement itself, and costs no
// round trip of its own.
func post(tx *ent.Tx, now time.Time, p ledger.Posting) {
	accounts, amounts := make([]string, len(p.Entries)), make([]int64, len(p.Entries))
	for i, e := range p.Entries {
		accounts[i], amounts[i] = string(e.Account), int64(e.Amount)
	}
	later(tx, postSQL, p.ID, p.Order, p.Kind, now, accounts, amounts)
}

// postAllSQL is postSQL for many postings.
const postAllSQL = `
	WITH posted AS (
		INSERT INTO ledger_postings (id, order_id, kind, at)
		SELECT p.id, p.order_id, p.kind, $1 FROM unnest($2::varchar[], $3::varchar[], $4::varchar[]) AS p (id, order_id, kind)
		ON CONFLICT (id) DO NOTHING RETURNING id)
	INSERT INTO ledger_entries (posting_id, account, amount)
	SELECT posted.id, e.account, e.amount FROM unnest($5::varchar[], $6::varchar[], $7::bigint[]) AS e (posting_id, account, amount)
		JOIN posted ON posted.id = e.posting_id`

// postAll is post for many postings.
func postAll(tx *ent.Tx, now time.Time, all []ledger.Posting) {
	var ids, orders, kinds, of, accounts []string
	var amounts []int64
	for _, p := range all {
		ids, orders, kinds = append(ids, string(p.ID)), append(orders, p.Order), append(kinds, string(p.Kind))
		for _, e := range p.Entries {
			of, accounts, amounts = append(of, string(p.ID)), append(accounts, string(e.Account)), append(amounts, int64(e.Amount))
		}
	}
	later(tx, postAllSQL, now, ids, orders, kinds, of, accounts, amounts)
}

// postDelivered queues what a delivery moved, once its order is fulfilled. The load of a new card is posted when the card becomes
// active, the cost of an eSIM when the eSIM is ready.
func postDelivered(tx *ent.Tx, now time.Time, o order.Order) error {
	if o.Kind == order.ESIM {
		post(tx, now, ledger.Sold(string(o.ID), o.Price))
	}
	if o.Kind != order.CardTopup {
		return nil
	}
	t, err := card.TopupItem(o)
	if err != nil {
		return fmt.Errorf("order %s: %w", o.ID, err)
	}
	for _, p := range ledger.ToppedUp(string(o.ID), t.Card.String(), t.Credit, t.Fee) {
		post(tx, now, p)
	}
	return nil
}
