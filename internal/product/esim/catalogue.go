package esim

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
)

// Syncing is the kind of the job that synchronizes the catalogue with the suppliers.
const Syncing job.Kind = "esim_sync"

// SyncArgs are the arguments of that job.
type SyncArgs struct {
	// Suppliers are those whose catalogues are read; none is all that the worker sells over.
	Suppliers []string `json:"suppliers,omitempty"`
}

// Kind implements job.Args.
func (SyncArgs) Kind() job.Kind { return Syncing }

// syncAgain is how soon the catalogues are read again after one could not be: nothing of a supplier is sold before its
// catalogue was read once.
const syncAgain = 15 * time.Second

// Sync handles the job, see ReadCatalogues. While a new supplier is rolled out, a process that does not know it yet
// leaves its job to the others.
func (e *Esims) Sync(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[SyncArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	sellers := e.sellers()
	if slices.ContainsFunc(a.Suppliers, func(name string) bool { return !slices.Contains(sellers, name) }) {
		return e.handOver(l), nil
	}
	return e.ReadCatalogues(ctx)
}

// ReadCatalogues reads the catalogue of each supplier that sells, prices it and replaces ours. After a failure the
// plans of the supplier stay as they are, and become stale, and they are to be read again.
func (e *Esims) ReadCatalogues(ctx context.Context) (job.Outcome, error) {
	done := job.Done()
	for _, p := range e.selling() {
		at := e.Now()
		plans, err := e.listed(ctx, p)
		if err != nil {
			e.Log.WarnContext(ctx, "catalogue not synced", slog.String("provider", p.Name), slog.Any("error", err))
			done = job.Snooze(min(syncAgain, cmp.Or(e.SyncEvery, syncAgain)))
			done.Reason = fmt.Sprintf("the catalogue of %s could not be read", p.Name)
			continue
		}
		if err := e.Store.Replace(ctx, p.Name, plans, at); err != nil {
			return job.Outcome{}, fmt.Errorf("replace the catalogue: %w", err)
		}
		e.cached.Reset()
	}
	return done, nil
}

// listed reads the plans of a supplier.
func (e *Esims) listed(ctx context.Context, from *provider) ([]Plan, error) {
	call, cancel := fault.Within(ctx, e.timeout(from))
	defer cancel()
	listings, err := from.Supplier.Listings(call)
	if err != nil {
		return nil, fmt.Errorf("read the supplier's catalogue: %w", err)
	}
	plans, seen := make([]Plan, 0, len(listings)), map[string]bool{}
	for _, l := range listings {
		if p, ok := e.plan(l); ok && !seen[p.Code] {
			p.Provider = from.Name
			plans, seen[p.Code] = append(plans, p), true
		}
	}
	if len(plans) == 0 {
		// An empty catalogue is most likely a mistake of the supplier.
		return nil, errors.New("the supplier's catalogue has nothing to sell")
	}
	if left := len(listings) - len(plans); left > 0 {
		e.Log.WarnContext(ctx, "listings left out", slog.String("provider", from.Name), slog.Int("count", left))
	}
	return plans, nil
}

// plan converts a listing. ok is false for a listing that is incomplete, or whose price is out of bounds.
func (e *Esims) plan(l Listing) (Plan, bool) {
	p := Plan{
		ID: newPlanID(), Name: sanitize(l.Name, maxName), Type: l.Type, DataMB: l.DataMB, Unlimited: l.Unlimited,
		ValidityDays: l.ValidityDays, Code: l.Code, Cost: l.Cost, Live: l.InStock,
	}
	if l.Unlimited {
		p.FairUse = sanitize(l.FairUse, maxFairUse)
	}
	for _, c := range l.Countries {
		code, ok := ParseCountry(c)
		if !ok {
			return Plan{}, false
		}
		p.Countries = append(p.Countries, code)
	}
	slices.Sort(p.Countries)
	p.Countries = slices.Compact(p.Countries)
	ok := false
	p.Price, ok = PriceOf(l.Cost, e.MarginBPS)
	return p, ok && p.Name != "" && p.Code != "" && (p.DataMB > 0) != p.Unlimited && p.DataMB >= 0 && p.ValidityDays > 0 &&
		len(p.Countries) > 0 &&
		(p.Type == Region || p.Type == Country && len(p.Countries) == 1)
}

// PriceOf is a cost with a margin, rounded up to a cent; ok is false when it is not between MinPrice and MaxPrice.
func PriceOf(cost money.USDC, marginBPS int) (price money.Cents, ok bool) {
	if cost <= 0 || cost > MaxPrice.USDC() || marginBPS < 0 || marginBPS > MaxMarginBPS {
		return 0, false
	}
	const whole = 10_000 // basis points
	unit := int64(money.Cents(1).USDC()) * whole
	price = money.Cents((int64(cost)*int64(whole+marginBPS) + unit - 1) / unit)
	return price, price >= MinPrice && price <= MaxPrice
}

// MaxMarginBPS is the highest margin, ten times the cost.
const MaxMarginBPS = 100_000

func newPlanID() PlanID {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails: the program ends when there is no randomness
	return PlanID("pln_" + hex.EncodeToString(raw[:]))
}

const (
	maxName    = 80
	maxFairUse = 200
)

// sanitize reduces a supplier's text, which people and agents read in our catalogue, to letters, digits and some
// punctuation on one line.
func sanitize(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" -,.'&()+/", r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
	runes := []rune(strings.Join(strings.Fields(s), " "))
	return string(runes[:min(len(runes), most)])
}

// catalogue is the live plans, cheapest first, and the times of the last syncs, by provider.
type catalogue struct {
	plans  []Plan
	synced map[string]time.Time
}

func (c catalogue) find(id PlanID) (Plan, bool) {
	i := slices.IndexFunc(c.plans, func(p Plan) bool { return p.ID == id })
	if i < 0 {
		return Plan{}, false
	}
	return c.plans[i], true
}

// cacheTTL is how long the catalogue is cached, so that a flood of unpaid requests does not reach the database.
const cacheTTL = time.Second

func (e *Esims) catalogue(ctx context.Context) (catalogue, error) { return e.cached.Get(ctx) }

// PlanNames are the names of plans, also of those that are not sold any more. One that never was is left out. Plans of
// the cached catalogue cost no read.
func (e *Esims) PlanNames(ctx context.Context, ids ...PlanID) (map[PlanID]string, error) {
	names, wanted := make(map[PlanID]string, len(ids)), map[PlanID]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	on, err := e.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range on.plans {
		if wanted[p.ID] {
			names[p.ID] = p.Name
			delete(wanted, p.ID)
		}
	}
	if len(wanted) == 0 {
		return names, nil
	}
	others, err := e.Store.PlanNames(ctx, slices.Collect(maps.Keys(wanted))...)
	if err != nil {
		return nil, fmt.Errorf("read the names of plans: %w", err)
	}
	maps.Copy(names, others)
	return names, nil
}

// readCatalogue reads the plans of the suppliers that sell. Those of a stale one are left out while another one is
// fresh.
func (e *Esims) readCatalogue(ctx context.Context) (catalogue, error) {
	plans, synced, err := e.Store.Plans(ctx)
	if err != nil {
		return catalogue{}, fmt.Errorf("read the catalogue: %w", err)
	}
	on, sells, fresh := catalogue{plans, synced}, map[string]bool{}, map[string]bool{}
	for _, p := range e.selling() {
		sells[p.Name] = true
		if e.isFresh(on, p) {
			fresh[p.Name] = true
		}
	}
	if len(fresh) > 0 {
		sells = fresh
	}
	on.plans = slices.DeleteFunc(plans, func(p Plan) bool { return !sells[p.Provider] })
	return on, nil
}

// fresh fails while the last sync of every supplier is older than StaleAfter.
func (e *Esims) fresh(ctx context.Context) error {
	on, err := e.catalogue(ctx)
	if err != nil {
		return err
	}
	selling, err := e.onSale(ctx)
	if err != nil || slices.ContainsFunc(selling, func(p *provider) bool { return e.isFresh(on, p) }) {
		return err
	}
	return fault.New(fault.DependencyDown, "The eSIM catalogue is out of date: its supplier does not answer.")
}

// Filter selects plans of the catalogue; the zero value selects all.
type Filter struct {
	// Country is an ISO 3166-1 alpha-2 code in upper case.
	Country string
	Type    Type
}

// Plans lists the live plans, cheapest first. A regional plan matches each country that it covers.
func (e *Esims) Plans(ctx context.Context, f Filter) ([]Plan, error) {
	on, err := e.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	selling, err := e.forSale(ctx, on)
	if err != nil {
		return nil, err
	}
	var found []Plan
	for _, p := range selling {
		if (f.Country == "" || p.Covers(f.Country)) && (f.Type == "" || p.Type == f.Type) {
			found = append(found, p)
		}
	}
	return found, nil
}
