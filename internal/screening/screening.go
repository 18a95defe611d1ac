// Package screening says which payers are not served: those on published lists of sanctioned addresses, and those that
// a screening service names.
//
//	file or URL ─► Refresh, a job ─► store ─┬─► Known(payer)  ─► refused (audited), or not yet
//	                                        ├─► Screen(payer) ─► accepted, refused (audited), or not known
//	screening service ──► answers, kept ────┘
//
// The lists are read by one process for all, and survive a restart while their source is down. A payer is screened
// before anything of its payment is claimed: a refusal takes no money and creates no order.
//
// The service has a quota, and whoever uses it up closes the sale. So it is asked about those alone whose payment would
// move now; Known is for all others, and asks nobody outside.
package screening

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what a Screening is made of.
type Config struct {
	Store Store
	// Lists are where lists of addresses are read from; none screens by the service alone.
	Lists []Source
	// Service may be nil.
	Service Service
	// MaxAge is how long ago a list may have been read last before it counts as stale.
	MaxAge time.Duration
	// Strict refuses every payer while a list is stale or the service does not answer. Otherwise they are accepted, and
	// that is logged.
	Strict bool
	Log    *slog.Logger
	Now    func() time.Time
}

// Store keeps the lists, for all processes.
type Store interface {
	// ReplaceList stores what a list has now, and when it was read.
	ReplaceList(ctx context.Context, l List) error
	// LookUp tells of each list that has been read, by its name, when that was last and whether it has an address.
	LookUp(ctx context.Context, names []string, payer x402.Address) (map[string]Entry, error)
	// AuditRefusal records that a payer was refused, by whom; once a day for each payer and name is enough.
	AuditRefusal(ctx context.Context, payer x402.Address, by string) error
}

// Service screens single addresses, such as a vendor of blockchain analytics.
type Service interface {
	// Name is how the audit trail calls the service.
	Name() string
	// Sanctioned reports whether the service names an address. Any doubt about its answer is an error.
	Sanctioned(ctx context.Context, payer x402.Address) (bool, error)
}

// List is what was read from a source.
type List struct {
	Name      string
	Addresses []x402.Address
	ReadAt    time.Time
}

// Entry is how a stored list is about one address.
type Entry struct {
	ReadAt time.Time
	Listed bool
}

// Screening screens payers. A nil one accepts all.
type Screening struct {
	Config
	answers recent.Map[x402.Address, answer]
	health  health
}

// answer is what the service has said of a payer.
type answer struct {
	named bool
	at    time.Time
}

// New makes a Screening.
func New(c Config) *Screening {
	return &Screening{Config: c, answers: recent.Map[x402.Address, answer]{Most: maxAnswers}}
}

const (
	// serviceTimeout bounds a question to the service.
	serviceTimeout = 3 * time.Second
	// AnswerFor is how long an answer of the service counts, and maxAnswers how many are kept.
	AnswerFor  = 10 * time.Minute
	maxAnswers = 10_000
)

// Known fails with a fault when a payer is refused by what is known here: by a list, or by an answer that the service
// gave a moment ago. It asks nobody, so it may be called for whoever names a payer.
func (s *Screening) Known(ctx context.Context, payer x402.Address) error {
	if s == nil {
		return nil
	}
	by, unknown := s.listedBy(ctx, payer)
	if a, ok := s.answered(payer); ok && a.named && by == "" {
		by = s.Service.Name()
	}
	return s.told(ctx, payer, by, unknown)
}

// Screen fails with a fault when a payer is refused, or while it cannot be known whether it is.
func (s *Screening) Screen(ctx context.Context, payer x402.Address) error {
	if s == nil {
		return nil
	}
	by, unknown := s.listedBy(ctx, payer)
	if by == "" && s.Service != nil {
		named, err := s.ask(ctx, payer)
		if named {
			by = s.Service.Name()
		}
		unknown = errors.Join(unknown, err)
	}
	return s.told(ctx, payer, by, unknown)
}

// told is what is told of a payer whom somebody refuses, if anybody does; unknown says what could not be asked.
func (s *Screening) told(ctx context.Context, payer x402.Address, by string, unknown error) error {
	if by != "" {
		if err := s.Store.AuditRefusal(ctx, payer, by); err != nil {
			return fmt.Errorf("record that a payer is refused: %w", errors.Join(err, later()))
		}
		return fault.New(fault.PayerNotAccepted, "Payments from this wallet are not accepted. Nothing was claimed or sent.")
	}
	if unknown == nil {
		return nil
	}
	if fault.Gone(ctx) { // which must not let a payer pass
		return fmt.Errorf("screen the payer: %w", fault.Ended(ctx, errors.Join(ctx.Err(), unknown)))
	}
	if !s.Strict {
		s.Log.WarnContext(ctx, "payer not screened", slog.Any("error", unknown))
		return nil
	}
	return fmt.Errorf("screen the payer: %w", errors.Join(unknown, later()))
}

func later() *fault.Fault {
	return fault.New(fault.DependencyDown,
		"Payers cannot be screened now. Nothing was claimed; repeat the same request with the same payment.").
		Then(fault.RetrySameRequest)
}

// listedBy names the list that a payer is on, if it is on one. err says which could not be read.
func (s *Screening) listedBy(ctx context.Context, payer x402.Address) (by string, err error) {
	entries, err := s.Store.LookUp(ctx, s.names(), payer)
	for _, name := range s.names() {
		if entries[name].Listed {
			return name, nil
		}
	}
	return "", errors.Join(err, s.fresh(entries))
}

// answered is what the service said of a payer within AnswerFor.
func (s *Screening) answered(payer x402.Address) (answer, bool) {
	a, ok := s.answers.Get(payer)
	age := s.Now().Sub(a.at)
	return a, ok && age >= 0 && age < AnswerFor
}

// ask asks the service whether it names a payer, unless it has said so a moment ago.
func (s *Screening) ask(ctx context.Context, payer x402.Address) (named bool, err error) {
	if a, ok := s.answered(payer); ok {
		return a.named, nil
	}
	asking, cancel := fault.Within(ctx, serviceTimeout)
	defer cancel()
	named, err = s.Service.Sanctioned(asking, payer)
	if err != nil && fault.Gone(ctx) {
		return false, err // who asked has left, which says nothing of the service
	}
	s.health.saw(s.Now(), err)
	if err != nil {
		return false, err
	}
	s.answers.Put(payer, answer{named, s.Now()})
	return named, nil
}

// health is how the service answered of late.
type health struct {
	mu     sync.Mutex
	failed int // in a row
	at     time.Time
	last   error
}

const (
	// down is after how many failures in a row the service counts as down, and rests for how long after the last of them.
	// Then somebody asks again.
	down  = 3
	rests = 5 * time.Second
)

func (h *health) saw(at time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.failed, h.last = 0, nil
		return
	}
	h.failed, h.at, h.last = h.failed+1, at, err
}

// ready fails while the service is down.
func (h *health) ready(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := now.Sub(h.at); h.failed < down || age < 0 || age >= rests {
		return nil
	}
	return h.last
}

// fresh fails when a list has not been read, or not for too long.
func (s *Screening) fresh(entries map[string]Entry) error {
	var stale []string
	for _, name := range s.names() {
		if at := entries[name].ReadAt; s.Now().Sub(at) > s.MaxAge {
			stale = append(stale, name)
		}
	}
	if stale != nil {
		return fmt.Errorf("not read for %s: %s", s.MaxAge, strings.Join(stale, ", "))
	}
	return nil
}

func (s *Screening) names() []string {
	names := make([]string, len(s.Lists))
	for i, l := range s.Lists {
		names[i] = l.Name()
	}
	return names
}

// Ready fails while a list is stale, and while the service is down. A Screening that is not strict is always ready.
func (s *Screening) Ready(ctx context.Context) error {
	if s == nil || !s.Strict {
		return nil
	}
	err := s.health.ready(s.Now())
	if len(s.Lists) == 0 {
		return err
	}
	entries, unread := s.Store.LookUp(ctx, s.names(), x402.Address{})
	return errors.Join(err, unread, s.fresh(entries))
}

// Refresh reads all lists. One that cannot be read stays as it was stored.
func (s *Screening) Refresh(ctx context.Context) error {
	var errs error
	for _, source := range s.Lists {
		addresses, err := source.Read(ctx)
		if err == nil {
			err = s.Store.ReplaceList(ctx, List{Name: source.Name(), Addresses: addresses, ReadAt: s.Now()})
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("refresh %s: %w", source.Name(), err))
			continue
		}
		s.Log.InfoContext(ctx, "screening list read", slog.String("list", source.Name()),
			slog.Int("addresses", len(addresses)))
	}
	return errs
}
