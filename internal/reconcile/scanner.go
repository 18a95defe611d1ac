package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// ScannerConfig is what a Scanner is made of.
type ScannerConfig struct {
	Chain    Chain
	Arrivals Arrivals
	// Unread stores the blocks that no node returns. Nil makes such a block an error.
	Unread Unread
	// PayTo is the payee, whose transfers are read.
	PayTo x402.Address
}

// Unread stores the blocks whose transfers no node returns, because there are too many.
type Unread interface {
	// Blocks are some of the blocks left out, longest untried first.
	Blocks(ctx context.Context, limit int) ([]uint64, error)
	// LeaveOut records that a block is left out. It is idempotent.
	LeaveOut(ctx context.Context, block uint64, why string) error
	// Caught records that a block has been read after all.
	Caught(ctx context.Context, block uint64) error
}

// Scanner reads the transfers to the payee from the chain and stores them as arrivals. Several may run concurrently.
type Scanner struct{ ScannerConfig }

// NewScanner makes a Scanner.
func NewScanner(c ScannerConfig) *Scanner { return &Scanner{c} }

const (
	// scanStep is how many blocks are read before what was found is stored.
	scanStep = 2_000
	// overlap is how many blocks are read again: a node that lags behind the safe block may have returned nothing.
	overlap = 300
	// maxLeftOut is how many blocks one scan may leave out before it fails, because the cause is then the nodes and not
	// the blocks.
	maxLeftOut = 16
	// maxRetried is how many of the blocks left out before are tried again by one scan.
	maxRetried = 8
)

// Scan reads the blocks that have become safe since the last time.
func (s *Scanner) Scan(ctx context.Context) error {
	safe, err := s.Chain.Safe(ctx)
	if err != nil {
		return fmt.Errorf("find the safe block: %w", sourceDown(err, "chain"))
	}
	return s.ScanTo(ctx, safe)
}

// ScanTo reads the blocks up to and including one. What it stores is never removed, so that block has to be final.
func (s *Scanner) ScanTo(ctx context.Context, last uint64) error {
	at, err := s.Arrivals.Scanned(ctx)
	if err != nil {
		return fmt.Errorf("find the last block read: %w", err)
	}
	if !at.Begun {
		// Transfers before the first purchase are not compared.
		at.First = last
		if at.Oldest > 0 {
			at.First = min(at.Oldest, last)
		}
		at.Next = at.First
	}
	run := scan{Scanner: s, first: at.First, step: scanStep}
	if err := run.retry(ctx); err != nil {
		return err
	}
	for from := max(at.First, at.Next-min(at.Next, overlap)); from <= last; {
		read, err := run.some(ctx, from, last)
		if err != nil {
			return err
		}
		from += read
	}
	if run.leftOut > 0 {
		return run.retry(ctx) // it may have been a moment of the nodes and not the block
	}
	return nil
}

// scan is one run of a Scanner.
type scan struct {
	*Scanner
	first uint64
	// step is how many blocks are read at once. It shrinks where the nodes refuse, and grows again.
	step    uint64
	leftOut int
}

// some reads and stores blocks, as many at once as the nodes return, and returns how many.
func (s *scan) some(ctx context.Context, from, last uint64) (read uint64, err error) {
	for {
		to := min(from+s.step-1, last)
		found, err := s.Chain.Transfers(ctx, s.PayTo, from, to)
		if err == nil {
			if err := s.Arrivals.Arrive(ctx, s.first, to+1, found); err != nil {
				return 0, fmt.Errorf("store the transfers of blocks %d to %d: %w", from, to, err)
			}
			s.step = min(s.step*2, scanStep)
			return to - from + 1, nil
		}
		err = fmt.Errorf("read the transfers of blocks %d to %d: %w", from, to, sourceDown(err, "chain"))
		// A smaller range does not help when the nodes are down.
		if _, gone := s.Chain.Safe(ctx); gone != nil || ctx.Err() != nil {
			return 0, errors.Join(err, gone)
		}
		if to > from {
			s.step = (to - from + 1) / 2
			continue
		}
		if to > from || errors.Is(err, ErrUnwitnessed) || s.Unread == nil || s.leftOut == maxLeftOut {
			return 0, err
		}
		return 1, s.leave(ctx, from, err)
	}
}

// leave skips a block that no node returns, so that nobody can stop comparisons by filling a block. Later scans try it
// again.
func (s *scan) leave(ctx context.Context, block uint64, why error) error {
	s.leftOut++
	if err := s.Unread.LeaveOut(ctx, block, why.Error()); err != nil {
		return fmt.Errorf("leave out block %d: %w", block, err)
	}
	if err := s.Arrivals.Arrive(ctx, s.first, block+1, nil); err != nil {
		return fmt.Errorf("skip block %d: %w", block, err)
	}
	return nil
}

// retry reads some of the blocks that earlier scans left out.
func (s *scan) retry(ctx context.Context) error {
	if s.Unread == nil {
		return nil
	}
	blocks, err := s.Unread.Blocks(ctx, maxRetried)
	if err != nil {
		return fmt.Errorf("find the blocks left out: %w", err)
	}
	for _, block := range blocks {
		found, err := s.Chain.Transfers(ctx, s.PayTo, block, block)
		if err != nil {
			// It stays left out, behind the others.
			if err := s.Unread.LeaveOut(ctx, block, err.Error()); err != nil {
				return fmt.Errorf("leave out block %d: %w", block, err)
			}
			continue
		}
		if err := s.Arrivals.Arrive(ctx, s.first, block+1, found); err != nil {
			return fmt.Errorf("store the transfers of block %d: %w", block, err)
		}
		if err := s.Unread.Caught(ctx, block); err != nil {
			return fmt.Errorf("record that block %d is read: %w", block, err)
		}
	}
	return nil
}

// sourceDown adds a fault, which operators see, to the error of a source that cannot be read.
func sourceDown(err error, who string) error {
	return errors.Join(err, fault.Newf(fault.DependencyDown, "The %s does not answer.", who))
}
