package esimtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/secret"
)

// The modes that only Supplier knows.
const (
	// Rejected accepts and later says no.
	Rejected Mode = "rejected"
	// StaysPending accepts and never completes.
	StaysPending Mode = "stays_pending"
)

// ErrDown is what Supplier answers when it is told to fail.
var ErrDown = errors.New("the supplier does not answer")

// Supplier is an eSIM supplier in memory that fails as it is told to. It deduplicates by reference. It is
// safe for concurrent use.
type Supplier struct {
	instant bool
	traits  esim.Traits

	mu       sync.Mutex
	listings []esim.Listing
	units    map[string]int64
	float    money.USDC
	orders   map[esim.Ref]*bought
	refused  map[esim.Ref]*esim.Refusal // a no stays a no
	pending  []func()
	faults   map[Op][]Mode
	executed map[esim.Ref]int
	calls    map[Op]int
}

type bought struct {
	esim.Purchase
	asked          esim.Request
	activationData esim.ActivationData
}

var _ esim.Supplier = (*Supplier)(nil)

// NewSupplier makes a supplier with three plans in stock, counted in none. An instant one completes
// orders at once; another waits for Settle. Without habits it deduplicates, with no horizon.
func NewSupplier(instant bool, habits esim.Traits) *Supplier {
	if habits == (esim.Traits{}) {
		habits.Deduplicates = true
	}
	return &Supplier{
		instant: instant, traits: habits, float: 1_000_000_000,
		listings: []esim.Listing{
			{Code: "fr-1", Name: "France 1 GB", Type: esim.Country, Countries: []string{"FR"}, DataMB: 1024, ValidityDays: 7, Cost: 800_000, InStock: true},
			{Code: "jp-1", Name: "Japan 1 GB", Type: esim.Country, Countries: []string{"JP"}, DataMB: 1024, ValidityDays: 7, Cost: 1_200_001, InStock: true},
			{Code: "eu-5", Name: "Europe 5 GB", Type: esim.Region, Countries: []string{"FR", "DE", "IT"}, DataMB: 5120, ValidityDays: 30, Cost: 6_000_000, InStock: true},
		},
		units: map[string]int64{}, orders: map[esim.Ref]*bought{}, refused: map[esim.Ref]*esim.Refusal{},
		faults: map[Op][]Mode{}, executed: map[esim.Ref]int{}, calls: map[Op]int{},
	}
}

// Traits are the habits it was made with.
func (s *Supplier) Traits() esim.Traits { return s.traits }

// Fault spoils the next call of one kind, and says whether it can. Faults of one kind queue up.
func (s *Supplier) Fault(op Op, mode Mode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := []Mode{ErrorBefore, ErrorAfter, TimeoutBefore, TimeoutAfter, Refused, RateLimited, Unauthorized, UnknownState, Rejected, StaysPending}
	if !slices.Contains(known, mode) {
		return false
	}
	s.faults[op] = append(s.faults[op], mode)
	return true
}

// Heal takes back every fault that has not happened yet.
func (s *Supplier) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// Settle completes everything pending, except what stays so.
func (s *Supplier) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, complete := range s.pending {
		complete()
	}
	s.pending = nil
}

// Executed is how often an order took effect.
func (s *Supplier) Executed(ref esim.Ref) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[ref]
}

// Calls is how often a call was made, whatever came of it.
func (s *Supplier) Calls(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// SetFloat sets the money we have left.
func (s *Supplier) SetFloat(float money.USDC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.float = float
}

// SetCost changes what a plan costs.
func (s *Supplier) SetCost(code string, cost money.USDC) {
	s.change(code, func(l *esim.Listing) { l.Cost = cost })
}

// SellOut makes a plan run out.
func (s *Supplier) SellOut(code string) {
	s.change(code, func(l *esim.Listing) { l.InStock = false })
}

// SetUnits counts a plan's profiles.
func (s *Supplier) SetUnits(code string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.units[code] = units
}

func (s *Supplier) change(code string, how func(*esim.Listing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.find(code)
	if l == nil {
		panic("esimtest: there is no plan " + code)
	}
	how(l)
}

func (s *Supplier) find(code string) *esim.Listing {
	i := slices.IndexFunc(s.listings, func(l esim.Listing) bool { return l.Code == code })
	if i < 0 {
		return nil
	}
	return &s.listings[i]
}

// before counts a call and fails it if it is to fail without effect.
func (s *Supplier) before(ctx context.Context, op Op) (Mode, error) {
	s.calls[op]++
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDown, err)
	}
	queue := s.faults[op]
	if len(queue) == 0 {
		return "", nil
	}
	mode := queue[0]
	s.faults[op] = queue[1:]
	switch mode {
	case ErrorBefore, RateLimited, Unauthorized:
		return mode, fmt.Errorf("%s: %w", mode, ErrDown)
	case TimeoutBefore:
		return mode, fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	case Refused:
		return mode, &esim.Refusal{Code: esim.RefusedUnstated, Message: "the request is declined"}
	default:
		return mode, nil
	}
}

// after fails a call that has had its effect.
func after(mode Mode) error {
	switch mode {
	case ErrorAfter:
		return ErrDown
	case TimeoutAfter:
		return fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	default:
		return nil
	}
}

// Listings implements esim.Supplier.
func (s *Supplier) Listings(ctx context.Context) ([]esim.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode, err := s.before(ctx, Plans)
	if err = errors.Join(err, after(mode)); err != nil {
		return nil, err
	}
	return slices.Clone(s.listings), nil
}

// Check implements esim.Supplier.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode, err := s.before(ctx, Check)
	if err = errors.Join(err, after(mode)); err != nil {
		return esim.Stock{}, err
	}
	l := s.find(code)
	if l == nil {
		return esim.Stock{}, esim.ErrNoPlan
	}
	return esim.Stock{Cost: l.Cost, Units: s.left(l), Float: s.float}, nil
}

func (s *Supplier) left(l *esim.Listing) int64 {
	n, counted := s.units[l.Code]
	switch {
	case !l.InStock:
		return 0
	case counted:
		return n
	}
	return esim.Plenty
}

// Order implements esim.Supplier.
func (s *Supplier) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode, err := s.before(ctx, Order)
	if err != nil {
		return esim.Purchase{}, err
	}
	known, repeated := s.orders[r.Ref]
	l := s.find(r.Code)
	switch {
	case repeated && known.asked != r:
		return esim.Purchase{}, fmt.Errorf("reference %s was used for another order", r.Ref)
	case repeated:
	case s.refused[r.Ref] != nil:
		return esim.Purchase{}, s.refused[r.Ref]
	case l == nil:
		return esim.Purchase{}, s.refuse(r.Ref, esim.RefusedPlan)
	case s.left(l) == 0:
		return esim.Purchase{}, s.refuse(r.Ref, esim.RefusedStock)
	case l.Cost > r.MaxCost:
		return esim.Purchase{}, s.refuse(r.Ref, esim.RefusedPrice)
	case s.float < l.Cost:
		return esim.Purchase{}, s.refuse(r.Ref, esim.RefusedFloat)
	default:
		known = s.sell(r, l, mode)
	}
	if err := after(mode); err != nil {
		return esim.Purchase{}, err
	}
	return known.seen(mode), nil
}

// refuse says no, now and whenever the reference is sent again.
func (s *Supplier) refuse(ref esim.Ref, code string) error {
	no := &esim.Refusal{Code: code, Message: "the order is declined"}
	s.refused[ref] = no
	return no
}

func (s *Supplier) sell(r esim.Request, l *esim.Listing, mode Mode) *bought {
	n := len(s.orders) + 1
	b := &bought{asked: r, activationData: esim.ActivationData{
		ICCID: secret.New(fmt.Sprintf("8910390000%09d", n)), SMDPAddress: secret.New("smdp.example.com"),
		MatchingID: secret.New(fmt.Sprintf("MATCH-%06d", n)),
	}}
	b.Purchase = esim.Purchase{ID: "sup-" + uuid.NewString(), Ref: r.Ref, Code: r.Code, State: esim.PurchasePending, Cost: l.Cost}
	s.orders[r.Ref] = b
	s.executed[r.Ref]++
	s.float -= l.Cost
	if left, counted := s.units[l.Code]; counted {
		s.units[l.Code] = left - 1
	}
	if mode == StaysPending {
		return b
	}
	complete := func() {
		if mode == Rejected {
			b.State, b.Refusal = esim.PurchaseRejected, &esim.Refusal{Code: esim.RefusedStock, Message: "the profile cannot be made"}
			s.float += b.Cost
			return
		}
		b.State, b.ActivationData = esim.PurchaseReady, &b.activationData
	}
	if s.instant {
		complete()
	} else {
		s.pending = append(s.pending, complete)
	}
	return b
}

// Ordered implements esim.Supplier.
func (s *Supplier) Ordered(ctx context.Context, ref esim.Ref) (esim.Purchase, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode, err := s.before(ctx, Ordered)
	if err != nil {
		return esim.Purchase{}, err
	}
	known, ok := s.orders[ref]
	if !ok {
		return esim.Purchase{}, esim.ErrNoRef
	}
	if err := after(mode); err != nil {
		return esim.Purchase{}, err
	}
	return known.seen(mode), nil
}

// seen is an order as an adapter shows it: an unfamiliar state is a pending one.
func (b *bought) seen(mode Mode) esim.Purchase {
	shown := b.Purchase
	if mode == UnknownState {
		shown.State, shown.ActivationData, shown.Refusal = esim.PurchasePending, nil, nil
	}
	return shown
}

// List makes listings the whole catalogue.
func (s *Supplier) List(listings ...esim.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listings = listings
}
