package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// lookUps makes all reads at once, in one batch, and returns what each says about what it has found.
func lookUps(t *testing.T, s *store.Store, all []func() (string, error)) ([]string, []error) {
	t.Helper()
	return crowd(t, s.Lookups().Hold, s.Lookups().Waiting, all)
}

// TestReadersAtTheSameTimeGetTheirOwnRows: each reader gets its row or none, whatever the others read, in one round
// trip and one transaction.
func TestReadersAtTheSameTimeGetTheirOwnRows(t *testing.T) {
	storetest.NeedsBatches(t)
	var begun, trips atomic.Int32
	target := storetest.URL(t)
	s := storetest.Open(t, proxied(t, target, func(sent []byte) cut {
		if bytes.Contains(sent, executing("begin")) {
			begun.Add(1)
			if bytes.Contains(sent, executing("commit")) {
				trips.Add(1)
			}
		}
		return pass
	}))
	direct := storetest.Open(t, target)
	var reads []func() (string, error)
	var want []string
	add := func(found string, read func() (string, error)) {
		want, reads = append(want, found), append(reads, read)
	}
	for i := range 4 {
		p := claimRequest(fmt.Sprint("k", i), owned(i))
		owner := p.Order.Owner
		q := checkout.UnmatchedQuery{
			Network: x402.NetworkID, Asset: p.Payment.Asset, PayTo: p.Payment.Authorization.To, Payer: owner,
			Value: money.USDC(25_000_000 + i),
		}
		order1, live, transfer := "none", "none", "none"
		if i > 0 {
			claim(t, direct, p)
			c, _ := issued(t, direct, owner, card.Active)
			a := payment.Arrived{Network: q.Network, Asset: q.Asset, Authorization: x402.Authorization{
				From: owner, To: q.PayTo, Value: q.Value, Nonce: nonce(),
			}, Receipt: payment.Receipt{Transaction: nonce(), BlockHash: nonce(), Block: 1, SettledAt: p.Order.CreatedAt}}
			if err := direct.Orders().Arrive(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			order1, live, transfer = string(p.Order.ID), c.ID.String(), a.Authorization.Nonce.String()
		}
		for range 2 { // two readers of the same
			add(order1, func() (string, error) {
				o, err := s.Orders().FindByKey(t.Context(), card.Kind, owner, p.Order.Key)
				if errors.Is(err, order.ErrNotFound) {
					return "none", nil
				}
				return string(o.ID), err
			})
		}
		add(live, func() (string, error) {
			c, err := s.Cards().Live(t.Context(), owner)
			if errors.Is(err, card.ErrNotFound) {
				return "none", nil
			}
			return c.ID.String(), err
		})
		add(transfer, func() (string, error) {
			a, err := s.Orders().Unmatched(t.Context(), q)
			if errors.Is(err, order.ErrNotFound) {
				return "none", nil
			}
			return a.Authorization.Nonce.String(), err
		})
	}
	got, errs := lookUps(t, s, reads)
	for i := range reads {
		if errs[i] != nil || got[i] != want[i] {
			t.Errorf("reader %d: %q, %v, want %q", i, got[i], errs[i], want[i])
		}
		// Alone, each gets the same.
		if alone, err := reads[i](); err != nil || alone != want[i] {
			t.Errorf("reader %d alone: %q, %v, want %q", i, alone, err, want[i])
		}
	}
	if begun.Load() != 1 || trips.Load() != 1 {
		t.Errorf("%d transactions, %d of them in one round trip", begun.Load(), trips.Load())
	}
}

// TestReaderThatIsRefusedFailsAlone: a text that the server does not take, and a row that cannot be read.
func TestReaderThatIsRefusedFailsAlone(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	good, broken := claimRequest("good", owned(1)), claimRequest("broken", owned(2))
	claim(t, s, good)
	claim(t, s, broken)
	exec(t, s, "UPDATE orders SET fingerprint = 'short' WHERE id = $1", broken.Order.ID)
	find := func(p checkout.ClaimRequest, key string) func() (string, error) {
		return func() (string, error) {
			o, err := s.Orders().FindByKey(t.Context(), card.Kind, p.Order.Owner, key)
			return string(o.ID), err
		}
	}
	for _, bad := range []func() (string, error){find(good, "a\x00b"), find(broken, broken.Order.Key)} {
		got, errs := lookUps(t, s, []func() (string, error){find(good, "good"), bad, find(good, "good")})
		if errs[0] != nil || errs[2] != nil || got[0] != string(good.Order.ID) || got[2] != got[0] {
			t.Errorf("the others: %q, %v", got, errs)
		}
		if errs[1] == nil || errors.Is(errs[1], order.ErrNotFound) {
			t.Errorf("the bad one: %q, %v", got[1], errs[1])
		}
	}
}
