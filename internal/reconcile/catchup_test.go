package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// past is a chain and a database for a catch-up.
type past struct {
	safe, head uint64
	transfers  []Transfer
	payouts    []Payout
	chainDown  bool
	// alone is the block from which on one node alone of several shows what there is.
	alone uint64
	// large is a block that is too large to be shown whole, and refusals is how many questions for transfers are not
	// answered before others are.
	large    uint64
	refusals int
	leftOut  map[uint64]bool

	scan     Scan
	arrived  map[Place]bool
	refunds  []x402.Hash
	byHand   []x402.Hash
	claimed  []x402.Authorization
	back     []RefundedTransfer
	sentBack []SentBack
	lost     bool
	forgets  int
	keptHead uint64
	pending  []int
}

func (p *past) Safe(context.Context) (uint64, error) { return p.safe, nil }
func (p *past) Head(context.Context) (uint64, error) { return p.head, nil }

func (p *past) Transfers(_ context.Context, _ x402.Address, from, to uint64) (found []Transfer, err error) {
	if p.refusals > 0 {
		p.refusals--
		return nil, errors.New("busy")
	}
	if p.alone != 0 && to >= p.alone {
		return nil, fmt.Errorf("read logs: %w", ErrUnwitnessed)
	}
	if p.chainDown || p.large >= from && p.large <= to && p.large != 0 {
		return nil, errors.New("down")
	}
	for _, t := range p.transfers {
		if t.Block >= from && t.Block <= to {
			found = append(found, t)
		}
	}
	return found, nil
}

func (p *past) TransfersFrom(_ context.Context, sender, _ x402.Address, from, to uint64) (found []Transfer, err error) {
	for _, t := range p.transfers {
		if t.From == sender && t.Block >= from && t.Block <= to {
			found = append(found, t)
		}
	}
	return found, nil
}

func (p *past) Payouts(_ context.Context, sender x402.Address, from, to uint64) (found []Payout, err error) {
	for _, o := range p.payouts {
		if o.From == sender && o.Block >= from && o.Block <= to {
			found = append(found, o)
		}
	}
	return found, nil
}

func (p *past) Scanned(context.Context) (Scan, error) { return p.scan, nil }

func (p *past) Arrive(_ context.Context, first, next uint64, found []Transfer) error {
	p.scan = Scan{First: first, Next: max(next, p.scan.Next), Begun: true}
	for _, t := range found {
		p.arrived[t.Place()] = true
	}
	return nil
}

func (p *past) Blocks(context.Context, int) ([]uint64, error) {
	return slices.Sorted(maps.Keys(p.leftOut)), nil
}

func (p *past) LeaveOut(_ context.Context, block uint64, _ string) error {
	p.leftOut[block] = true
	return nil
}

func (p *past) Caught(_ context.Context, block uint64) error {
	delete(p.leftOut, block)
	return nil
}

func (p *past) Block(_ context.Context, number uint64) (x402.Hash, time.Time, error) {
	return x402.Hash{31: byte(number)}, time.Unix(int64(number), 0), nil
}

// early keeps what p.arrived does, under the place.
type early struct{ *past }

func (e early) Arrive(_ context.Context, a payment.Arrived) error {
	e.arrived[Place{a.Receipt.Transaction, a.Receipt.LogIndex}] = true
	return nil
}

func (p *past) Begin(context.Context) (ProcessWatermark, error) {
	return ProcessWatermark{ID: uuid.New()}, nil
}
func (p *past) Revoke() { p.forgets++ }

func (p *past) Keep(_ context.Context, m ProcessWatermark, head uint64) (ProcessWatermark, error) {
	if p.lost {
		p.lost = false
		return m, ErrHistoryLost
	}
	p.keptHead = head
	return ProcessWatermark{m.ID, m.Beat + 1}, nil
}

func (p *past) Refunds(context.Context, []x402.Hash) ([]x402.Hash, error)   { return p.refunds, nil }
func (p *past) Concluded(context.Context, []x402.Hash) ([]x402.Hash, error) { return p.byHand, nil }
func (p *past) Claimed(context.Context, []x402.Address) ([]x402.Authorization, error) {
	return p.claimed, nil
}
func (p *past) ResolveRefunded(_ context.Context, back []RefundedTransfer) error {
	p.back = append(p.back, back...)
	for _, b := range back {
		delete(p.arrived, b.Arrived.Place())
		p.sentBack = append(p.sentBack, SentBack{To: b.Arrived.From, Value: b.Arrived.Value, In: b.Back.Transaction})
	}
	return nil
}
func (p *past) SentBack(context.Context, []x402.Address) ([]SentBack, error) { return p.sentBack, nil }

func (p *past) Unclaimed(_ context.Context, senders []x402.Address) (open []Transfer, err error) {
	for _, t := range p.transfers {
		for _, s := range senders {
			if t.From == s && p.arrived[t.Place()] {
				open = append(open, t)
			}
		}
	}
	return open, nil
}

var (
	ours     = x402.Address{1}
	treasury = x402.Address{2}
	ada, eve = x402.Address{10}, x402.Address{11}
)

func moved(n byte, block uint64, from x402.Address, value money.USDC) Transfer {
	return Transfer{Transaction: x402.Hash{n}, Block: block, From: from, Value: value, Nonce: x402.Hash{n, n}}
}

func (p *past) catchUp(t *testing.T) *CatchUp {
	t.Helper()
	if p.arrived == nil {
		p.arrived, p.leftOut = map[Place]bool{}, map[uint64]bool{}
	}
	return NewCatchUp(CatchUpConfig{
		Reader: NewScanner(ScannerConfig{Chain: p, Arrivals: p, Unread: p, PayTo: ours}), Chain: p, Head: p, Arrivals: p,
		Unread: p, Early: early{p}, Watermarks: p, Sent: p, PayTo: ours, Senders: []x402.Address{ours, treasury},
		Pending: func(context.Context) (func(context.Context) (bool, error), error) {
			return func(context.Context) (bool, error) {
				if len(p.pending) == 0 {
					return true, nil
				}
				p.pending = p.pending[1:]
				return false, nil
			}, nil
		},
		Validity: time.Hour, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
}

func TestCatchUpReadsToTheHeadBeforeItIsReady(t *testing.T) {
	p := &past{
		safe: 900, head: 905, scan: Scan{First: 10, Next: 400, Begun: true}, chainDown: true, pending: []int{2, 1},
		transfers: []Transfer{moved(1, 350, ada, 5), moved(2, 890, ada, 5), moved(3, 905, ada, 5), moved(4, 906, ada, 5),
			moved(5, 907, eve, 5)},
	}
	c := p.catchUp(t)
	if err := c.step(t.Context()); err == nil || c.Ready(t.Context()) == nil || c.Read(t.Context(), ada) == nil {
		t.Fatalf("ready although the chain could not be read: %v", err)
	}
	p.chainDown = false
	if err := c.step(t.Context()); err != nil || c.Ready(t.Context()) != nil {
		t.Fatalf("not ready: %v", err)
	}
	want := map[Place]bool{p.transfers[0].Place(): true, p.transfers[1].Place(): true, p.transfers[2].Place(): true}
	if diff := cmp.Diff(want, p.arrived); diff != "" || p.scan.Next != 901 || p.keptHead != 905 || len(p.pending) != 0 {
		t.Errorf("arrived (-want +got):\n%s\nnext %d, head %d, pending %v", diff, p.scan.Next, p.keptHead, p.pending)
	}
	// What a payer's lost authorization moves later is read when the payer buys again.
	p.head = 910
	if err := c.Read(t.Context(), ada); err != nil || !p.arrived[p.transfers[3].Place()] ||
		p.arrived[p.transfers[4].Place()] {
		t.Errorf("read for a payer: %v, %v", err, p.arrived)
	}
}

// TestCatchUpWaitsForASecondNode: one node alone would have to be believed that nothing arrived in some blocks, safe or
// not. None of them is left out, and readiness says whose fault it is.
func TestCatchUpWaitsForASecondNode(t *testing.T) {
	for name, from := range map[string]uint64{"safe blocks": 600, "blocks that are not safe": 903} {
		t.Run(name, func(t *testing.T) {
			p := &past{
				safe: 900, head: 905, scan: Scan{First: 10, Next: 400, Begun: true}, alone: from,
				transfers: []Transfer{moved(1, 610, ada, 5), moved(2, 904, ada, 5)},
			}
			c := p.catchUp(t)
			c.Reader = NewScanner(ScannerConfig{Chain: p, Arrivals: p, Unread: unread{t}, PayTo: ours})
			err := c.step(t.Context())
			if ready := c.Ready(t.Context()); !errors.Is(err, ErrUnwitnessed) || fault.Of(ready) != fault.DependencyDown {
				t.Fatalf("read: %v, ready: %v", err, ready)
			}
			if p.scan.Next > from {
				t.Errorf("read up to block %d, and one node alone shows block %d", p.scan.Next, from)
			}
			p.alone = 0
			if err := c.step(t.Context()); err != nil || c.Ready(t.Context()) != nil || len(p.arrived) != 2 {
				t.Errorf("not ready: %v, %v", err, p.arrived)
			}
		})
	}
}

// unread has no block to be left out.
type unread struct{ *testing.T }

func (unread) Blocks(context.Context, int) ([]uint64, error) { return nil, nil }
func (unread) Caught(context.Context, uint64) error          { return nil }
func (u unread) LeaveOut(_ context.Context, block uint64, why string) error {
	u.Errorf("block %d is left out: %s", block, why)
	return nil
}

func TestCatchUpBeginsAgainWhenItsMarkIsLost(t *testing.T) {
	p := &past{safe: 900, head: 905, scan: Scan{First: 10, Next: 400, Begun: true}}
	c := p.catchUp(t)
	if err := c.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.lost, p.chainDown = true, true
	if err := c.step(t.Context()); err == nil || c.Ready(t.Context()) == nil {
		t.Fatalf("ready in another database: %v", err)
	}
	p.chainDown = false
	if err := c.step(t.Context()); err != nil || c.Ready(t.Context()) != nil {
		t.Fatalf("not ready again: %v", err)
	}
}

// TestWhatWentBackPaysForNothing: the refund of an order that is lost leaves a transfer that must not be used.
func TestWhatWentBackPaysForNothing(t *testing.T) {
	payout := func(n byte, block uint64, from, to x402.Address, value money.USDC) Payout {
		return Payout{moved(n, block, from, value), to}
	}
	in := []Transfer{moved(1, 410, ada, 25), moved(2, 420, ada, 25), moved(3, 430, eve, 25), moved(4, 440, eve, 30),
		moved(5, 470, ada, 25)}
	concluded := payout(11, 465, treasury, ada, 25)
	concluded.Nonce = x402.Hash{}
	p := &past{
		safe: 900, head: 905, scan: Scan{First: 10, Next: 400, Begun: true}, transfers: in, refunds: []x402.Hash{{8, 8}},
		byHand: []x402.Hash{concluded.Transaction},
		payouts: []Payout{
			payout(6, 450, treasury, ada, 25), // the refund of a lost order
			payout(7, 451, ours, eve, 30),     // by hand, from the payee
			payout(8, 452, treasury, eve, 25), // a refund that our books have
			payout(9, 90, treasury, ada, 25),  // looked at long ago
			payout(10, 460, treasury, ada, 7), // of another amount
			concluded,                         // what was left on a closed card, by hand
		},
	}
	if err := p.catchUp(t).step(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []RefundedTransfer{{in[3], p.payouts[1].Transfer}, {in[0], p.payouts[0].Transfer}}
	if diff := cmp.Diff(want, p.back); diff != "" {
		t.Errorf("sent back (-want +got):\n%s", diff)
	}
}

// TestRefundIsOfThePaymentThatItsNonceNames: of two payments of one wallet and amount the later one went back, all of
// it or what goods that were given back were worth. A refund of a payment that an order has is that order's to find.
func TestRefundIsOfThePaymentThatItsNonceNames(t *testing.T) {
	first, second := moved(1, 410, ada, 25), moved(2, 420, ada, 25)
	refundOf := func(of Transfer) Payout {
		p := Payout{moved(6, 450, treasury, 25), ada}
		p.Nonce = payment.RefundNonce(x402.Authorization{From: of.From, Nonce: of.Nonce})
		return p
	}
	third := moved(3, 430, ada, 25)
	partOf := func(of Transfer) Payout {
		p := refundOf(of)
		p.Value = 19
		return p
	}
	moreThan := refundOf(second)
	moreThan.Value = 31 // a card's, with what was loaded on it later
	for name, s := range map[string]struct {
		back Payout
		want []RefundedTransfer
	}{
		"the second":            {refundOf(second), []RefundedTransfer{{second, refundOf(second).Transfer}}},
		"a part of the second":  {partOf(second), []RefundedTransfer{{second, partOf(second).Transfer}}},
		"more than the second":  {moreThan, []RefundedTransfer{{second, moreThan.Transfer}}},
		"one that an order has": {refundOf(third), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &past{
				safe: 500, head: 500, scan: Scan{First: 10, Next: 400, Begun: true}, payouts: []Payout{s.back},
				transfers: []Transfer{first, second}, claimed: []x402.Authorization{{From: ada, Nonce: third.Nonce}},
			}
			if err := p.catchUp(t).step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, p.back); diff != "" {
				t.Errorf("sent back (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnePayoutSendsOneTransferBack: a payout explains one transfer of its receiver, however often it is looked at, and
// none where an operator has resolved one by it.
func TestOnePayoutSendsOneTransferBack(t *testing.T) {
	const asked = 500
	out, later := Payout{moved(6, 450, treasury, 25), ada}, Payout{moved(7, 480, treasury, 25), ada}
	after, before := time.Unix(460, 0), time.Unix(450, 0).Add(-2*payment.ClockSkew)
	for name, s := range map[string]struct {
		resolved []SentBack
		payouts  []Payout
		want     []Transfer
	}{
		"looked at again":                {nil, []Payout{out}, []Transfer{out.Transfer}},
		"an operator resolved one by it": {[]SentBack{{To: ada, Value: 25, At: after}}, []Payout{out}, nil},
		"an operator resolved one by another one": {
			[]SentBack{{To: ada, Value: 25, At: before}, {To: eve, Value: 25, At: after}, {To: ada, Value: 24, At: after}},
			[]Payout{out}, []Transfer{out.Transfer},
		},
		"the later one has resolved one": {
			[]SentBack{{To: ada, Value: 25, In: later.Transaction}}, []Payout{out, later}, []Transfer{out.Transfer},
		},
		"it has resolved one of another amount": {[]SentBack{{To: ada, Value: 31, In: out.Transaction}}, []Payout{out}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &past{
				safe: asked, head: asked, scan: Scan{First: 10, Next: 400, Begun: true}, payouts: s.payouts,
				transfers: []Transfer{moved(1, 410, ada, 25), moved(2, 420, ada, 25)}, sentBack: s.resolved,
			}
			for range 2 {
				if err := p.catchUp(t).step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var used []Transfer
			for _, b := range p.back {
				used = append(used, b.Back)
			}
			if diff := cmp.Diff(s.want, used); diff != "" {
				t.Errorf("payouts that resolve a transfer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockThatNoNodeShowsKeepsNobodyWaiting: what is not safe yet and too large to be shown is read for each payer.
func TestBlockThatNoNodeShowsKeepsNobodyWaiting(t *testing.T) {
	p := &past{
		safe: 900, head: 905, scan: Scan{First: 10, Next: 901, Begun: true}, large: 903,
		transfers: []Transfer{moved(1, 903, ada, 5), moved(2, 904, eve, 5)},
	}
	c := p.catchUp(t)
	if err := c.step(t.Context()); err != nil || c.Ready(t.Context()) != nil || len(p.arrived) != 0 {
		t.Fatalf("not ready: %v, %v", err, p.arrived)
	}
	if err := c.Read(t.Context(), eve); err != nil || !p.arrived[p.transfers[1].Place()] {
		t.Errorf("read for a payer: %v, %v", err, p.arrived)
	}
}

// TestSafeBlockThatNoNodeShowsIsReadForEachPayer: it may hold the payment of an order that is lost, whenever that was.
func TestSafeBlockThatNoNodeShowsIsReadForEachPayer(t *testing.T) {
	now := time.Now()
	p := &past{
		safe: 900, head: 905, scan: Scan{First: 10, Next: 800, Begun: true}, large: 850,
		transfers: []Transfer{moved(1, 850, ada, 5), moved(2, 850, eve, 5)},
	}
	c := p.catchUp(t)
	c.Now = func() time.Time { return now }
	if err := c.step(t.Context()); err != nil || c.Ready(t.Context()) != nil || len(p.arrived) != 0 {
		t.Fatalf("not ready: %v, %v", err, p.arrived)
	}
	now = now.Add(2 * c.Validity)
	if err := c.Read(t.Context(), eve); err != nil || !p.arrived[p.transfers[1].Place()] || len(p.arrived) != 1 {
		t.Errorf("read for a payer: %v, %v", err, p.arrived)
	}
	// Once a node shows it, nobody asks for it any more.
	p.large = 0
	if err := c.Reader.Scan(t.Context()); err != nil || len(p.arrived) != 2 {
		t.Errorf("read again: %v, %v", err, p.arrived)
	}
	if err := c.step(t.Context()); err != nil || len(c.state.Load().gaps) != 0 {
		t.Errorf("still left out: %v, %v", err, c.state.Load().gaps)
	}
}

// TestNodesThatRefuseForAMomentHideNothing: however many questions for transfers are refused before the others are
// answered, what a payer has sent is known before it can be claimed again.
func TestNodesThatRefuseForAMomentHideNothing(t *testing.T) {
	for refusals := range 60 {
		p := &past{
			safe: 900, head: 905, scan: Scan{First: 10, Next: 900, Begun: true}, refusals: refusals,
			transfers: []Transfer{moved(1, 600, ada, 5), moved(2, 601, ada, 5), moved(3, 905, ada, 5)},
		}
		c := p.catchUp(t)
		if err := c.step(t.Context()); err != nil {
			continue // sales are closed, and it is tried again
		}
		if err := c.Read(t.Context(), ada); err != nil || len(p.arrived) != len(p.transfers) {
			t.Errorf("after %d refusals: %v, %v, left out: %v", refusals, err, p.arrived, p.leftOut)
		}
	}
}

// TestRefundOfAPaymentThatIsLeftOutIsFound: a payment in a block that no node shows may have gone back, too.
func TestRefundOfAPaymentThatIsLeftOutIsFound(t *testing.T) {
	for name, block := range map[string]uint64{"safe": 850, "not safe": 903} {
		t.Run(name, func(t *testing.T) {
			in := moved(1, block, ada, 25)
			back := Payout{moved(6, 904, treasury, 25), ada}
			p := &past{
				safe: 900, head: 905, scan: Scan{First: 10, Next: 800, Begun: true}, large: block,
				transfers: []Transfer{in}, payouts: []Payout{back},
			}
			if err := p.catchUp(t).step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]RefundedTransfer{{in, back.Transfer}}, p.back); diff != "" {
				t.Errorf("sent back (-want +got):\n%s", diff)
			}
		})
	}
}
