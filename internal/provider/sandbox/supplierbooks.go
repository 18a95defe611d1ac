package sandbox

import (
	"cmp"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// allocation is the status of an eSIM in the supplier's own words.
type allocation string

const (
	allocating allocation = "allocating"
	released   allocation = "released"
	cancelled  allocation = "cancelled"
)

// esimRow is an order in the supplier's books. The profile's activation data is not kept: it follows from the seed.
type esimRow struct {
	ID        string     `json:"id"`
	Seq       int        `json:"seq"`
	Reference string     `json:"reference"`
	Plan      string     `json:"plan"`
	Status    allocation `json:"status"`
	Reason    string     `json:"reason,omitempty"`
	Cost      int64      `json:"costMicros"`
	MaxCost   int64      `json:"maxCostMicros"`
	Scenario  string     `json:"scenario,omitempty"`
	Note      string     `json:"note,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	// DueAt is when the next change is due; zero when none is.
	DueAt time.Time `json:"dueAt,omitzero"`
	// HiddenUntil keeps an order out of look-ups: an effect that appears late.
	HiddenUntil time.Time `json:"hiddenUntil,omitzero"`
	// Profile is how a released profile stands; empty while no device has it. Used is the data it used, in bytes.
	Profile string `json:"profile,omitempty"`
	Used    int64  `json:"usedBytes,omitempty"`
	// Onto is the order whose profile the plan is added to; empty for one that makes a profile.
	Onto string `json:"onto,omitempty"`
	// AtOnce says that the order was cancelled in the answer to its request.
	AtOnce bool `json:"atOnce,omitempty"`
}

// supplierEntry is one line of the journal: everything that one mutation changed, with its new values.
type supplierEntry struct {
	At    time.Time `json:"at"`
	Seed  string    `json:"seed,omitempty"`
	Float int64     `json:"floatMicros"`
	Plans []planRow `json:"plans,omitempty"`
	Esims []esimRow `json:"esims,omitempty"`
}

// supplierBooks are the supplier's own state: plans, orders and what is left of our money. What is due by
// the clock is done, and written, before a request is answered.
type supplierBooks struct {
	now func() time.Time

	mu       sync.Mutex
	journal  *journal // nil keeps the books in memory
	seed     []byte
	seq      int
	float    int64
	allocate time.Duration
	slow     time.Duration
	plans    map[string]planRow
	esims    map[string]esimRow
	byRef    map[string]string
	waiting  map[string]bool // ids of what has its end due
	executed map[string]int  // by reference: how often it made a row
}

func openSupplierBooks(
	path string, now func() time.Time, allocate, slow time.Duration, float money.USDC,
) (*supplierBooks, error) {
	b := &supplierBooks{
		now: now, allocate: allocate, slow: slow, plans: map[string]planRow{}, esims: map[string]esimRow{},
		byRef:   map[string]string{},
		waiting: map[string]bool{}, executed: map[string]int{},
	}
	for _, p := range catalogue() {
		b.plans[p.Code] = p
	}
	var err error
	if b.journal, err = openEntries(path, b.apply); err != nil {
		return nil, err
	}
	if b.seed != nil {
		return b, nil
	}
	return b, b.write(supplierEntry{At: b.clock(), Seed: rand.Text(), Float: int64(float)})
}

func (b *supplierBooks) clock() time.Time { return b.now().UTC().Round(0) }

func (b *supplierBooks) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal.close()
}

// write puts an entry into the journal and then, when the disk has it, into memory.
func (b *supplierBooks) write(e supplierEntry) error {
	if err := b.journal.append(e); err != nil {
		return err
	}
	return b.apply(e)
}

func (b *supplierBooks) apply(e supplierEntry) error {
	if e.Seed != "" {
		b.seed = []byte(e.Seed)
	}
	if b.seed == nil {
		return errors.New("the books do not begin with their seed")
	}
	b.float = e.Float
	for _, p := range e.Plans {
		b.plans[p.Code] = p
	}
	for _, row := range e.Esims {
		if _, known := b.esims[row.ID]; !known && !row.AtOnce {
			b.executed[row.Reference]++
		}
		b.esims[row.ID], b.byRef[row.Reference] = row, row.ID
		b.seq = max(b.seq, row.Seq)
		if row.DueAt.IsZero() {
			delete(b.waiting, row.ID)
		} else {
			b.waiting[row.ID] = true
		}
	}
	return nil
}

// wanted is a request for an eSIM.
type wanted struct {
	Reference, Plan string
	MaxCost         int64
	Scenario        string
	Note            string
	// Onto is the order whose profile the plan is added to; empty for a profile of its own.
	Onto string
}

// order puts an eSIM into the books once per reference. A request that is refused leaves a cancelled row,
// so that a refusal stays one however often it is asked for again.
func (b *supplierBooks) order(w wanted, hide time.Duration) (esimRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return esimRow{}, err
	}
	if id, ok := b.byRef[w.Reference]; ok {
		known := b.esims[id]
		if (wanted{known.Reference, known.Plan, known.MaxCost, known.Scenario, known.Note, known.Onto}) != w {
			return esimRow{}, errConflict
		}
		return known, nil
	}
	p, ok := b.plans[w.Plan]
	row := esimRow{
		ID: newID("esm"), Seq: b.seq + 1, Reference: w.Reference, Plan: w.Plan, Status: allocating, Cost: p.Cost,
		MaxCost:  w.MaxCost,
		Scenario: w.Scenario, Note: w.Note, Onto: w.Onto, CreatedAt: now, HiddenUntil: hiddenUntil(now, hide),
	}
	e := supplierEntry{At: now, Float: b.float}
	switch {
	case w.Onto != "" && !b.takes(w.Onto):
		row.Status, row.Reason, row.AtOnce = cancelled, codeFinished, true
	case !ok || p.Gone || w.Onto != "" && !sameArea(p, b.plans[b.esims[w.Onto].Plan]):
		row.Status, row.Reason, row.AtOnce = cancelled, codePlanGone, true
	case p.Units == 0:
		row.Status, row.Reason, row.AtOnce = cancelled, codeOutOfStock, true
	case p.Cost > w.MaxCost:
		row.Status, row.Reason, row.AtOnce = cancelled, codePriceChanged, true
	case b.float < p.Cost:
		row.Status, row.Reason, row.AtOnce = cancelled, codeFloatLow, true
	default:
		e.Float -= p.Cost
		if p.Units > 0 {
			p.Units--
			e.Plans = []planRow{p}
		}
		row.DueAt = b.due(now, row.Scenario)
	}
	e.Esims = []esimRow{row}
	return row, b.write(e)
}

// due is when an order that begins at a time is decided; zero for never.
func (b *supplierBooks) due(at time.Time, scenario string) time.Time {
	switch f := fateOfCard(scenario); {
	case f.stuck:
		return time.Time{}
	case f.slow:
		return at.Add(b.slow)
	}
	return at.Add(b.allocate)
}

// advance decides everything that the clock has made due.
func (b *supplierBooks) advance(now time.Time) error {
	return b.decide(func(row esimRow) bool { return !row.DueAt.After(now) })
}

// decide brings waiting orders to their end.
func (b *supplierBooks) decide(ripe func(esimRow) bool) error {
	e := supplierEntry{At: b.clock(), Float: b.float}
	for id := range b.waiting {
		row := b.esims[id]
		if !ripe(row) {
			continue
		}
		row.DueAt, row.Status = time.Time{}, released
		if fateOfCard(row.Scenario).declined != "" {
			row.Status, row.Reason = cancelled, codeOutOfStock
			e.Float += row.Cost
		}
		if onto := b.esims[row.Onto]; row.Status == released && onto.Profile == profileDepleted {
			onto.Profile = profileEnabled
			e.Esims = append(e.Esims, onto)
		}
		e.Esims = append(e.Esims, row)
	}
	if len(e.Esims) == 0 {
		return nil
	}
	return b.write(e)
}

func (b *supplierBooks) rows() []esimRow {
	return slices.SortedFunc(maps.Values(b.esims), func(a, c esimRow) int { return cmp.Compare(a.Seq, c.Seq) })
}

// find is the look-up by reference: none or one.
func (b *supplierBooks) find(reference string) ([]esimRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, err
	}
	row, ok := b.esims[b.byRef[reference]]
	if !ok || now.Before(row.HiddenUntil) {
		return nil, nil
	}
	return []esimRow{row}, nil
}

// since are the orders after one that look-ups would find.
func (b *supplierBooks) since(after int) ([]esimRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(b.rows(), func(row esimRow) bool {
		return row.Seq <= after || now.Before(row.HiddenUntil)
	}), nil
}

// stock is a plan that is sold, and what is left of our money.
func (b *supplierBooks) stock(code string) (planRow, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.plans[code]
	if !ok || p.Gone {
		return planRow{}, 0, &problem{http.StatusNotFound, codePlanGone, "there is no such plan"}
	}
	return p, b.float, nil
}

// listed are the plans that are sold.
func (b *supplierBooks) listed() []planRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []planRow
	for _, p := range b.plans {
		if !p.Gone {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, c planRow) int { return strings.Compare(a.Code, c.Code) })
	return all
}

const smdpHost = "smdp.sandbox-esim.example"

// iccid is a profile's number: 19 digits with their check digit, the same every time, and not to be
// guessed without the seed of the books.
func (b *supplierBooks) iccid(row esimRow) string {
	body := "891039" + seeded(b.seed, "iccid "+row.ID, 12)
	return body + luhnDigit(body)
}

// matchingID is the code that fetches a profile: 20 digits in four groups.
func (b *supplierBooks) matchingID(row esimRow) string {
	d := seeded(b.seed, "matching "+row.ID, 20)
	return "R" + d[:5] + "-" + d[5:10] + "-" + d[10:15] + "-" + d[15:]
}
