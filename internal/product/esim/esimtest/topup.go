package esimtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
)

func (h Harness) topper(t *testing.T) esim.Topper {
	t.Helper()
	c, ok := h.Supplier.(esim.Topper)
	if !ok {
		t.Fatal("the supplier declares what it does not have")
	}
	return c
}

// toppingUp adds the cheapest plan to a profile that is ready, the same for all requests.
func (h Harness) toppingUp(t *testing.T) fulfilmenttest.Operation[esim.Purchase] {
	_, p := h.ordering().Finished(t, h.Handles)
	op := h.ordering()
	op.Name, op.Send, op.Read = "top up", TopUp, cmp.Or(h.ToppedUp, Ordered)
	op.Lookup = func(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
		return h.topper(t).ToppedUp(ctx, held(p), ref)
	}
	op.New = func(t *testing.T) fulfilmenttest.Request[esim.Purchase] {
		l := h.cheapestFor(t, p)
		return h.topupOf(t, p, l, l.Cost)
	}
	return op
}

// topupOf asks for a listed plan for a profile at a cost.
func (h Harness) topupOf(
	t *testing.T, p esim.Purchase, l esim.Listing, maxCost money.USDC,
) fulfilmenttest.Request[esim.Purchase] {
	c := h.topper(t)
	r := esim.TopUpRequest{
		Request: esim.Request{Ref: fulfilmenttest.NewRef(), Code: l.Code, MaxCost: maxCost}, Held: held(p),
	}
	other := r
	other.MaxCost++
	return fulfilmenttest.Request[esim.Purchase]{
		Ref:     r.Ref,
		Send:    func(ctx context.Context) (esim.Purchase, error) { return c.TopUp(ctx, r) },
		Altered: func(ctx context.Context) (esim.Purchase, error) { return c.TopUp(ctx, other) },
	}
}

// cheapestFor is the listing for a profile that costs least of what is in stock.
func (h Harness) cheapestFor(t *testing.T, p esim.Purchase) esim.Listing {
	t.Helper()
	all, err := h.topper(t).Topups(fulfilmenttest.Context(t), held(p))
	if err != nil {
		t.Fatalf("list what a profile takes: %v", err)
	}
	all = slices.DeleteFunc(all, func(l esim.Listing) bool { return !l.InStock })
	if len(all) == 0 {
		t.Fatal("the profile takes nothing")
	}
	return slices.MinFunc(all, func(a, b esim.Listing) int { return int(a.Cost - b.Cost) })
}

// total is how much data a profile has in all.
func (h Harness) total(t *testing.T, p esim.Purchase) int64 {
	t.Helper()
	state, err := h.controls(t).State(fulfilmenttest.Context(t), held(p))
	if err != nil || state.Status != esim.ProfileActive || state.Usage == nil {
		t.Fatalf("a profile in use is %+v, %v", state, err)
	}
	return state.Usage.Total
}

func (h Harness) toppedUpProfileHasMoreData(t *testing.T) {
	ctx := fulfilmenttest.Context(t)
	_, p := h.ordering().Finished(t, h.Handles)
	h.Use(p, 1)
	before, float, l := h.total(t, p), h.float(t), h.cheapestFor(t, p)
	r := h.topupOf(t, p, l, l.Cost)
	for range 2 { // of the same plan, each adds to it
		if _, err := r.Send(ctx); err != nil {
			t.Fatalf("top up: %v", err)
		}
		h.Settle()
		got, err := h.topper(t).ToppedUp(ctx, held(p), r.Ref)
		if err != nil || got.State != esim.PurchaseReady || got.Ref != r.Ref || got.Code != l.Code || got.Cost != l.Cost ||
			got.ActivationData != nil || got.Onto != p.ID || got.ID == "" {
			t.Fatalf("reads back as %+v, %v", got, err)
		}
		h.WantExecuted(t, r.Ref, 1)
		// Suppliers differ in how many bytes a megabyte has.
		total, megabytes := h.total(t, p), int64(l.DataMB)
		if total < before+megabytes*1_000_000 || total > before+megabytes<<20 || l.Unlimited {
			t.Errorf("it has %d bytes, and had %d before %d MB were added", total, before, l.DataMB)
		}
		if spent := float - h.float(t); spent != l.Cost {
			t.Errorf("the float fell by %s, the plan costs %s", spent.Dollars(), l.Cost.Dollars())
		}
		before, float, r = total, float-l.Cost, h.topupOf(t, p, l, l.Cost)
	}
	if again, err := h.Supplier.Ordered(ctx, p.Ref); err != nil || again.State != esim.PurchaseReady ||
		again.ID != p.ID || again.Cost != p.Cost || again.Onto != "" {
		t.Errorf("then the eSIM's order is %+v, %v", again.State, err)
	}
	if !h.Capabilities.Cancel {
		return
	}
	if credit, err := h.canceller(t).Cancel(ctx, held(p)); err == nil || credit != 0 {
		t.Errorf("a profile that is used and topped up is taken back for %s", credit.Dollars())
	}
}

func (h Harness) whatAProfileTakesIsReadWholeOrNotAtAll(t *testing.T) {
	ctx := fulfilmenttest.Context(t)
	_, p := h.ordering().Finished(t, h.Handles)
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.Malformed,
		fulfilmenttest.Truncated, fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Topups, mode)
			if half, err := h.topper(t).Topups(ctx, held(p)); err == nil || half != nil {
				t.Errorf("half a list: %d listings, %v", len(half), err)
			}
		})
	}
}

func (h Harness) profileTakesWhatIsListedForIt(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.topper(t)
	_, p := h.ordering().Finished(t, h.Handles)
	l := h.cheapestFor(t, p)
	stock, err := c.CheckTopup(ctx, held(p), l.Code)
	if err != nil || stock.Cost != l.Cost || stock.Units == 0 || stock.Float < l.Cost {
		t.Errorf("check says %+v, %v of %+v", stock, err, l)
	}
	if _, err := c.CheckTopup(ctx, held(p), "no-such-plan"); !errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("CheckTopup of a plan that is not sold = %v, want ErrNoPlan", err)
	}
	if _, err := c.ToppedUp(ctx, held(p), fulfilmenttest.NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("ToppedUp of a reference that nobody sent = %v, want ErrNoRef", err)
	}
}

func (h Harness) topupAboveTheLimitIsRefused(t *testing.T) {
	_, p := h.ordering().Finished(t, h.Handles)
	l := h.cheapestFor(t, p)
	op := h.ordering()
	op.Name, op.Send = "top up", TopUp
	op.Lookup = func(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
		return h.topper(t).ToppedUp(ctx, held(p), ref)
	}
	op.WantRefused(t, h.Handles, h.topupOf(t, p, l, l.Cost-1), esim.RefusedPrice)
}

var _ esim.Topper = (*Supplier)(nil)

// added is a plan that was added to a profile.
type added struct {
	esim.Purchase
	asked esim.TopUpRequest
}

// Topups implements esim.Topper: a profile takes every plan of its countries.
func (s *Supplier) Topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.Answer(ctx, Topups); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(s.listings), func(l esim.Listing) bool { return !s.takes(h, l.Code) }), nil
}

// takes reports whether a profile takes a plan.
func (s *Supplier) takes(h esim.Held, code string) bool {
	b, l := s.named(h.ID), s.find(code)
	if b == nil || l == nil || b.State != esim.PurchaseReady || b.state.Status == esim.ProfileExpired {
		return false
	}
	own := s.find(b.Code)
	return own != nil && slices.Equal(own.Countries, l.Countries)
}

// CheckTopup implements esim.Topper.
func (s *Supplier) CheckTopup(ctx context.Context, h esim.Held, code string) (esim.Stock, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.Answer(ctx, Check); err != nil {
		return esim.Stock{}, err
	}
	if !s.takes(h, code) {
		return esim.Stock{}, esim.ErrNoPlan
	}
	l := s.find(code)
	return esim.Stock{Cost: l.Cost, Units: s.left(l), Float: s.float}, nil
}

// TopUp implements esim.Topper.
func (s *Supplier) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	s.Lock()
	defer s.Unlock()
	a, mode, err := s.added.Take(ctx, s.Fake, fulfilmenttest.Entry[added]{
		Op: TopUp, Ref: r.Ref,
		Same: func(known added) bool { return known.asked.Request == r.Request && known.asked.Held.ID == r.Held.ID },
		Refuse: func() *fulfilment.Refusal {
			if !s.takes(r.Held, r.Code) {
				return &fulfilment.Refusal{Code: esim.RefusedProfile, Message: "the profile does not take the plan"}
			}
			return s.declined(r.Request)
		},
		Make: func(mode fulfilmenttest.Mode) *added { return s.add(r, s.find(r.Code), mode) },
	})
	if err != nil {
		return esim.Purchase{}, err
	}
	return seenAs(a.Purchase, mode), nil
}

func (s *Supplier) add(r esim.TopUpRequest, l *esim.Listing, mode fulfilmenttest.Mode) *added {
	a := &added{asked: r, Purchase: esim.Purchase{
		ID: "sup-" + uuid.NewString(), Ref: r.Ref, Code: r.Code, State: esim.PurchasePending, Cost: l.Cost, Onto: r.Held.ID,
	}}
	s.float -= l.Cost
	s.Complete(mode, "", func(rejected bool) {
		if rejected {
			a.State = esim.PurchaseRejected
			a.Refusal = &fulfilment.Refusal{Code: esim.RefusedStock, Message: "the plan cannot be added"}
			s.float += a.Cost
			return
		}
		a.State = esim.PurchaseReady
		if u := s.named(r.Held.ID).state.Usage; u != nil && u.Total > 0 {
			u.Total += int64(l.DataMB) << 20
		}
	})
	return a
}

// ToppedUp implements esim.Topper.
func (s *Supplier) ToppedUp(ctx context.Context, h esim.Held, ref fulfilment.Ref) (esim.Purchase, error) {
	s.Lock()
	defer s.Unlock()
	a, mode, err := s.added.Find(ctx, s.Fake, Ordered, ref)
	switch {
	case err != nil:
		return esim.Purchase{}, err
	case a.Onto != h.ID:
		return esim.Purchase{}, errors.New("the answer is about another profile")
	}
	return seenAs(a.Purchase, mode), nil
}
