package chain_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// callTimeout is as long as the benches' chains wait for one answer.
const callTimeout = 10 * time.Second

// hanging is a node that answers nothing while it hangs.
type hanging struct {
	url   string
	hangs atomic.Bool
	// calls are the simulations and other reads of the token that it was asked for.
	calls atomic.Int64
	let   chan struct{}
	once  sync.Once
}

func (b *bench) hanging() *hanging {
	b.Helper()
	h := &hanging{let: make(chan struct{})}
	h.url = b.lying(func(q question) string {
		if q.Method == "eth_call" {
			h.calls.Add(1)
		}
		if h.hangs.Load() {
			<-h.let
		}
		return ""
	})
	b.Cleanup(h.recover)
	return h
}

// recover lets it answer, also what it was asked before.
func (h *hanging) recover() {
	h.hangs.Store(false)
	h.once.Do(func() { close(h.let) })
}

// within reports how long something took, and fails when that is as long as a single node may take for one answer.
func (b *bench) within(what string, do func()) {
	b.Helper()
	begin := time.Now()
	do()
	took := time.Since(begin)
	b.Logf("%s: %s", what, took.Round(time.Millisecond))
	if took >= callTimeout {
		b.Errorf("%s took %s, as long as the node that hangs", what, took)
	}
}

func (b *bench) simulates(p payment.Payment) {
	b.Helper()
	if err := b.chain.Simulate(b.Context(), p.Authorization, p.Signature); err != nil {
		b.Fatalf("simulate: %v", err)
	}
}

// TestHangingNodeIsNotWaitedFor lets one node of three begin to hang. A purchase from readiness to receipt takes less
// than one call timeout, and the next ones do not call that node where one node is enough.
func TestHangingNodeIsNotWaitedFor(t *testing.T) {
	for name, place := range map[string]int{"preferred": 0, "second": 1, "last": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			h := b.hanging()
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = h.url
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			h.hangs.Store(true)
			p := b.claim(buyer(0))
			b.within("a purchase", func() {
				if err := b.chain.Ready(t.Context(), 0); err != nil {
					t.Error(err)
				}
				b.simulates(p)
				b.submit(p)
				b.submit(p) // as a job does that looks again
				b.settles(p)
			})
			next := b.claim(buyer(1))
			before := h.calls.Load()
			for range 10 {
				b.simulates(next)
			}
			if asked := h.calls.Load() - before; asked > 1 { // it is tried at most once in a while
				t.Errorf("the node that hangs was asked %d times in 10 simulations", asked)
			}
		})
	}
}

// TestResumeDoesNotWaitForSlowNode lets one node of three begin to hang while a transaction is not included.
func TestResumeDoesNotWaitForSlowNode(t *testing.T) {
	for name, place := range map[string]int{"preferred": 0, "second": 1, "last": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			h := b.hanging()
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = h.url
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			p := b.claim(buyer(0))
			b.control("evm_setAutomine", false)
			b.submit(p)
			h.hangs.Store(true)
			b.within("another look", func() { b.submit(p) })
		})
	}
}

// TestSlowNodeIsPreferredAgainAfterRecovery prefers a node again once it answers as quickly as the others.
func TestSlowNodeIsPreferredAgainAfterRecovery(t *testing.T) {
	b := newBench(t)
	h := b.hanging()
	b.chain = b.over(h.url, b.url, b.url)
	h.hangs.Store(true)
	p := b.claim(buyer(0))
	b.within("a look", func() { b.simulates(p) })
	h.recover()
	before := h.calls.Load()
	b.eventually("the node is asked again", func() bool {
		b.ahead.Add(1)
		p = b.claim(buyer(0))
		b.simulates(p)
		return h.calls.Load() > before+1
	})
}

// TestSlowDissentKeepsPaymentFromBeingVoid lets two nodes invent a cancellation, while the third takes long to show
// the nonce unused.
func TestSlowDissentKeepsPaymentFromBeingVoid(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	p := b.claim(buyer(0))
	liar := func() string { return b.lying(b.cancelling(p, "safe")) }
	slow := b.lying(func(question) string { time.Sleep(600 * time.Millisecond); return "" })
	c := b.over(liar(), liar(), slow)
	for range 3 {
		if got := state(t, c, p); got == payment.Void {
			t.Fatal("the payment is void, and the third node was not heard")
		}
	}
}

// frozen shows the block that is latest now as the latest for ever, and counts how often.
func (b *bench) frozen() (url string, looks *atomic.Int64) {
	b.Helper()
	looks = &atomic.Int64{}
	at := b.header("latest").Number
	return b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" || !q.has("latest") {
			return ""
		}
		looks.Add(1)
		return b.member("eth_getBlockByNumber", hexutil.EncodeUint64(uint64(at)), false)
	}), looks
}

// TestSimulateSeesMoneyBehindFrozenHead funds the payer after the preferred node has frozen. Its refusal counts only
// when no node shows a newer block that allows the transfer.
func TestSimulateSeesMoneyBehindFrozenHead(t *testing.T) {
	b := newBench(t)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	address := crypto.PubkeyToAddress(key.PublicKey).Hex()
	payer := devnet.Wallet{Address: address, PrivateKey: hexutil.Encode(crypto.FromECDSA(key))}
	p := b.claim(payer)
	stopped, _ := b.frozen()
	simulated := func(c *chain.Chain) string {
		return b.reasonOf(c.Simulate(t.Context(), p.Authorization, p.Signature))
	}
	b.mine(1)
	if got := simulated(b.over(stopped, b.url, b.url)); got != x402.ReasonBalance {
		t.Errorf("without the money: %q, want %q", got, x402.ReasonBalance)
	}
	b.sendAs(buyer(0), token, transferCall(p.Authorization.From, price))
	for name, nodes := range map[string][]string{"two others": {stopped, b.url, b.url}, "one other": {stopped, b.url}} {
		if got := simulated(b.over(nodes...)); got != "" {
			t.Errorf("with the money, %s: refused as %q", name, got)
		}
	}
	if got := simulated(b.over(stopped, stopped)); got != x402.ReasonBalance {
		t.Errorf("all have stopped: %q, want %q", got, x402.ReasonBalance)
	}
}

// TestFrozenHeadIsDetected freezes the preferred node while its latest block is still recent. Within a few looks the
// payment settles, and the node is asked last.
func TestFrozenHeadIsDetected(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	stopped, looks := b.frozen()
	c := b.over(stopped, b.url, b.url)
	b.submit(p)
	b.settles(p)
	b.mine(2)
	const few = 3
	seen := 0
	for ; seen < few && state(t, c, p) != payment.Settled; seen++ {
	}
	if seen == few {
		t.Errorf("not seen in %d looks", few)
	}
	b.ahead.Add(2)
	want := uint64(b.header("latest").Number)
	head := func() uint64 {
		n, err := c.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for n := 0; n < few && head() != want; n++ {
	}
	before := looks.Load()
	const often = 10
	for range often {
		if got := head(); got != want {
			t.Fatalf("the head is %d, want %d", got, want)
		}
	}
	if asked := looks.Load() - before; asked > often/2 {
		t.Errorf("the node that stands still was asked %d times in %d looks", asked, often)
	}
}

// TestSurveyKeepsFrozenHeadStale checks that a survey, which asks each node alone, does not clear the stale mark of a
// frozen node.
func TestSurveyKeepsFrozenHeadStale(t *testing.T) {
	b := newBench(t)
	stopped, looks := b.frozen()
	c := b.over(stopped, b.url, b.url)
	b.mine(2)
	survey := func() {
		if err := c.Ready(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	survey()
	b.ahead.Add(2)
	survey()
	before := looks.Load()
	const often = 10
	for range often {
		survey() // which asks it once
		if _, err := c.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if asked := looks.Load() - before; asked > often+2 {
		t.Errorf("the node that stands still was asked %d times in %d surveys and as many looks", asked, often)
	}
}

// TestSurveyDoesNotWaitForNodeThatHangsLater lets a node show its latest block at once, and hang when it is asked for
// other blocks.
func TestSurveyDoesNotWaitForNodeThatHangsLater(t *testing.T) {
	b := newBench(t)
	let := make(chan struct{})
	defer close(let)
	quick := b.lying(func(q question) string {
		if q.Method == "eth_getBlockByNumber" && !q.has("latest") {
			<-let
		}
		return ""
	})
	c := b.over(quick, b.url, b.url)
	for range 3 {
		b.within("a survey", func() {
			if err := c.Ready(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
		b.mine(1)
		b.ahead.Add(2)
	}
}
