package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// queued are the ids of the orders that a query selects, page by page.
func queued(t *testing.T, s *store.Store, q admin.QueueQuery) (ids []order.ID) {
	t.Helper()
	for {
		page, err := s.Admin().Queue(t.Context(), q, order.OperatorContext{Operator: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page {
			ids = append(ids, item.Order.ID)
		}
		if len(page) < q.Limit {
			return ids
		}
		q.Last = page[len(page)-1].Order.ID
	}
}

func TestQueueSelectsByEveryFilterInBothOrders(t *testing.T) {
	s := storetest.New(t)
	one, _ := paidOrder(t, s, "one", order.Provisioning, order.OperatorReview)
	two, _ := paidOrder(t, s, "two", order.Provisioning, order.OperatorReview)
	three, _ := paidOrder(t, s, "three", order.Provisioning, order.Fulfilled)
	other := x402.Address{1}
	history, err := s.Admin().History(t.Context(), two.Order.ID, order.OperatorContext{Operator: "ann"})
	if err != nil || len(history.Payments) != 1 {
		t.Fatalf("%+v, %v", history, err)
	}
	transaction := history.Payments[0].Receipt.Transaction
	unknown := nonce()
	for name, tc := range map[string]struct {
		query admin.QueueQuery
		want  []order.ID
	}{
		"newest first": {admin.QueueQuery{}, []order.ID{three.Order.ID, two.Order.ID, one.Order.ID}},
		"oldest first": {admin.QueueQuery{Oldest: true}, []order.ID{one.Order.ID, two.Order.ID, three.Order.ID}},
		"in review": {
			admin.QueueQuery{Status: order.OperatorReview, Oldest: true}, []order.ID{one.Order.ID, two.Order.ID},
		},
		"of a kind":       {admin.QueueQuery{Kind: card.Kind}, []order.ID{three.Order.ID, two.Order.ID, one.Order.ID}},
		"of another kind": {admin.QueueQuery{Kind: topup.Kind}, nil},
		"of an owner": {
			admin.QueueQuery{Owner: &payer, Oldest: true}, []order.ID{one.Order.ID, two.Order.ID, three.Order.ID},
		},
		"of another owner":    {admin.QueueQuery{Owner: &other}, nil},
		"of a transaction":    {admin.QueueQuery{Transaction: &transaction}, []order.ID{two.Order.ID}},
		"unknown transaction": {admin.QueueQuery{Transaction: &unknown}, nil},
		"several":             {admin.QueueQuery{Transaction: &transaction, Status: order.Fulfilled}, nil},
	} {
		for _, limit := range []int{1, 10} {
			tc.query.Limit = limit
			got := queued(t, s, tc.query)
			if len(got) != len(tc.want) {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
				continue
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("%s: %v, want %v", name, got, tc.want)
					break
				}
			}
		}
	}
}

func TestCountsAreOfOrdersThatAreNotFinal(t *testing.T) {
	s := storetest.New(t)
	began := time.Now().Add(-time.Minute)
	paidOrder(t, s, "one", order.Provisioning, order.OperatorReview)
	paidOrder(t, s, "two", order.Provisioning, order.OperatorReview)
	paidOrder(t, s, "three", order.Provisioning)
	paidOrder(t, s, "four", order.Provisioning, order.Fulfilled)
	counts, err := s.Admin().Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[order.Status]int{}
	for _, c := range counts {
		if c.Kind != card.Kind || c.Since.Before(began) || c.Since.After(time.Now()) {
			t.Errorf("%+v", c)
		}
		got[c.Status] = c.Count
	}
	if len(got) != 2 || got[order.OperatorReview] != 2 || got[order.Provisioning] != 1 {
		t.Errorf("%v", got)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit"); n != 0 {
		t.Errorf("counting left %d audit records", n)
	}
}

// TestDecisionNeedsTheVersionThatWasRead: the version is checked where the order is decided, and a repeat is still one.
func TestDecisionNeedsTheVersionThatWasRead(t *testing.T) {
	s := storetest.New(t)
	p, _ := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	read, err := s.Admin().ReviewItem(t.Context(), p.Order.ID)
	if err != nil {
		t.Fatal(err)
	}
	act := order.OperatorContext{Operator: "ann", Key: "1", Reason: "because", Version: read.Order.Version + 1}
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, act), act); !errors.Is(err, admin.ErrChanged) {
		t.Errorf("another version: %v", err)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE action = 'order.decide'"); n != 0 {
		t.Errorf("%d decisions are recorded", n)
	}
	act.Version = read.Order.Version
	for range 2 { // the repeat finds the order at another version
		if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, act), act); err != nil {
			t.Errorf("the version that was read: %v", err)
		}
	}
	act.Key = "2"
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, act), act); !errors.Is(err, admin.ErrChanged) {
		t.Errorf("a decision on what another one has decided: %v", err)
	}
}

func TestReviewHasPostingsAndAuditRecords(t *testing.T) {
	s := storetest.New(t)
	p, _ := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	other, _ := paidOrder(t, s, "other", order.Provisioning, order.OperatorReview)
	reader := order.OperatorContext{Operator: "ann"}
	for _, one := range []order.ID{p.Order.ID, other.Order.ID} {
		if _, err := s.Admin().History(t.Context(), one, reader); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Admin().Review(t.Context(), p.Order.ID, reader)
	if err != nil || len(h.Postings) != 1 || len(h.Audit) != 1 || h.Order.ID != p.Order.ID || h.Reason != "test" {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := s.Admin().Review(t.Context(), "ord_none", reader); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("of no order: %v", err)
	}
	posted := h.Postings[0]
	if posted.Kind != "settled" || posted.At.IsZero() || len(posted.Entries) != 2 ||
		posted.Entries[0].Amount+posted.Entries[1].Amount != 0 {
		t.Errorf("%+v", posted)
	}
	if r := h.Audit[0]; r.Actor != "ann" || r.Action != "order.inspect" || r.Subject != string(p.Order.ID) {
		t.Errorf("%+v", r)
	}
}

func TestReviewHasTheTransactionsOfTheRelayer(t *testing.T) {
	s := storetest.New(t)
	p, other := claimRequest("k"), claimRequest("other")
	claim(t, s, p)
	claim(t, s, other)
	lost := reverted(t, s, p.Payment.ID, 7)
	reverted(t, s, other.Payment.ID, 9)
	sign := func(uint64, []uuid.UUID) (payment.Variant, error) {
		return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
	}
	sent, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{p.Payment.ID, other.Payment.ID}, relayerA, window, sign)
	if err != nil {
		t.Fatal(err)
	}
	again := payment.Variant{Hash: nonce(), Raw: []byte{2}, SignedAt: time.Now()}
	if err := s.Transactions().Replace(t.Context(), sent[0].ID, again); err != nil {
		t.Fatal(err)
	}
	h, err := s.Admin().Review(t.Context(), p.Order.ID, order.OperatorContext{Operator: "ann"})
	if err != nil || len(h.Relayed) != 2 {
		t.Fatalf("%+v, %v", h.Relayed, err)
	}
	first, second := h.Relayed[0], h.Relayed[1]
	if first.ID != lost.ID || first.Member != p.Payment.ID || first.Became != payment.TransactionReverted ||
		first.LostWei != 7 {
		t.Errorf("what reverted is %+v", first)
	}
	if second.ID != sent[0].ID || second.Became != payment.TransactionOpen || len(second.Payments) != 2 ||
		len(second.Variants) != 2 || second.Variants[1].Hash != again.Hash || second.Nonce != lost.Nonce+2 {
		t.Errorf("what can still be included is %+v", second)
	}
}

// reverted is a transaction for one payment that was included and moved nothing.
func reverted(t *testing.T, s *store.Store, id uuid.UUID, spent int64) payment.Transaction {
	t.Helper()
	made, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{id}, relayerA, window,
		func(uint64, []uuid.UUID) (payment.Variant, error) {
			return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
		})
	if err == nil {
		err = s.Transactions().Close(t.Context(), made[0].ID, payment.TransactionReverted, spent, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made[0]
}

func TestAuditIsListedByEveryFilter(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	bob := order.OperatorContext{Operator: "bob", Key: "b", Reason: "why not"}
	set := func(product order.Kind, act order.OperatorContext) {
		t.Helper()
		if _, err := s.Admin().SetSwitch(t.Context(), product, true, act); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now().Add(-time.Minute)
	set(card.Kind, ann)
	ahead.Add(int64(time.Hour))
	middle := begin.Add(time.Hour)
	set(topup.Kind, bob)
	if err := s.Admin().Presented(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	listed := func(q admin.AuditQuery) (all []admin.AuditRecord) {
		t.Helper()
		for {
			page, err := s.Admin().Audit(t.Context(), q, order.OperatorContext{Operator: "reader"})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				if r.Actor != "reader" {
					all = append(all, r)
				}
			}
			if len(page) < q.Limit {
				return all
			}
			q.Before = page[len(page)-1].ID
		}
	}
	for name, tc := range map[string]struct {
		query admin.AuditQuery
		want  int
	}{
		"all":             {admin.AuditQuery{}, 3},
		"of an actor":     {admin.AuditQuery{Actor: "bob"}, 2},
		"of an action":    {admin.AuditQuery{Action: "switch.set"}, 2},
		"of a subject":    {admin.AuditQuery{Subject: string(card.Kind)}, 1},
		"since a time":    {admin.AuditQuery{Since: middle}, 2},
		"until a time":    {admin.AuditQuery{Until: middle}, 1},
		"between":         {admin.AuditQuery{Since: begin, Until: middle, Actor: "bob"}, 0},
		"of nothing":      {admin.AuditQuery{Subject: "nothing"}, 0},
		"a read's record": {admin.AuditQuery{Action: "operator.whoami"}, 1},
	} {
		for _, limit := range []int{2, 50} {
			tc.query.Limit = limit
			if got := listed(tc.query); len(got) != tc.want {
				t.Errorf("%s: %+v, want %d", name, got, tc.want)
			}
		}
	}
	got := listed(admin.AuditQuery{Action: "switch.set", Actor: "ann", Limit: 5})
	if len(got) != 1 || got[0].Reason != ann.Reason || string(got[0].After) != `{"paused": true}` ||
		string(got[0].Before) != `{"paused": false}` || got[0].ID == uuid.Nil {
		t.Errorf("%+v", got)
	}
}
