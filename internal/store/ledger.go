package store

import (
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/ledger"
)

// A posting and its entries are one statement, at whose end the database checks that they balance. They take the owner
// of their order; a posting of no order has none. What is posted already
// stays as it is, and what is to undo a posting that is not there is not posted.
const postSQL = `
	WITH posted AS (
		INSERT INTO ledger_postings (id, order_id, owner, kind, at)
		SELECT $1::varchar, $2::varchar, coalesce((SELECT owner FROM orders WHERE id = $2::varchar), ''), $3::varchar,
			$4::timestamptz
		WHERE $5::varchar = '' OR EXISTS (SELECT FROM ledger_postings WHERE id = $5)
		ON CONFLICT (id, owner) DO NOTHING RETURNING id, owner)
	INSERT INTO ledger_entries (posting_id, owner, account, amount)
	SELECT posted.id, posted.owner, e.account, e.amount
	FROM posted, unnest($6::varchar[], $7::bigint[]) AS e (account, amount)`

// post queues the records of movements of value. They belong into the transaction that records the movements
// themselves, and cost no round trip of their own. The domain decides what is posted.
func post(tx *ent.Tx, now time.Time, all ...ledger.Posting) {
	for _, p := range all {
		accounts, amounts := make([]string, len(p.Entries)), make([]int64, len(p.Entries))
		for i, e := range p.Entries {
			accounts[i], amounts[i] = string(e.Account), int64(e.Amount)
		}
		later(tx, postSQL, p.ID, p.Order, p.Kind, now, p.Undoes, accounts, amounts)
	}
}

// postAllSQL is postSQL for many postings that a comparison found missing.
const postAllSQL = `
	WITH posted AS (
		INSERT INTO ledger_postings (id, order_id, owner, kind, at)
		SELECT p.id, p.order_id, coalesce((SELECT owner FROM orders WHERE id = p.order_id), ''), p.kind, $1
		FROM unnest($2::varchar[], $3::varchar[], $4::varchar[]) AS p (id, order_id, kind)
		ON CONFLICT (id, owner) DO NOTHING RETURNING id, owner)
	INSERT INTO ledger_entries (posting_id, owner, account, amount)
	SELECT posted.id, posted.owner, e.account, e.amount
	FROM unnest($5::varchar[], $6::varchar[], $7::bigint[]) AS e (posting_id, account, amount)
		JOIN posted ON posted.id = e.posting_id`

// postAll is post for many postings; what one of them undoes is known to be there.
func postAll(tx *ent.Tx, now time.Time, all []ledger.Posting) {
	var ids, orders, kinds, of, accounts []string
	var amounts []int64
	for _, p := range all {
		ids, orders, kinds = append(ids, string(p.ID)), append(orders, p.Order), append(kinds, string(p.Kind))
		for _, e := range p.Entries {
			of, accounts, amounts = append(of, string(p.ID)), append(accounts, string(e.Account)),
				append(amounts, int64(e.Amount))
		}
	}
	later(tx, postAllSQL, now, ids, orders, kinds, of, accounts, amounts)
}
