package esimtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/secret"
)

// Supplier is an eSIM supplier in memory that fails on demand.
type Supplier struct {
	*fulfilmenttest.Fake

	listings []esim.Listing
	units    map[string]int64
	float    money.USDC
	orders   fulfilmenttest.Records[bought]
	added    fulfilmenttest.Records[added]
	looks    int
}

type bought struct {
	esim.Purchase
	asked          esim.Request
	activationData esim.ActivationData
	// state is how the profile stands; zero for one that nobody installed.
	state esim.State
}

var _ esim.Supplier = (*Supplier)(nil)

// NewSupplier makes a supplier with three plans in stock. None states a number of units. See fulfilmenttest.NewFake.
func NewSupplier(instant bool, traits fulfilment.Traits) *Supplier {
	return &Supplier{
		Fake: fulfilmenttest.NewFake(instant, traits), float: 1_000_000_000,
		listings: []esim.Listing{
			{
				Code: "fr-1", Name: "France 1 GB", Type: esim.Country, Countries: []string{"FR"}, DataMB: 1024,
				ValidityDays: 7, Cost: 800_000, InStock: true,
			},
			{
				Code: "jp-1", Name: "Japan 1 GB", Type: esim.Country, Countries: []string{"JP"}, DataMB: 1024,
				ValidityDays: 7, Cost: 1_200_001, InStock: true,
			},
			{
				Code: "eu-5", Name: "Europe 5 GB", Type: esim.Region, Countries: []string{"FR", "DE", "IT"},
				DataMB: 5120, ValidityDays: 30, Cost: 6_000_000, InStock: true,
			},
		},
		units: map[string]int64{}, orders: fulfilmenttest.Records[bought]{},
		added: fulfilmenttest.Records[added]{},
	}
}

// Harness puts the supplier under test.
func (s *Supplier) Harness() Harness {
	return Harness{Handles: s.Handles(), Supplier: s, SellOut: s.SellOut, Capabilities: s.Capabilities(), Use: s.Use}
}

// SetFloat sets the money we have left.
func (s *Supplier) SetFloat(float money.USDC) {
	s.Lock()
	defer s.Unlock()
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
	s.Lock()
	defer s.Unlock()
	s.units[code] = units
}

func (s *Supplier) change(code string, how func(*esim.Listing)) {
	s.Lock()
	defer s.Unlock()
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

// Listings implements esim.Supplier.
func (s *Supplier) Listings(ctx context.Context) ([]esim.Listing, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.Answer(ctx, Plans); err != nil {
		return nil, err
	}
	return slices.Clone(s.listings), nil
}

// Check implements esim.Supplier.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.Answer(ctx, Check); err != nil {
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
	s.Lock()
	defer s.Unlock()
	b, mode, err := s.orders.Take(ctx, s.Fake, fulfilmenttest.Entry[bought]{
		Op: Order, Ref: r.Ref,
		Same:   func(known bought) bool { return known.asked == r },
		Refuse: func() *fulfilment.Refusal { return s.declined(r) },
		Make:   func(mode fulfilmenttest.Mode) *bought { return s.sell(r, s.find(r.Code), mode) },
	})
	if err != nil {
		return esim.Purchase{}, err
	}
	return b.seen(mode), nil
}

// declined is why an order is refused at once.
func (s *Supplier) declined(r esim.Request) *fulfilment.Refusal {
	code, l := "", s.find(r.Code)
	switch {
	case l == nil:
		code = esim.RefusedPlan
	case s.left(l) == 0:
		code = esim.RefusedStock
	case l.Cost > r.MaxCost:
		code = esim.RefusedPrice
	case s.float < l.Cost:
		code = fulfilment.RefusedFloat
	default:
		return nil
	}
	return &fulfilment.Refusal{Code: code, Message: "the order is declined"}
}

func (s *Supplier) sell(r esim.Request, l *esim.Listing, mode fulfilmenttest.Mode) *bought {
	n := len(s.orders) + 1
	b := &bought{asked: r, activationData: esim.ActivationData{
		ICCID: secret.New(fmt.Sprintf("8910390000%09d", n)), SMDPAddress: secret.New("smdp.example.com"),
		MatchingID: secret.New(fmt.Sprintf("MATCH-%06d", n)),
	}}
	b.Purchase = esim.Purchase{
		ID: "sup-" + uuid.NewString(), Ref: r.Ref, Code: r.Code, State: esim.PurchasePending, Cost: l.Cost,
	}
	s.float -= l.Cost
	if left, counted := s.units[l.Code]; counted {
		s.units[l.Code] = left - 1
	}
	s.Complete(mode, "", func(rejected bool) {
		if !rejected {
			b.State, b.ActivationData = esim.PurchaseReady, &b.activationData
			return
		}
		b.State = esim.PurchaseRejected
		b.Refusal = &fulfilment.Refusal{Code: esim.RefusedStock, Message: "the profile cannot be made"}
		s.float += b.Cost
	})
	return b
}

// Ordered implements esim.Supplier.
func (s *Supplier) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	s.Lock()
	defer s.Unlock()
	b, mode, err := s.orders.Find(ctx, s.Fake, Ordered, ref)
	if err != nil {
		return esim.Purchase{}, err
	}
	return b.seen(mode), nil
}

// seen is an order as an adapter shows it: an unfamiliar state is a pending one.
func (b *bought) seen(mode fulfilmenttest.Mode) esim.Purchase {
	return seenAs(b.Purchase, mode)
}

func seenAs(shown esim.Purchase, mode fulfilmenttest.Mode) esim.Purchase {
	if mode == fulfilmenttest.UnknownState {
		shown.State, shown.ActivationData, shown.Refusal = esim.PurchasePending, nil, nil
	}
	return shown
}

// List makes listings the whole catalogue.
func (s *Supplier) List(listings ...esim.Listing) {
	s.Lock()
	defer s.Unlock()
	s.listings = listings
}
