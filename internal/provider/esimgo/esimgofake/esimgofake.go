// Package esimgofake is eSIM Go as far as we use it: its wire format over books in memory. It misbehaves when told to.
package esimgofake

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// DevKey is the API key of a Config that has none.
const DevKey = "dev-esim-go-key"

// Config says how the vendor behaves. Zero values mean what the comments say.
type Config struct {
	// APIKey is DevKey if empty.
	APIKey secret.Text
	// Balance is what the organisation begins with; 1,000 USD if zero.
	Balance money.USDC
	// Pending leaves orders without their eSIM until Settle.
	Pending bool
	// Bare leaves the eSIM out of orders: only the assignments have it.
	Bare bool
	// OrderGap is the least time between two orders; one that comes sooner is answered 429.
	OrderGap time.Duration
	// PageSize bounds the pages of lists; 100 if zero.
	PageSize int
	// OldestFirst turns the list of orders around.
	OldestFirst bool
	// Now is time.Now if nil.
	Now func() time.Time
}

// Bundle is something that the vendor sells.
type Bundle struct {
	Name, Description string
	// Countries are ISO codes, in any case.
	Countries []string
	DataMB    int
	Days      int
	Unlimited bool
	// Region, if any, is shown in place of the countries, which the bundle then shows as where it roams.
	Region string
	Price  money.USDC

	soldOut bool
}

// Order is an order in the books. Its eSIM is left out: whoever lists the books must not hold it.
type Order struct {
	Reference, Bundle string
	Total             money.USDC
	Created           time.Time
	Completed         bool
	ICCID             string
	// Onto is the order whose eSIM the bundle was added to; empty for an eSIM of its own.
	Onto string
}

type sim struct{ iccid, matchingID, installed string }

type bought struct {
	Order
	sim sim
	use Use
}

// Use is what became of an eSIM, in the vendor's words.
type Use struct {
	// Profile and Bundle are the states of the eSIM and of its bundle; empty for those that nobody touched.
	Profile, Bundle string
	// Used is in bytes.
	Used int64
}

// Put says what became of the eSIM of an order.
func (s *Server) Put(reference string, use Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ordered(reference).use = use
}

// Server is the vendor. It is an http.Handler and safe for concurrent use.
type Server struct {
	cfg Config
	mux *http.ServeMux
	// Front counts what arrives, by Ops. Faults name these, too.
	*vendorfake.Front
	// sender sends callbacks, to wherever the test says.
	sender *http.Client

	mu      sync.Mutex
	bundles []*Bundle
	orders  []*bought // the oldest first
	balance money.USDC
	made    int
	latest  time.Time
	// callbacks is where they are sent; empty sends none.
	callbacks string
}

// New makes a Server that sells Bundles.
func New(cfg Config) *Server {
	if cfg.APIKey.IsZero() {
		cfg.APIKey = secret.New(DevKey)
	}
	if cfg.Balance == 0 {
		cfg.Balance = 1_000_000_000
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = 100
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{
		cfg: cfg, balance: cfg.Balance,
		sender: outward.New(outward.Config{Rule: outward.Rule{Anywhere: true}}),
	}
	for _, b := range Bundles() {
		s.bundles = append(s.bundles, &b)
	}
	s.Front = vendorfake.New(s.vendor())
	s.mux = s.routes()
	return s
}

// Bundles are what every Server sells at first.
func Bundles() []Bundle {
	europe := []string{"AT", "BE", "DE", "ES", "FR", "IT", "NL", "PT"}
	return []Bundle{
		{
			Name: "esim_1GB_7D_FR_V2", Description: "eSIM, 1GB, 7 Days, France, V2", Countries: []string{"FR"},
			DataMB: 1000, Days: 7, Price: 1_120_000,
		},
		{
			Name: "esim_1GB_7D_JP_V2", Description: "eSIM, 1GB, 7 Days, Japan, V2", Countries: []string{"JP"},
			DataMB: 1000, Days: 7, Price: 1_430_500,
		},
		{
			Name: "esim_5GB_30D_REUP_V2", Description: "eSIM, 5GB, 30 Days, Europe+, V2", Countries: europe,
			DataMB: 5000, Days: 30, Price: 6_050_000,
		},
		{
			Name: "esim_UL_7D_FR_V2", Description: "eSIM, Unlimited, 7 Days, France, V2", Countries: []string{"FR"},
			DataMB: -1, Days: 7, Unlimited: true, Price: 9_000_000,
		},
		{
			Name: "esim_1GB_7D_RBAL_V2", Description: "eSIM, 1GB, 7 Days, Balkans, V2", Region: "Balkans",
			Countries: []string{"AL", "HR", "ME"}, DataMB: 1000, Days: 7, Price: 2_350_000,
		},
	}
}

// Settle completes every order.
func (s *Server) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		o.Completed = true
	}
}

// Orders are the books, the oldest order first.
func (s *Server) Orders() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Order, len(s.orders))
	for i, o := range s.orders {
		all[i] = o.Order
	}
	return all
}

// Balance is what the organisation has left.
func (s *Server) Balance() money.USDC {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.balance
}

// Check finds what in the books does not add up: an order that nobody paid for, or an eSIM that was sold twice.
func (s *Server) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, owner := s.cfg.Balance, map[string]string{}
	for _, o := range s.orders {
		left -= o.Total
		if o.Onto != "" {
			continue
		}
		if other, sold := owner[o.ICCID]; sold {
			return fmt.Errorf("orders %s and %s have one eSIM", other, o.Reference)
		}
		owner[o.ICCID] = o.Reference
	}
	if left != s.balance {
		return fmt.Errorf("the balance is %s, and %s by the orders", s.balance.Dollars(), left.Dollars())
	}
	return nil
}

// SetBalance sets what the organisation has left.
func (s *Server) SetBalance(left money.USDC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Balance += left - s.balance
	s.balance = left
}

// SetPrice changes what a bundle costs.
func (s *Server) SetPrice(name string, price money.USDC) {
	s.change(name, func(b *Bundle) { b.Price = price })
}

// SellOut leaves a bundle in the catalogue that no order gets.
func (s *Server) SellOut(name string) { s.change(name, func(b *Bundle) { b.soldOut = true }) }

// Withdraw takes a bundle out of the catalogue.
func (s *Server) Withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundles = slices.DeleteFunc(s.bundles, func(b *Bundle) bool { return b.Name == name })
}

// List adds a bundle to the catalogue.
func (s *Server) List(b Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundles = append(s.bundles, &b)
}

// Buy is an order that somebody makes by hand, in the vendor's portal.
func (s *Server) Buy(name string) (reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sell(s.find(name), nil).Reference
}

// Install puts the eSIM of an order on a device.
func (s *Server) Install(reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.Reference == reference {
			o.sim.installed = stamp(s.cfg.Now())
		}
	}
}

func (s *Server) change(name string, how func(*Bundle)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(name)
	if b == nil {
		panic("esimgofake: there is no bundle " + name)
	}
	how(b)
}

func (s *Server) find(name string) *Bundle {
	i := slices.IndexFunc(s.bundles, func(b *Bundle) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return s.bundles[i]
}

// Add is a bundle that somebody adds by hand to the eSIM of an order.
func (s *Server) Add(name, onto string) (reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sell(s.find(name), s.ordered(onto)).Reference
}

// sell makes an order, for a new eSIM or for that of another one; the books are locked.
func (s *Server) sell(b *Bundle, onto *bought) *bought {
	s.made++
	o := &bought{
		Order: Order{
			Reference: uuid.NewString(), Bundle: b.Name, Total: b.Price, Created: s.cfg.Now().UTC(),
			Completed: !s.cfg.Pending, ICCID: fmt.Sprintf("894450000000%07d", s.made),
		},
	}
	o.sim = sim{iccid: o.ICCID, matchingID: fmt.Sprintf("GO-%06d-%s", s.made, "A1B2C3D4")}
	if onto != nil {
		o.ICCID, o.Onto, o.sim = onto.ICCID, onto.Reference, onto.sim
	}
	s.balance -= b.Price
	s.orders = append(s.orders, o)
	return o
}

// Ops are the kinds of requests that faults and counts name.
func Ops() []string {
	return []string{
		opPlans, opPlan, opCheck, opOrder, opOrdered, opAssignments, opOrganisation, opESIM, opBundles, opTopups, opTopup,
	}
}

const (
	opPlans        = "plans"
	opPlan         = "plan"
	opCheck        = "check"
	opOrder        = "order"
	opOrdered      = "ordered"
	opAssignments  = "assignments"
	opOrganisation = "organisation"
	opESIM         = "profile"
	opBundles      = "usage"
	opTopups       = "topups"
	opTopup        = "topup"
)
