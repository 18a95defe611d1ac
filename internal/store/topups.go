package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// TopupProduct is the store's part of the top-up product, which has no table of its own.
func TopupProduct() Product {
	return Product{Kind: topup.Kind, atIssuer: true, records: topupRecords, explains: (*Store).explainsLoads}
}

const (
	splitsOfSQL = `SELECT id, item FROM orders WHERE id = ANY($1) AND kind = $2`

	accountsOfSQL = `SELECT id, account FROM cards WHERE id = ANY($1)`

	// The loads onto the cards of some owners that may be in progress or made without a record.
	loadingSQL = `
		SELECT item->>'card', sum((item->>'cardCreditUsdCents')::bigint)::bigint FROM orders
		WHERE owner = ANY($1) AND kind = 'card_topup' AND (status IN ('settled', 'provisioning') OR status = 'fulfilled'
			AND EXISTS (SELECT FROM timeline WHERE order_id = orders.id AND to_status = 'fulfilled' AND actor LIKE 'operator:%'))
		GROUP BY 1`

	// A top-up's reference is not stored: it is derived from the order's name and attempt.
	topupNamesSQL = `SELECT coalesce('adopted:' || adopted_reference, reference::text, id), delivery_attempt FROM orders
		WHERE kind = $1 AND status NOT IN ('payment_required', 'settling', 'expired')`
)

// topupRecords reads the splits of top-up orders, and the issuer's IDs of their cards.
func topupRecords(b booksReader, orders []string) (reconcile.Goods, error) {
	r := topup.Records{Splits: map[order.ID]topup.Split{}, Accounts: map[uuid.UUID]string{}}
	var id order.ID
	var item json.RawMessage
	var cards []uuid.UUID
	if err := b.each([]any{&id, &item}, func() (err error) {
		split, err := topup.ItemOf(order.Order{Item: item})
		r.Splits[id], cards = split, append(cards, split.Card)
		return err
	}, splitsOfSQL, orders, topup.Kind)(); err != nil {
		return nil, err
	}
	var of uuid.UUID
	var account string
	err := b.each([]any{&of, &account}, func() error { r.Accounts[of] = account; return nil }, accountsOfSQL, cards)()
	return r, err
}

func (s *Store) explainsLoads(ctx context.Context, loads []uuid.UUID) (bool, error) {
	unknown := map[uuid.UUID]bool{}
	for _, ref := range loads {
		unknown[ref] = true
	}
	if len(unknown) == 0 {
		return true, nil
	}
	rows, err := s.pool.Query(ctx, topupNamesSQL, topup.Kind)
	if err != nil {
		return false, mapError(err)
	}
	var name string
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&name, &attempts}, func() error {
		for n := 1; n <= attempts; n++ {
			delete(unknown, uuid.UUID(topup.LoadRef(name, n)))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read the top-ups: %w", mapError(err))
	}
	return len(unknown) == 0, nil
}
