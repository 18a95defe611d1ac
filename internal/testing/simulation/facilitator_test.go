package simulation_test

import (
	"bytes"
	"context"
	"hash/fnv"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// facilitator settles for all processes, with an account and a node of its own. As long as things go wrong it does
// something else at times.
type facilitator struct {
	seed   uint64
	server *facilitatortest.Server
	// settles is how it settles.
	settles *settles
	// well is closed when nothing goes wrong any more.
	well <-chan struct{}

	mu    sync.Mutex
	calls uint64
}

const facilitators = "https://facilitator.sim"

// settlers are those of a world, as an operator names them. Most have their own relayer alone.
var settlers = []string{
	"relayer", "relayer", "relayer", "relayer", "relayer", "facilitator,relayer", "relayer,facilitator", "facilitator",
}

// misdeeds are what it does instead of what it should. With those of the first line the money moves.
var misdeeds = []facilitatortest.Fault{
	facilitatortest.Pending, facilitatortest.Pending500, facilitatortest.Deny, facilitatortest.Garble,
	facilitatortest.Fail, facilitatortest.Refuse, facilitatortest.Lie, facilitatortest.Boast, facilitatortest.Mistake,
	facilitatortest.Stall, facilitatortest.Limit,
}

func (w *world) newFacilitator(now func() time.Time) *facilitator {
	settles := &settles{chain: w.chain, account: common.Address{19: 0xfa}, sent: map[x402.Hash]common.Hash{}}
	return &facilitator{
		seed: w.plan.seed, well: w.well,
		server:  facilitatortest.New(facilitatortest.Config{Chain: settles, Settler: settles, Now: now}),
		settles: settles,
	}
}

// hasSent reports whether a transaction is one of the facilitator's.
func (f *facilitator) hasSent(transaction common.Hash) bool {
	f.settles.mu.Lock()
	defer f.settles.mu.Unlock()
	for _, sent := range f.settles.sent {
		if sent == transaction {
			return true
		}
	}
	return false
}

// ServeHTTP implements http.Handler.
func (f *facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.URL.Path == "/settle" {
		f.server.Next(f.fault(body))
	}
	f.server.ServeHTTP(w, r)
}

// fault is what it does with a call, by the payment and by how often it was asked.
func (f *facilitator) fault(body []byte) facilitatortest.Fault {
	select {
	case <-f.well:
		return facilitatortest.Honest
	default:
	}
	f.mu.Lock()
	f.calls++
	nth := f.calls
	f.mu.Unlock()
	sum := fnv.New64a()
	sum.Write(body)
	rng := diceOf(f.seed^sum.Sum64(), nth)
	if rng.IntN(3) == 0 {
		return misdeeds[rng.IntN(len(misdeeds))]
	}
	return facilitatortest.Honest
}

// settles is how the facilitator settles: it sends each authorization once, again when a reorganisation has lost it,
// and knows what became of it.
type settles struct {
	chain   *node.Chain
	account common.Address

	mu   sync.Mutex
	sent map[x402.Hash]common.Hash
}

// Simulate implements payment.Chain. The chain says what would not move when it is asked to.
func (*settles) Simulate(context.Context, x402.Authorization, x402.Signature) error { return nil }

// Funds implements payment.Chain.
func (s *settles) Funds(_ context.Context, payer x402.Address) (money.USDC, error) {
	return money.USDC(s.chain.Balance(common.Address(payer))), nil
}

// Submit implements payment.Settler.
func (s *settles) Submit(_ context.Context, p payment.Payment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent, known := s.sent[p.Authorization.Nonce]; !known || !s.chain.Has(sent) {
		s.sent[p.Authorization.Nonce] = s.chain.Execute(s.account, common.Address(domain().Contract),
			x402.TransferCall(p.Authorization, p.Signature))
	}
	return nil
}

// Verdict implements payment.Chain.
func (s *settles) Verdict(_ context.Context, a x402.Authorization, _ time.Time) (payment.Verdict, error) {
	s.mu.Lock()
	sent := s.sent[a.Nonce]
	s.mu.Unlock()
	switch r := s.chain.Receipt(sent); {
	case r == nil:
		return payment.Verdict{}, nil
	case r.Status != types.ReceiptStatusSuccessful:
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}, nil
	}
	return payment.Verdict{State: payment.Settled, Receipt: &payment.Receipt{Transaction: x402.Hash(sent)}}, nil
}
