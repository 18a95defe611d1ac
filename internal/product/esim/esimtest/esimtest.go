// Package esimtest holds what every eSIM supplier must keep to, as tests, and a supplier and a store in memory.
package esimtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Op is a call of the port, as faults name it.
type Op string

// The calls.
const (
	Plans   Op = "plans"
	Check   Op = "check"
	Order   Op = "order"
	Ordered Op = "ordered"
)

// Mode is a way for one call to go wrong.
type Mode string

// The modes that the suite knows. A supplier may have more.
const (
	ErrorBefore   Mode = "error_before"
	ErrorAfter    Mode = "error_after"
	TimeoutBefore Mode = "timeout_before"
	TimeoutAfter  Mode = "timeout_after"
	Refused       Mode = "refused"
	Malformed     Mode = "malformed"
	Truncated     Mode = "truncated"
	Huge          Mode = "huge"
	RateLimited   Mode = "rate_limited"
	Unauthorized  Mode = "unauthorized"
	UnknownState  Mode = "unknown_state"
	WrongAmount   Mode = "wrong_amount"
	Inexact       Mode = "inexact_amount"
	WrongCurrency Mode = "wrong_currency"
	WrongOwner    Mode = "wrong_owner"
	Duplicate     Mode = "duplicate"
)

// Harness is the supplier under test and the handles on what is behind it.
type Harness struct {
	Supplier esim.Supplier
	Traits   fulfilment.Traits
	// Settle makes everything pending complete. Until then it stays pending.
	Settle func()
	// Fault spoils the next call of one kind, and says whether it can. May be nil.
	Fault func(Op, Mode) bool
	// Executed is how often an order with a reference really took effect. May be nil.
	Executed func(fulfilment.Ref) int
	// SellOut makes a plan run out. May be nil.
	SellOut func(code string)
}

// Run checks a supplier. It must list plans that are in stock, and have the float to buy a dozen of the
// cheapest.
func Run(t *testing.T, h Harness) {
	t.Run("ListingsAreWhole", h.listingsAreWhole)
	t.Run("CheckKnowsWhatIsListed", h.checkKnowsWhatIsListed)
	t.Run("OrderedProfileBecomesReady", h.orderedProfileBecomesReady)
	t.Run("UnknownReferenceIsErrNoRef", h.unknownReferenceIsErrNoRef)
	t.Run("RepeatedOrderTakesEffectOnce", h.repeatedOrderTakesEffectOnce)
	t.Run("ReferenceIsNotReusedForOtherContent", h.referenceIsNotReused)
	t.Run("CostAboveTheLimitIsRefused", h.costAboveTheLimitIsRefused)
	t.Run("StockThatRanOutIsRefused", h.stockThatRanOutIsRefused)
	t.Run("UnknownOutcomesAreReadBack", h.unknownOutcomesAreReadBack)
	t.Run("UnreadableAnswersAreNotRefusals", h.unreadableAnswersAreNotRefusals)
	t.Run("DefiniteNoIsARefusal", h.definiteNoIsARefusal)
	t.Run("UnfamiliarStateIsPending", h.unfamiliarStateIsPending)
	t.Run("FailedReadsAreNotErrNoRef", h.failedReadsAreNotErrNoRef)
	t.Run("MaterialIsHidden", h.activationDataIsHidden)
}

// NewRef is a reference that nobody has used.
func NewRef() fulfilment.Ref { return fulfilment.Ref(uuid.New()) }

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// cheapest is the listing that costs least of what is in stock.
func (h Harness) cheapest(t *testing.T) esim.Listing {
	t.Helper()
	all, err := h.Supplier.Listings(background(t))
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var best esim.Listing
	for _, l := range all {
		if l.InStock && (best.Code == "" || l.Cost < best.Cost) {
			best = l
		}
	}
	if best.Code == "" {
		t.Fatal("nothing is in stock")
	}
	return best
}

func request(l esim.Listing) esim.Request {
	return esim.Request{Ref: NewRef(), Code: l.Code, MaxCost: l.Cost}
}

func (h Harness) wantExecuted(t *testing.T, ref fulfilment.Ref, want int) {
	t.Helper()
	if h.Executed == nil {
		return
	}
	if got := h.Executed(ref); got != want {
		t.Errorf("the order took effect %d times, want %d", got, want)
	}
}

func (h Harness) fault(t *testing.T, op Op, mode Mode) {
	t.Helper()
	if h.Fault == nil || !h.Fault(op, mode) {
		t.Skipf("the supplier cannot %s on %s", mode, op)
	}
}

// refusal is the definite no in either of its two forms: as the error of an order, or in what is read back.
func refusal(err error, read *fulfilment.Refusal) *fulfilment.Refusal {
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		return no
	}
	return read
}

func (h Harness) listingsAreWhole(t *testing.T) {
	all, err := h.Supplier.Listings(background(t))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d listings, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, l := range all {
		if l.Code == "" || seen[l.Code] || l.Name == "" || l.Cost <= 0 || l.DataMB <= 0 || l.ValidityDays <= 0 || len(l.Countries) == 0 ||
			(l.Type != esim.Country && l.Type != esim.Region) {
			t.Errorf("listing %+v is not whole, or listed twice", l)
		}
		seen[l.Code] = true
	}
	for _, mode := range []Mode{ErrorBefore, TimeoutBefore, Malformed, Truncated, Huge, RateLimited, Unauthorized} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Plans, mode)
			if half, err := h.Supplier.Listings(background(t)); err == nil || half != nil {
				t.Errorf("half a catalogue: %d listings, %v", len(half), err)
			}
		})
	}
}

func (h Harness) checkKnowsWhatIsListed(t *testing.T) {
	l := h.cheapest(t)
	stock, err := h.Supplier.Check(background(t), l.Code)
	if err != nil || stock.Cost != l.Cost || stock.Units == 0 || stock.Float < l.Cost {
		t.Errorf("check says %+v, %v of %+v", stock, err, l)
	}
	if _, err := h.Supplier.Check(background(t), "no-such-plan"); !errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("Check of a plan that is not sold = %v, want ErrNoPlan", err)
	}
	for _, mode := range []Mode{ErrorBefore, TimeoutBefore, Malformed, Truncated, RateLimited, Unauthorized, Inexact, WrongCurrency} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Check, mode)
			_, err := h.Supplier.Check(background(t), l.Code)
			wantUnknown(t, err)
		})
	}
}

var (
	iccid    = regexp.MustCompile(`^89\d{16,18}$`)
	host     = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)
	matching = regexp.MustCompile(`^[A-Z0-9-]{4,}$`)
)

func (h Harness) orderedProfileBecomesReady(t *testing.T) {
	l := h.cheapest(t)
	r := request(l)
	asked, err := h.Supplier.Order(background(t), r)
	if err != nil {
		t.Fatalf("order: %v", err)
	}
	if asked.ID == "" || asked.Ref != r.Ref || asked.Code != l.Code || (asked.State != esim.PurchasePending && asked.State != esim.PurchaseReady) {
		t.Errorf("ordered %+v", asked)
	}
	h.Settle()
	got, err := h.Supplier.Ordered(background(t), r.Ref)
	if err != nil || got.State != esim.PurchaseReady || got.ActivationData == nil || got.ID != asked.ID || got.Ref != r.Ref || got.Code != l.Code || got.Cost != l.Cost {
		t.Fatalf("reads back as %+v, %v", got, err)
	}
	m := *got.ActivationData
	if !iccid.MatchString(m.ICCID.Reveal()) || !host.MatchString(m.SMDPAddress.Reveal()) || !matching.MatchString(m.MatchingID.Reveal()) {
		t.Error("the material is not what devices take")
	}
	again, err := h.Supplier.Ordered(background(t), r.Ref)
	if err != nil || again.ActivationData == nil || !again.ActivationData.ICCID.Equal(m.ICCID) || !again.ActivationData.MatchingID.Equal(m.MatchingID) {
		t.Errorf("the material is another the second time: %v", err)
	}
	h.wantExecuted(t, r.Ref, 1)
}

func (h Harness) unknownReferenceIsErrNoRef(t *testing.T) {
	if _, err := h.Supplier.Ordered(background(t), NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Ordered = %v, want ErrNoRef", err)
	}
}

const copies = 6

func (h Harness) repeatedOrderTakesEffectOnce(t *testing.T) {
	if !h.Traits.Deduplicates {
		t.Skip("the supplier does not deduplicate")
	}
	r := request(h.cheapest(t))
	ctx := background(t)
	var ids sync.Map
	var sent sync.WaitGroup
	for range copies {
		sent.Go(func() {
			got, err := h.Supplier.Order(ctx, r)
			if err != nil {
				t.Errorf("order: %v", err)
				return
			}
			ids.Store(got.ID, true)
		})
	}
	sent.Wait()
	h.Settle()
	again, err := h.Supplier.Order(ctx, r)
	if err != nil || again.State != esim.PurchaseReady {
		t.Errorf("repeated when it was done: %+v, %v", again, err)
	}
	ids.Store(again.ID, true)
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("one reference ordered %d profiles", n)
	}
	h.wantExecuted(t, r.Ref, 1)
}

func (h Harness) referenceIsNotReused(t *testing.T) {
	if !h.Traits.Deduplicates {
		t.Skip("the supplier does not deduplicate")
	}
	r := request(h.cheapest(t))
	if _, err := h.Supplier.Order(background(t), r); err != nil {
		t.Fatalf("order: %v", err)
	}
	r.MaxCost++
	_, err := h.Supplier.Order(background(t), r)
	// Something did happen under this reference, so this is no refusal.
	wantUnknown(t, err)
	h.wantExecuted(t, r.Ref, 1)
}

func (h Harness) costAboveTheLimitIsRefused(t *testing.T) {
	r := request(h.cheapest(t))
	r.MaxCost--
	h.wantRefused(t, r, esim.RefusedPrice)
}

func (h Harness) stockThatRanOutIsRefused(t *testing.T) {
	if h.SellOut == nil {
		t.Skip("no plan of the supplier can be sold out")
	}
	l := h.cheapest(t)
	h.SellOut(l.Code)
	if stock, err := h.Supplier.Check(background(t), l.Code); err != nil || stock.Units != 0 {
		t.Errorf("check says %+v, %v of a plan that is sold out", stock, err)
	}
	h.wantRefused(t, request(l), esim.RefusedStock)
	if next := h.cheapest(t); next.Code == l.Code {
		t.Error("a plan that is sold out is listed as in stock")
	}
}

// wantRefused orders, and wants a definite no that stays one.
func (h Harness) wantRefused(t *testing.T, r esim.Request, code string) {
	t.Helper()
	got, err := h.Supplier.Order(background(t), r)
	if err == nil {
		h.Settle()
		got, err = h.Supplier.Ordered(background(t), r.Ref)
	}
	if no := refusal(err, got.Refusal); no == nil || no.Code != code {
		t.Errorf("refused with %+v, %v; want %s", no, err, code)
	}
	if h.Traits.Deduplicates {
		_, err := h.Supplier.Order(background(t), r)
		if no := refusal(err, nil); no == nil || no.Code != code {
			t.Errorf("repeated: %v, want the same refusal", err)
		}
	}
}

func (h Harness) activationDataIsHidden(t *testing.T) {
	p := h.ready(t)
	secrets := []string{p.ActivationData.ICCID.Reveal(), p.ActivationData.MatchingID.Reveal()}
	wantNone := func(t *testing.T, what, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s shows the material", what)
			}
		}
	}
	wantNone(t, "a purchase", shown(t, p))
	for _, mode := range []Mode{ErrorAfter, TimeoutAfter, Malformed, Truncated, Huge, WrongOwner, WrongAmount} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Ordered, mode)
			_, err := h.Supplier.Ordered(background(t), p.Ref)
			for ; err != nil; err = errors.Unwrap(err) {
				wantNone(t, "an error", shown(t, err))
			}
		})
	}
}

// shown is a value in every form in which it could reach a log or an answer.
func shown(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", v, v, v, v, v)
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("shown", "value", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("shown", "value", v)
	return out.String()
}
