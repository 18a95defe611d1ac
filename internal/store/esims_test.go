package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// claimed is a live claim of some job.
func claimed(t *testing.T, s *store.Store) job.Row {
	t.Helper()
	args := card.FeeArgs{Card: uuid.New(), Version: 1}
	if _, err := s.Jobs().Enqueue(t.Context(), job.New{Args: args, UniqueKey: args.Card.String()}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Jobs().Claim(t.Context(), "me", job.Maintain, []job.Kind{card.FeeJob}, 1, time.Minute)
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %d, %v", len(rows), err)
	}
	return rows[0]
}

// storeOrder stores an eSIM's order of that id, unless there is one.
func storeOrder(ctx context.Context, s *store.Store, id order.ID) error {
	_, err := s.Pool().Exec(ctx, `INSERT INTO orders (id, operation_id, kind, status, owner, idempotency_key, fingerprint,
			price_usd_cents, item, version, created_at, updated_at)
		VALUES ($1, gen_random_uuid(), 'esim', 'provisioning', $2, $1, $3, 100, '{}', 1, now(), now())
		ON CONFLICT DO NOTHING`, id, payer.Lower(), make([]byte, 32))
	return err
}

func TestEsimsPassTheKit(t *testing.T) {
	esimtest.RunStore(t, func(t *testing.T) esimtest.StoreHarness {
		s := storetest.New(t)
		return esimtest.StoreHarness{Store: s.Esims(), Fence: claimed(t, s).Fence(),
			Put: func(o order.Order) {
				o.Owner = x402.Address{19: 7}
				pay := payment.Payment{ID: uuid.New(), Order: o.ID, Status: payment.Claimed, CreatedAt: o.CreatedAt,
					Signature: x402.KeySignature(make([]byte, 64), 0),
					Authorization: x402.Authorization{From: o.Owner, Value: 1_000_000,
						Nonce: x402.Hash(order.FingerprintOf(o.Kind, []byte(o.ID)))}}
				args := job.New{Args: settlement.FulfillArgs{Order: o.ID}, UniqueKey: pay.ID.String(), LeaseOwner: "me",
					LeaseTTL: time.Minute}
				if _, err := s.Orders().Claim(t.Context(), checkout.ClaimRequest{Order: o, Payment: pay, Job: args,
					Funds: 1_000_000_000_000}); err != nil {
					t.Fatal(err)
				}
			}}
	})
}

func TestProfileIsWrittenUnderItsJobsFenceOnly(t *testing.T) {
	s := storetest.New(t)
	row := claimed(t, s)
	lost := row.Fence()
	lost.Attempt++
	if err := storeOrder(t.Context(), s, "ord_1"); err != nil {
		t.Fatal(err)
	}
	p := esim.Profile{
		ID: uuid.New(), Order: "ord_1", Plan: "pln_1", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	if _, err := s.Esims().Reserve(t.Context(), lost, p); err == nil {
		t.Error("reserved without the job")
	}
	if _, err := s.Esims().Reserve(t.Context(), row.Fence(), p); err != nil {
		t.Fatal(err)
	}
	p.ActivationData = esim.Sealed{Key: "k", Box: []byte("box")}
	if err := s.Esims().Install(t.Context(), lost, p, p.Postings()); err == nil {
		t.Error("installed without the job")
	}
	if err := s.Esims().Fail(t.Context(), lost, p.ID); err == nil {
		t.Error("failed without the job")
	}
	if found, err := s.Esims().Profiles(t.Context(), p.Order); err != nil || found[p.Order].Status != esim.Ordered {
		t.Errorf("found %+v, %v", found, err)
	}
}
