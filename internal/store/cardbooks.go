package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// CardProduct is the store's part of the card product.
func CardProduct() Product {
	return Product{
		Kind: card.Kind, atIssuer: true, records: cardRecords,
		referencesSQL: `SELECT reference FROM cards WHERE reference = ANY($1)`,
		ownersSQL:     `SELECT owner FROM cards WHERE account <> '' AND account = ANY($1) OR reference = ANY($2)`,
		returns:       []job.Kind{card.CloseJob},
	}
}

const (
	cardsOfSQL = `SELECT id, order_id, status, reference, account, load_usd_cents, provider
		FROM cards WHERE order_id = ANY($1) ORDER BY id`

	// The unique key of a fee job is its card, as that of a closing is.
	feesOfSQL = `SELECT status, payload FROM jobs WHERE kind = $1 AND unique_key = ANY($2::text[]) ORDER BY id`

	accountsSQL = `SELECT owner, id, order_id, status, reference, account, provider FROM cards WHERE account = ANY($1)`
)

const cardProvidersSQL = `
	SELECT provider FROM cards WHERE status NOT IN ('CLOSED', 'FAILED')
	UNION SELECT o.item->>'provider' FROM orders o WHERE ` + paidFor + ` AND o.item ? 'provider' ORDER BY 1`

// Providers are the issuers of live cards and of paid orders for cards.
func (c Cards) Providers(ctx context.Context) ([]string, error) {
	return c.s.names(ctx, cardProvidersSQL, card.Kind)
}

// cardRecords reads the cards of orders, their fee jobs and their closings.
func cardRecords(b booksReader, orders []string) (reconcile.Goods, error) {
	var r card.Records
	if err := readAll(b, &r.Cards, scanCard, cardsOfSQL, orders)(); err != nil {
		return nil, err
	}
	var keys []string
	for _, c := range r.Cards {
		keys = append(keys, c.ID.String())
	}
	err := b.all(
		readAll(b, &r.Fees, scanFee, feesOfSQL, card.FeeJob, keys),
		readAll(b, &r.Closings, scanClosing, feesOfSQL, card.CloseJob, keys),
	)
	return r, err
}

// ByAccounts implements card.Accounts.
func (c Cards) ByAccounts(ctx context.Context, accounts []string) ([]card.Card, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := c.s.pool.Query(ctx, accountsSQL, accounts)
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, scanOwnedCard)
	return found, mapError(err)
}

func scanCard(row pgx.CollectableRow) (c card.Card, err error) {
	var ref uuid.UUID
	err = row.Scan(&c.ID, &c.Order, &c.Status, &ref, &c.Account, (*int64)(&c.Load), &c.Provider)
	c.Ref = fulfilment.Ref(ref)
	return c, err
}

func scanFee(row pgx.CollectableRow) (f card.FeeRecord, err error) {
	var j job.Row
	if err := row.Scan(&f.Status, &j.Payload); err != nil {
		return f, err
	}
	f.Args, err = job.Decode[card.FeeArgs](j)
	return f, err
}

func scanClosing(row pgx.CollectableRow) (r card.CloseRecord, err error) {
	var j job.Row
	if err := row.Scan(&r.Status, &j.Payload); err != nil {
		return r, err
	}
	r.Args, err = job.Decode[card.CloseArgs](j)
	return r, err
}

func scanOwnedCard(row pgx.CollectableRow) (c card.Card, err error) {
	var owner string
	var ref uuid.UUID
	if err := row.Scan(&owner, &c.ID, &c.Order, &c.Status, &ref, &c.Account, &c.Provider); err != nil {
		return c, err
	}
	c.Ref = fulfilment.Ref(ref)
	c.Owner, err = x402.ParseAddress(owner)
	return c, err
}
