package store_test

import (
	"context"
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// in is the context of a request of an id.
func in(t *testing.T, request string) context.Context {
	t.Helper()
	return telemetry.WithRequestID(t.Context(), request)
}

func claimedIn(t *testing.T, s *store.Store, request string, p checkout.ClaimRequest) checkout.ClaimResult {
	t.Helper()
	result, err := s.Orders().Claim(in(t, request), p)
	if err != nil || result.Claim != checkout.Fresh {
		t.Fatalf("claim: %+v, %v", result, err)
	}
	return result
}

// askedBy are the orders that a request created, paid or decided, oldest first.
func askedBy(t *testing.T, s *store.Store, request string) []order.ID {
	t.Helper()
	return queued(t, s, admin.QueueQuery{Request: request, Oldest: true, Limit: 1})
}

// TestOrderIsFoundByItsRequests: those that created, paid and decided it. What a worker does in one of them, and a
// request that repeats the purchase, leave nothing.
func TestOrderIsFoundByItsRequests(t *testing.T) {
	s := storetest.New(t)
	created, err := s.Orders().Create(in(t, "create"), unpaid("first"), checkout.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	p := paying(created)
	fence := claimedIn(t, s, "pay", p).Job.Fence()
	if err := errOf(s.Orders().Settle(in(t, "settle"), fence, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err != nil {
		t.Fatal(err)
	}
	for _, m := range []order.Move{
		move(p, order.Settled, order.Provisioning), move(p, order.Provisioning, order.OperatorReview),
	} {
		if err := errOf(s.Orders().Move(in(t, "work"), fence, m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Admin().Decide(in(t, "decide"), decided(p, order.Fulfilled, ann), ann); err != nil {
		t.Fatal(err)
	}
	other := claimRequest("other")
	claimedIn(t, s, "another", other)
	again, err := s.Orders().Claim(in(t, "repeat"), claimRequest("other"))
	if err != nil || again.Claim != checkout.Repeated {
		t.Errorf("a repeat is %+v, %v", again, err)
	}
	silent := claimRequest("silent")
	claim(t, s, silent)

	for request, want := range map[string][]order.ID{
		"create": {created.ID}, "pay": {created.ID}, "decide": {created.ID}, "another": {other.Order.ID},
		"settle": nil, "work": nil, "repeat": nil, "nobody": nil, "Create": nil, "creat": nil, "' OR ''='": nil,
	} {
		if got := askedBy(t, s, request); !slices.Equal(got, want) {
			t.Errorf("by %q: %v, want %v", request, got, want)
		}
	}
	history, err := s.Admin().History(t.Context(), created.ID, ann)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range history.Timeline {
		told = append(told, e.Request)
	}
	if history.Request != "create" || !slices.Equal(told, []string{"pay", "", "", "", "decide"}) {
		t.Errorf("created by %q, then %q", history.Request, told)
	}
	if n := rows(t, s, "SELECT count(*) FROM orders WHERE request_id IS NOT NULL"); n != 1 {
		t.Errorf("%d orders have the request that created them, want the unpaid one", n)
	}
}

// TestOrdersOfOneRequestIDAreListedInPages: a client may name all of its requests alike. Claims of a batch each have
// their own request, or none.
func TestOrdersOfOneRequestIDAreListedInPages(t *testing.T) {
	s := storetest.New(t)
	storetest.NeedsBatches(t)
	var calls []func() (checkout.ClaimResult, error)
	var alike []order.ID
	for i, request := range []string{"alike", "", "alike", "mine", "alike"} {
		p := claimRequest("k", owned(i))
		if request == "alike" {
			alike = append(alike, p.Order.ID)
		}
		calls = append(calls, func() (checkout.ClaimResult, error) { return s.Orders().Claim(in(t, request), p) })
	}
	if _, errs := crowd(t, s.Claims().Hold, s.Claims().Waiting, calls); slices.ContainsFunc(errs, isError) {
		t.Fatal(errs)
	}
	slices.Sort(alike)
	if got := askedBy(t, s, "alike"); !slices.Equal(got, alike) {
		t.Errorf("alike: %v, want %v", got, alike)
	}
	slices.Reverse(alike)
	if got := queued(t, s, admin.QueueQuery{Request: "alike", Limit: 2}); !slices.Equal(got, alike) {
		t.Errorf("newest first: %v, want %v", got, alike)
	}
	if got := queued(t, s, admin.QueueQuery{Request: "alike", Status: order.Fulfilled, Limit: 2}); got != nil {
		t.Errorf("of another status: %v", got)
	}
	if n := rows(t, s, "SELECT count(*) FROM timeline WHERE request_id IS NULL"); n != 1 {
		t.Errorf("%d lines have no request, want 1", n)
	}
}

func isError(err error) bool { return err != nil }
