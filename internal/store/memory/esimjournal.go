package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// SupplierJournal keeps what was sent to one supplier.
type SupplierJournal struct {
	s        *Store
	provider string
}

// SupplierJournal is the journal of a supplier, by its name.
func (s *Store) SupplierJournal(provider string) SupplierJournal { return SupplierJournal{s, provider} }

// sent is the key of what was sent.
type sent struct {
	provider string
	ref      fulfilment.Ref
}

// Begin implements esim.Journal.
func (j SupplierJournal) Begin(ctx context.Context, s esim.Sent) error {
	return j.s.do(ctx, "journal.begin", func(t *tx) error {
		s.Account, s.At = "", stored(s.At)
		if _, err := add(t, &t.sent, "", sent{j.provider, s.Ref}, sentRow{s, j.provider}); err != nil {
			return esim.ErrSent
		}
		return nil
	})
}

type sentRow struct {
	esim.Sent
	provider string
}

// Name implements esim.Journal.
func (j SupplierJournal) Name(ctx context.Context, ref fulfilment.Ref, account string) error {
	return j.s.do(ctx, "journal.name", func(t *tx) error {
		row := t.sent.get(sent{j.provider, ref})
		switch {
		case row == nil:
			return fmt.Errorf("name %s: %w", ref, fulfilment.ErrNoRef)
		case row.Account != "" && row.Account != account, t.sent.first(func(o *sentRow) bool {
			return o.provider == j.provider && o.Ref != ref && o.Account == account && account != ""
		}) != nil:
			return esim.ErrTaken
		}
		edit(t, row).Account = account
		return nil
	})
}

// Sent implements esim.Journal.
func (j SupplierJournal) Sent(ctx context.Context, ref fulfilment.Ref) (esim.Sent, error) {
	all, err := j.read(ctx, "journal.sent", func(s *sentRow) bool { return s.Ref == ref })
	if err == nil && len(all) == 0 {
		return esim.Sent{}, fulfilment.ErrNoRef
	}
	if err != nil {
		return esim.Sent{}, err
	}
	return all[0], nil
}

// SentBetween implements esim.Journal.
func (j SupplierJournal) SentBetween(ctx context.Context, code string, from, to time.Time) ([]esim.Sent, error) {
	return j.read(ctx, "journal.sent_between", func(s *sentRow) bool {
		return s.Code == code && !s.At.Before(from) && !s.At.After(to)
	})
}

// Named implements esim.Journal.
func (j SupplierJournal) Named(ctx context.Context, accounts []string) (map[string]esim.Sent, error) {
	named, err := j.read(ctx, "journal.named", func(s *sentRow) bool {
		return s.Account != "" && slices.Contains(accounts, s.Account)
	})
	all := map[string]esim.Sent{}
	for _, s := range named {
		all[s.Account] = s
	}
	return all, err
}

func (j SupplierJournal) read(ctx context.Context, op string, wanted func(*sentRow) bool) (all []esim.Sent, err error) {
	err = j.s.do(ctx, op, func(t *tx) error {
		for _, s := range t.sent.all(func(s *sentRow) bool { return s.provider == j.provider && wanted(s) }) {
			all = append(all, s.Sent)
		}
		slices.SortStableFunc(all, func(a, b esim.Sent) int { return a.At.Compare(b.At) })
		return nil
	})
	return all, err
}
