// Package authtest is the kit of package auth: stores in memory, wallets that sign, and the rules of every store.
package authtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

var errTwice = errors.New("stored twice")

// Challenges keeps challenges in memory. The zero value is empty and ready.
type Challenges struct {
	mu   sync.Mutex
	rows map[uuid.UUID]auth.Challenge
}

var _ auth.Challenges = (*Challenges)(nil)

// Create implements auth.Challenges.
func (s *Challenges) Create(_ context.Context, c auth.Challenge, _ ...limit.Hit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.rows[c.ID]; twice {
		return errTwice
	}
	if s.rows == nil {
		s.rows = map[uuid.UUID]auth.Challenge{}
	}
	s.rows[c.ID] = copyChallenge(c)
	return nil
}

// Spend implements auth.Challenges.
func (s *Challenges) Spend(ctx context.Context, c auth.Challenge, hits ...limit.Hit) (bool, error) {
	err := s.Create(ctx, c, hits...)
	if errors.Is(err, errTwice) {
		return false, nil
	}
	return err == nil, err
}

// Find implements auth.Challenges.
func (s *Challenges) Find(_ context.Context, id uuid.UUID) (auth.Challenge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.rows[id]
	if !ok {
		return auth.Challenge{}, auth.ErrNotFound
	}
	return copyChallenge(c), nil
}

// Open implements auth.Challenges.
func (s *Challenges) Open(
	_ context.Context, wallet x402.Address, purpose auth.Purpose, source string, now time.Time,
) ([]auth.Challenge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []auth.Challenge
	for _, c := range s.rows {
		if c.Wallet == wallet && c.Purpose == purpose && c.ConsumedAt == nil && c.ExpiresAt.After(now) {
			open = append(open, copyChallenge(c))
		}
	}
	slices.SortFunc(open, func(a, b auth.Challenge) int {
		return cmp.Or(b.IssuedAt.Compare(a.IssuedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	// nth is how many newer ones each has from its source.
	seen, nth := map[string]int{}, map[uuid.UUID]int{}
	for _, c := range open {
		nth[c.ID] = seen[c.Source]
		seen[c.Source]++
	}
	var own, others []auth.Challenge
	for _, c := range open {
		if c.Source != source {
			others = append(others, c)
		} else if nth[c.ID] < auth.OpenOfSource {
			own = append(own, c)
		}
	}
	slices.SortStableFunc(others, func(a, b auth.Challenge) int { return nth[a.ID] - nth[b.ID] })
	all := append(own, others...)
	return all[:min(len(all), auth.OpenAtMost)], nil
}

// Consume implements auth.Challenges.
func (s *Challenges) Consume(_ context.Context, id uuid.UUID, now time.Time, _ ...limit.Hit) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.rows[id]
	if !ok || c.ConsumedAt != nil || !c.ExpiresAt.After(now) {
		return false, nil
	}
	c.ConsumedAt = &now
	s.rows[id] = c
	return true, nil
}

// Void implements auth.Challenges.
func (s *Challenges) Void(ctx context.Context, id uuid.UUID, now time.Time, _ ...limit.Hit) error {
	_, err := s.Consume(ctx, id, now)
	return err
}

// Put stores or replaces a challenge as it is, as in a store that was tampered with.
func (s *Challenges) Put(c auth.Challenge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[uuid.UUID]auth.Challenge{}
	}
	s.rows[c.ID] = copyChallenge(c)
}

func copyChallenge(c auth.Challenge) auth.Challenge {
	c.RecipientKey = bytes.Clone(c.RecipientKey)
	c.ConsumedAt = copyTime(c.ConsumedAt)
	return c
}

// Sessions keeps sessions in memory. The zero value is empty and ready.
type Sessions struct {
	mu   sync.Mutex
	rows []auth.Session
}

var _ auth.Sessions = (*Sessions)(nil)

// Create implements auth.Sessions.
func (s *Sessions) Create(_ context.Context, row auth.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.rows {
		if other.ID == row.ID || other.TokenHash == row.TokenHash {
			return errTwice
		}
	}
	s.rows = append(s.rows, copySession(row))
	return nil
}

// FindByHash implements auth.Sessions.
func (s *Sessions) FindByHash(_ context.Context, hash [32]byte) (auth.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.rows {
		if row.TokenHash == hash {
			return copySession(row), nil
		}
	}
	return auth.Session{}, auth.ErrNotFound
}

// Revoke implements auth.Sessions.
func (s *Sessions) Revoke(_ context.Context, id uuid.UUID, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rows {
		if s.rows[i].ID == id && s.rows[i].RevokedAt == nil {
			s.rows[i].RevokedAt = &now
		}
	}
	return nil
}

func copySession(row auth.Session) auth.Session {
	row.Scopes = slices.Clone(row.Scopes)
	row.RevokedAt = copyTime(row.RevokedAt)
	return row
}

func copyTime(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	c := *t
	return &c
}
