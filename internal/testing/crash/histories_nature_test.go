package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/history"
)

// deepest is how many blocks are replaced at most: what the chain calls final stays.
const deepest = 2

// nature lets things go wrong until the storm is over, each by its own dice and as often as this round has it.
func (m *market) nature(storm context.Context, all *sync.WaitGroup) {
	habit := func(what string, atMost time.Duration, do func(*rand.Rand)) {
		rng := m.dice(what)
		// Some rounds are calm in one thing and hell in another.
		mean := atMost << rng.IntN(4)
		all.Go(func() {
			for pause(storm, time.Duration(rng.ExpFloat64()*float64(mean))) {
				do(rng)
				m.count(what)
			}
		})
	}
	anyServer := func(rng *rand.Rand) *apptest.Process { return m.servers[rng.IntN(len(m.servers))].running() }
	habit("kills", 2*time.Second, func(rng *rand.Rand) { anyServer(rng).Kill(m.t) })
	habit("stops", 3*time.Second, func(rng *rand.Rand) { stop(storm, anyServer(rng), stopped(rng)) })
	habit("kills of the database", 10*time.Second, func(rng *rand.Rand) { m.database.kill(upTo(rng, 2*time.Second)) })
	habit("replaced blocks", 3*time.Second, m.reorganise)
	habit("times without blocks", 8*time.Second, func(rng *rand.Rand) { m.noBlocks(storm, upTo(rng, 8*time.Second)) })
	habit("faults of the issuer", time.Second, func(rng *rand.Rand) { m.misbehave(rng, "faults", issuerCalls) })
	habit("faults of the supplier", time.Second, func(rng *rand.Rand) { m.misbehave(rng, "esim/faults", supplierCalls) })
	if m.goesBack() {
		all.Go(func() { m.goBack(storm, m.dice("restore")) })
	}
}

// goesBack reports whether the database is put back in this round: in every second one.
func (m *market) goesBack() bool { return m.round%2 == 0 }

// well ends what outlives the storm.
func (m *market) well() {
	m.provider("DELETE", "faults", nil)
	m.provider("DELETE", "esim/faults", nil)
	for _, s := range m.servers {
		s.startWell()
	}
}

var (
	issuerCalls   = []string{"open", "account", "move", "moved", "balance", "stock"}
	supplierCalls = []string{"plans", "check", "order", "ordered", "topups", "topup"}
	// misdeeds are those that leave a way to know what has happened.
	misdeeds = []string{
		"error_before", "error_after", "timeout_before", "timeout_after", "late", "slow", "hang", "malformed", "truncated",
		"rate_limited", "unauthorized", "unknown_state", "duplicate",
	}
)

// misbehave makes a provider fail for some calls.
func (m *market) misbehave(rng *rand.Rand, at string, calls []string) {
	m.provider("POST", at, map[string]any{
		"op": calls[rng.IntN(len(calls))], "mode": misdeeds[rng.IntN(len(misdeeds))], "times": 1 + rng.IntN(2),
		// Shorter than what has happened may stay out of sight.
		"delayMs": 1 + rng.IntN(2500),
	})
}

// provider asks the sandbox's control.
func (m *market) provider(method, path string, body any) {
	m.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		m.t.Fatal(err)
	}
	req, err := http.NewRequest(method, m.w.books.SandboxURL+"/control/"+path, bytes.NewReader(encoded))
	if err != nil {
		m.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatalf("control the sandbox: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		m.t.Fatalf("control the sandbox: %s %s: %s %s", method, path, res.Status, text)
	}
}

// reorganise replaces the newest blocks by empty ones. Their transactions go back to the pool, as a node's do, or are
// forgotten by it, where those who have made them still know them.
func (m *market) reorganise(rng *rand.Rand) {
	m.mu.Lock()
	m.happened.Reorganised = true
	m.mu.Unlock()
	defer m.still()()
	depth := 1 + rng.Int64N(deepest)
	var back []string
	if m.goesBack() || rng.IntN(2) == 0 {
		for n := m.head() - depth + 1; n <= m.head(); n++ {
			back = append(back, m.transactions(n)...)
		}
	}
	m.w.rpc(m.t, "anvil_reorg", depth, []any{})
	for _, raw := range back {
		_, _ = m.w.call("eth_sendRawTransaction", raw) // it may be known already
	}
}

// transactions are those of a block, signed.
func (m *market) transactions(block int64) (all []string) {
	m.t.Helper()
	var b struct{ Transactions []string }
	if err := json.Unmarshal(m.w.rpc(m.t, "eth_getBlockByNumber", fmt.Sprintf("0x%x", block), false), &b); err != nil {
		m.t.Fatal(err)
	}
	for _, hash := range b.Transactions {
		var raw string
		if err := json.Unmarshal(m.w.rpc(m.t, "eth_getRawTransactionByHash", hash), &raw); err != nil {
			m.t.Fatal(err)
		}
		all = append(all, raw)
	}
	return all
}

// head is the number of the latest block.
func (m *market) head() int64 {
	m.t.Helper()
	var head string
	if err := json.Unmarshal(m.w.rpc(m.t, "eth_blockNumber"), &head); err != nil {
		m.t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(head, "0x"), 16, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// noBlocks lets the chain stand still for a while.
func (m *market) noBlocks(storm context.Context, lasts time.Duration) {
	defer m.still()()
	pause(storm, lasts)
}

// still keeps the chain from making blocks until goesOn is called. Nobody else may do so meanwhile.
func (m *market) still() (goesOn func()) {
	m.chain.Lock()
	m.w.rpc(m.t, "evm_setIntervalMining", 0)
	m.w.rpc(m.t, "evm_setAutomine", false)
	// It comes after one that is being made: anvil mixes the two up when blocks are replaced meanwhile.
	m.w.rpc(m.t, "evm_mine")
	return func() {
		m.w.rpc(m.t, "evm_setAutomine", true)
		m.w.rpc(m.t, "evm_setIntervalMining", 1)
		m.chain.Unlock()
	}
}

// blocks waits until so many more blocks are made.
func (m *market) blocks(more int64) {
	m.t.Helper()
	until := m.head() + more
	apptest.Await(m.t, "blocks are made", func() error {
		if n := m.head(); n < until {
			return fmt.Errorf("the head is %d, wanted %d", n, until)
		}
		return nil
	})
}

// goBack copies the database in the middle of a storm, and puts the copy in its place later, as an operator does: with
// the servers stopped or, as a standby takes over, while they run.
func (m *market) goBack(storm context.Context, rng *rand.Rand) {
	if !pause(storm, *stormy/8+upTo(rng, *stormy/4)) {
		return
	}
	var loss history.Loss
	loss.Copied = time.Now()
	sent := m.w.sent(m.t)
	older := m.database.dir + fmt.Sprint("-older-", m.round)
	m.database.copy(older)
	if !pause(storm, *stormy/8+upTo(rng, *stormy/4)) {
		return
	}
	if rng.IntN(2) == 0 {
		for _, s := range m.servers {
			s.running().Kill(m.t)
		}
	}
	loss.Ended, loss.Restored = m.database.restore(older)
	m.w.loses(sent, m.w.nonce(m.t, "pending"))
	m.mu.Lock()
	m.happened.Losses = append(m.happened.Losses, loss)
	m.mu.Unlock()
	m.count("restores")
}
