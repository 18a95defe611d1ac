package store

import (
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/x402"
)

// postSQL inserts a posting and its entries in one statement, after which the database checks that they balance. Their
// owner is that of the order, or empty without an order: it is given, or null to be looked up. An existing posting
// stays as it is. A reversal of a posting that does not exist is not inserted.
const postSQL = `
	WITH posted AS (
		INSERT INTO ledger_postings (id, order_id, owner, kind, at)
		SELECT $1::varchar, $2::varchar, coalesce($8::varchar, (SELECT owner FROM orders WHERE id = $2::varchar), ''),
			$3::varchar, $4::timestamptz
		WHERE $5::varchar = '' OR EXISTS (SELECT 1 FROM ledger_postings WHERE id = $5)
		ON CONFLICT (id, owner) DO NOTHING RETURNING id, owner)
	INSERT INTO ledger_entries (posting_id, owner, account, amount)
	SELECT posted.id, posted.owner, e.account, e.amount
	FROM posted, unnest($6::varchar[], $7::bigint[]) AS e (account, amount)`

// postingRow is the row of a posting, without its entries. The owner is that of its order, as it is stored.
func postingRow(p ledger.Posting, owner string, now time.Time) *ent.LedgerPosting {
	return &ent.LedgerPosting{ID: string(p.ID), OrderID: p.Order, Owner: owner, Kind: string(p.Kind), At: now}
}

// post queues postings in the transaction that records their cause, without a round trip of its own. The domain decides
// what is posted. The owner of each is read from its order.
func post(tx *ent.Tx, now time.Time, all ...ledger.Posting) {
	for _, p := range all {
		var owner *string
		if p.Order == "" {
			owner = new(string)
		}
		postOne(tx, now, owner, p)
	}
}

// postFor is post where the owner of the postings' order is known.
func postFor(tx *ent.Tx, now time.Time, owner x402.Address, all ...ledger.Posting) {
	postAs(tx, now, owner.Lower(), all...)
}

// postAs is postFor with the owner as it is stored, such as that of a job.
func postAs(tx *ent.Tx, now time.Time, owner string, all ...ledger.Posting) {
	for _, p := range all {
		if p.Order == "" || owner == "" {
			post(tx, now, p)
		} else {
			postOne(tx, now, &owner, p)
		}
	}
}

func postOne(tx *ent.Tx, now time.Time, owner *string, p ledger.Posting) {
	accounts, amounts := make([]string, len(p.Entries)), make([]int64, len(p.Entries))
	for i, e := range p.Entries {
		accounts[i], amounts[i] = string(e.Account), int64(e.Amount)
	}
	if shardsOf(tx) != nil {
		if err := postSharded(tx, now, owner, p, accounts, amounts); err != nil {
			pgxOf(tx).failed = err
		}
		return
	}
	later(tx, postSQL, p.ID, p.Order, p.Kind, now, p.Undoes, accounts, amounts, owner)
}

// postAllSQL is postSQL for the postings that a comparison found missing.
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

// postAll is post for many postings; those that they reverse exist.
func postAll(tx *ent.Tx, now time.Time, all []ledger.Posting) {
	if shardsOf(tx) != nil {
		post(tx, now, all...)
		return
	}
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
