package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// installed is a ready profile of an order.
func installed(t *testing.T, s *store.Store, id order.ID) esim.Profile {
	t.Helper()
	if err := storeOrder(t.Context(), s, id); err != nil {
		t.Fatal(err)
	}
	f := claimed(t, s).Fence()
	p := esim.Profile{
		ID: uuid.New(), Order: id, Plan: "pln_1", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	if _, err := s.Esims().Reserve(t.Context(), f, p); err != nil {
		t.Fatal(err)
	}
	p.Status, p.Account, p.Cost = esim.Ready, "sup-1", 4_000_000
	p.ActivationData = esim.Sealed{Key: "k", Box: []byte("box")}
	if err := s.Esims().Install(t.Context(), f, p, p.Postings()); err != nil {
		t.Fatal(err)
	}
	return p
}

func cancelOf(p esim.Profile) esim.CancelArgs {
	return esim.CancelArgs{Order: p.Order, Profile: p.ID, Stage: esim.StageCancelling, Since: time.Now().UTC()}
}

// cancelling begins a cancellation and leases its job.
func cancelling(t *testing.T, s *store.Store, p esim.Profile) job.Row {
	t.Helper()
	if _, err := s.Esims().BeginCancel(t.Context(), cancelOf(p)); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Jobs().Claim(t.Context(), "w", job.Deliver, []job.Kind{esim.CancelJob}, 1, time.Hour)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d cancellations to lease, %v", len(rows), err)
	}
	return rows[0]
}

func TestEsimIsCancelledByOneJob(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	if _, err := s.Esims().Cancellation(t.Context(), p.Order); !errors.Is(err, esim.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			got, err := s.Esims().BeginCancel(t.Context(), cancelOf(p))
			if err != nil || got.Stage != esim.StageCancelling || got.Job != job.Queued || got.Profile != p.ID {
				t.Errorf("begun %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	var n int
	err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM jobs WHERE kind = $1 AND owner <> ''",
		esim.CancelJob).Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d jobs, %v", n, err)
	}
	other := cancelOf(p)
	other.Order = "ord_2"
	if _, err := s.Esims().BeginCancel(t.Context(), other); !errors.Is(err, esim.ErrNotFound) {
		t.Errorf("the profile of another order: %v", err)
	}
}

func TestCancelledProfileIsGoneAndPostedOnce(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	row := cancelling(t, s, p)
	a := cancelOf(p)
	a.Stage, a.Credit, a.Refund = esim.StageRefunding, 4_000_000, 4_000_000
	lost := row.Fence()
	lost.Attempt++
	if err := s.Esims().SaveCancel(t.Context(), lost, a, a.Postings()...); err == nil {
		t.Error("saved without the job")
	}
	if err := s.Esims().SaveCancel(t.Context(), row.Fence(), a, a.Postings()...); err != nil {
		t.Fatal(err)
	}
	if err := s.Esims().SaveCancel(t.Context(), row.Fence(), a, a.Postings()...); err == nil {
		t.Error("the same profile was cancelled twice")
	}
	found, err := s.Esims().Profiles(t.Context(), p.Order)
	if got := found[p.Order]; err != nil || got.Status != esim.Cancelled || len(got.ActivationData.Box) != 0 ||
		got.ActivationData.Key != "" || got.Account != "sup-1" || got.Cost != p.Cost {
		t.Errorf("the profile is %+v, %v", got, err)
	}
	known, err := s.Esims().BeginCancel(t.Context(), cancelOf(p))
	if err != nil || known.Stage != esim.StageRefunding || known.Refund != a.Refund {
		t.Errorf("begun again: %+v, %v", known, err)
	}
	var n int
	err = s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM ledger_postings WHERE kind = 'cancelled'").Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d postings, %v", n, err)
	}
}

func TestRefusedCancellationBeginsAgain(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	row := cancelling(t, s, p)
	a := cancelOf(p)
	a.Stage = esim.StageKept
	if err := s.Esims().SaveCancel(t.Context(), row.Fence(), a); err != nil {
		t.Fatal(err)
	}
	if err := s.Jobs().Finish(t.Context(), row.Fence(), job.Done()); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Esims().Profiles(t.Context(), p.Order); err != nil || found[p.Order].Status != esim.Ready {
		t.Errorf("the profile is %+v, %v", found[p.Order], err)
	}
	again, err := s.Esims().BeginCancel(t.Context(), cancelOf(p))
	if err != nil || again.Stage != esim.StageCancelling || again.Job != job.Queued {
		t.Errorf("begun again: %+v, %v", again, err)
	}
	if got := cancelling(t, s, p); got.ID != row.ID {
		t.Errorf("the job is %s, it was %s", got.ID, row.ID)
	}
}

func TestCancellationThatWaitsGoesOnOncePerKey(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	row := cancelling(t, s, p)
	since := time.Now().UTC().Add(time.Hour)
	retry := func(key string) esim.Cancellation {
		t.Helper()
		got, err := s.Esims().RetryCancel(t.Context(), p.Order, since,
			order.OperatorContext{Operator: "ada", Key: key, Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := retry("k0"); got.Job != job.Processing {
		t.Errorf("a cancellation that is worked on is %s", got.Job)
	}
	if err := s.Jobs().Finish(t.Context(), row.Fence(), job.Review("no answer")); err != nil {
		t.Fatal(err)
	}
	if known, err := s.Esims().BeginCancel(t.Context(), cancelOf(p)); err != nil || known.Job != job.OperatorReview {
		t.Errorf("its owner does not bring it on: %+v, %v", known, err)
	}
	if got := retry("k1"); got.Job != job.Queued || got.Stage != esim.StageCancelling || !got.Since.Equal(since) {
		t.Errorf("it goes on as %+v", got)
	}
	if _, err := s.Pool().Exec(t.Context(), "UPDATE jobs SET status = 'operator_review' WHERE id = $1",
		row.ID); err != nil {
		t.Fatal(err)
	}
	if got := retry("k1"); got.Job != job.OperatorReview {
		t.Errorf("the same key again: %s", got.Job)
	}
	var audited string
	if err := s.Pool().QueryRow(t.Context(), "SELECT string_agg(action || ' ' || subject, ',') FROM audit").Scan(
		&audited); err != nil || audited != fmt.Sprintf("esim_cancellation.retry %s", p.Order) {
		t.Errorf("audited %q, %v", audited, err)
	}
	if _, err := s.Esims().RetryCancel(t.Context(), "ord_none", since,
		order.OperatorContext{Operator: "ada", Key: "k", Reason: "r"}); !errors.Is(err, esim.ErrNotFound) {
		t.Errorf("nobody's cancellation: %v", err)
	}
}

func TestRefundByHandConcludesACancellationOnce(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	row := cancelling(t, s, p)
	a := cancelOf(p)
	a.Stage, a.Credit, a.Refund = esim.StageRefunding, 4_000_000, 4_000_000
	transaction := x402.Hash{1}
	conclude := func() (esim.Cancellation, error) {
		return s.Esims().ConcludeCancel(t.Context(), p.Order, transaction, time.Now().UTC(),
			order.OperatorContext{Operator: "ada", Key: "c", Reason: "r"})
	}
	if err := s.Esims().SaveCancel(t.Context(), row.Fence(), a, a.Postings()...); err != nil {
		t.Fatal(err)
	}
	if got, err := conclude(); err != nil || got.Stage != esim.StageRefunding || got.ByHand != "" {
		t.Errorf("while its job works on it: %+v, %v", got, err)
	}
	if err := s.Jobs().Finish(t.Context(), row.Fence(), job.Review("the refund is dead")); err != nil {
		t.Fatal(err)
	}
	refund := func(status string) {
		t.Helper()
		if _, err := s.Pool().Exec(t.Context(), `INSERT INTO refunds (id, order_id, owner, status, network, asset, treasury,
			value, nonce, valid_before, signature, created_at, signed_at) SELECT gen_random_uuid(), id, owner, $2, 'n', '0x1',
			'0x2', 1, '0x3', 1, '', now(), now() FROM orders WHERE id = $1
			ON CONFLICT (order_id, owner) DO UPDATE SET status = excluded.status`, p.Order, status); err != nil {
			t.Fatal(err)
		}
		_, _, signed, err := s.Esims().CancelRefunding(t.Context(), p.Order)
		if err != nil || signed != (status == "signed") {
			t.Errorf("a refund that is %s: signed %t, %v", status, signed, err)
		}
	}
	refund("signed")
	if _, err := conclude(); !errors.Is(err, payment.ErrRefundSigned) {
		t.Errorf("while a refund is signed: %v", err)
	}
	refund("dead")
	if _, err := s.Pool().Exec(t.Context(), `INSERT INTO jobs (id, kind, unique_key, payload, max_attempts, run_at,
		created_at) VALUES (gen_random_uuid(), 'card_close', 'a card', jsonb_build_object('byHand', $1::text), 1, now(),
		now())`, transaction.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := conclude(); !errors.Is(err, payment.ErrTransferUsed) {
		t.Errorf("by the refund of a card: %v", err)
	}
	if _, err := s.Pool().Exec(t.Context(), "DELETE FROM jobs WHERE kind = 'card_close'"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := conclude()
		if err != nil || got.Stage != esim.StageRefunded || got.ByHand != transaction.String() || got.Job != job.Queued {
			t.Errorf("concluded: %+v, %v", got, err)
		}
	}
	if got, err := s.Esims().Cancellation(t.Context(), p.Order); err != nil || got.Transaction != transaction {
		t.Errorf("its owner sees %+v, %v", got, err)
	}
	var posted, audited int
	if err := s.Pool().QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM ledger_postings WHERE kind = 'remainder_returned'),
		(SELECT count(*) FROM audit WHERE action = 'esim_cancellation.conclude')`).Scan(&posted, &audited); err != nil ||
		posted != 1 || audited != 1 {
		t.Errorf("%d returns are posted and %d actions audited, %v", posted, audited, err)
	}
	if _, err := s.Esims().ConcludeCancel(t.Context(), "ord_none", transaction, time.Now(),
		order.OperatorContext{Operator: "ada", Key: "k", Reason: "r"}); !errors.Is(err, esim.ErrNotFound) {
		t.Errorf("nobody's cancellation: %v", err)
	}
}
