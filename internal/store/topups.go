package store

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// TopupProduct is the store's part of the top-up product, which has no table of its own.
func TopupProduct() Product {
	return Product{Kind: topup.Kind, RefOf: topup.LoadRef, atIssuer: true, records: topupRecords}
}

const (
	splitsOfSQL = `SELECT id, item FROM orders WHERE id = ANY($1) AND kind = $2`

	accountsOfSQL = `SELECT id, account, provider FROM cards WHERE id = ANY($1)`

	// The loads onto the cards of some owners that may be in progress or made without a record.
	loadingSQL = `
		SELECT item->>'card', sum((item->>'cardCreditUsdCents')::bigint)::bigint FROM orders
		WHERE owner = ANY($1) AND kind = 'card_topup' AND (status IN ('settled', 'provisioning') OR status = 'fulfilled'
			AND (SELECT true FROM timeline t WHERE t.order_id = orders.id AND t.owner = orders.owner
				AND to_status = 'fulfilled' AND actor LIKE 'operator:%' LIMIT 1))
		GROUP BY 1`
)

// topupRecords reads the splits of top-up orders, and the issuer's IDs of their cards.
func topupRecords(b booksReader, orders []string) (reconcile.Goods, error) {
	r := topup.Records{
		Splits: map[order.ID]topup.Split{}, Accounts: map[uuid.UUID]string{}, Providers: map[uuid.UUID]string{},
	}
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
	var account, provider string
	err := b.each([]any{&of, &account, &provider}, func() error {
		r.Accounts[of], r.Providers[of] = account, provider
		return nil
	}, accountsOfSQL, cards)()
	return r, err
}
