package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// maker is a product whose provider has made some goods.
type maker struct {
	reconcile.Product
	kind order.Kind
	refs []uuid.UUID
	note string
	err  error
}

func (m maker) Kind() order.Kind { return m.kind }

// Made implements reconcile.Product.
func (m maker) Made(context.Context) (all []order.Goods, err error) {
	for _, ref := range m.refs {
		all = append(all, order.Goods{Kind: m.kind, Reference: ref, Note: m.note})
	}
	return all, m.err
}

func TestGoodsOfNoOrderAreADoubt(t *testing.T) {
	known, unknown := uuid.New(), uuid.New()
	explains := func(_ context.Context, _ order.Kind, refs []uuid.UUID) (bool, error) {
		for _, ref := range refs {
			if ref != known {
				return false, nil
			}
		}
		return true, nil
	}
	noted := func(buyer x402.Address) []reconcile.Product {
		return []reconcile.Product{maker{kind: "a", refs: []uuid.UUID{unknown}, note: order.BuyerOf(buyer)}}
	}
	for name, c := range map[string]struct {
		products []reconcile.Product
		doubt    bool
		down     bool
	}{
		"nothing made": {[]reconcile.Product{maker{kind: "a"}}, false, false},
		"an order's":   {[]reconcile.Product{maker{kind: "a", refs: []uuid.UUID{known}}}, false, false},
		"no order's": {
			[]reconcile.Product{maker{kind: "a"}, maker{kind: "b", refs: []uuid.UUID{known, unknown}}}, true, false,
		},
		"a note of somebody else": {noted(x402.Address{7}), false, false},
		"the payer's note":        {noted(x402.Address{1}), true, false},
		"a provider that fails":   {[]reconcile.Product{maker{kind: "a", err: errors.New("down")}}, false, true},
	} {
		got, err := reconcile.Doubts{Products: c.products, Explains: explains}.Unexplained(t.Context(),
			x402.Address{1})
		if got != c.doubt || (err != nil) != c.down || c.down && fault.Of(err) != fault.DependencyDown {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// payouts is a chain with transfers to one payer.
type payouts []reconcile.Transfer

// Head implements reconcile.DoubtsChain.
func (payouts) Head(context.Context) (uint64, error) { return 100, nil }

// Transfers implements reconcile.DoubtsChain.
func (p payouts) Transfers(_ context.Context, _ x402.Address, from, last uint64) (all []reconcile.Transfer, err error) {
	for _, t := range p {
		if from <= t.Block && t.Block <= last {
			all = append(all, t)
		}
	}
	return all, nil
}

func TestMoneyThatWentBackIsADoubt(t *testing.T) {
	payer, payee, treasury, other := x402.Address{1}, x402.Address{2}, x402.Address{3}, x402.Address{4}
	recorded := x402.Hash{9}
	const price = money.USDC(25_000_000)
	arrived := payment.Arrived{
		Authorization: x402.Authorization{From: payer, To: payee, Value: price}, Receipt: payment.Receipt{Block: 50},
	}
	sent := func(from x402.Address, value money.USDC, block uint64, nonce x402.Hash) reconcile.Transfer {
		return reconcile.Transfer{From: from, Value: value, Block: block, Nonce: nonce}
	}
	// One transaction may send several transfers back; of this one catch-up has resolved one.
	in := func(of reconcile.Transfer) reconcile.Transfer { of.Transaction = x402.Hash{7}; return of }
	lost := in(sent(treasury, price, 60, x402.Hash{8}))
	for name, c := range map[string]struct {
		back  payouts
		doubt bool
	}{
		"a lost refund that is resolved": {payouts{lost}, false},
		"two of which one is resolved":   {payouts{lost, in(sent(treasury, price, 60, x402.Hash{10}))}, true},
		"nothing":                        {nil, false},
		"by the payee":                   {payouts{sent(payee, price, 60, x402.Hash{})}, true},
		"by the treasury":                {payouts{sent(treasury, price, 100, x402.Hash{8})}, true},
		"by a refund of ours":            {payouts{sent(treasury, price, 60, recorded)}, false},
		"both": {
			payouts{sent(treasury, price, 60, recorded), sent(payee, price, 61, x402.Hash{})}, true,
		},
		"another sum":         {payouts{sent(payee, price-1, 60, x402.Hash{})}, false},
		"its refund, in part": {payouts{sent(treasury, 1, 60, payment.RefundNonce(arrived.Authorization))}, true},
		"by somebody else":    {payouts{sent(other, price, 60, x402.Hash{})}, false},
		"before it arrived":   {payouts{sent(payee, price, 49, x402.Hash{})}, false},
	} {
		got, err := reconcile.Doubts{
			Chain: c.back, Payers: []x402.Address{treasury},
			Refund: func(_ context.Context, from x402.Address, nonce x402.Hash) (bool, error) {
				return from == treasury && nonce == recorded, nil
			},
			SentBack: func(_ context.Context, senders []x402.Address) ([]reconcile.SentBack, error) {
				if !slices.Equal(senders, []x402.Address{payer}) {
					return nil, errors.New("another payer")
				}
				return []reconcile.SentBack{{To: payer, Value: price, In: x402.Hash{7}}, {To: payer, Value: price}}, nil
			},
		}.MaybeRefunded(t.Context(), arrived)
		if err != nil || got != c.doubt {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
