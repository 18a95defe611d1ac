package chain_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// forked shows blocks of another chain under the bench's numbers.
func (b *bench) forked() string {
	return b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" {
			return ""
		}
		block := b.header(strings.Trim(string(q.Params[0]), `"`))
		return fmt.Sprintf(`"result":{"number":%q,"hash":"0x%064x","timestamp":%q}`, block.Number,
			0xbad00000+uint64(block.Number), block.Timestamp)
	})
}

func (b *bench) wantReady(c *chain.Chain, want fault.Code, why string) {
	b.Helper()
	err := c.Ready(b.Context(), 0)
	if fault.Of(err) != want || (err != nil && !strings.Contains(err.Error(), why)) {
		b.Errorf("ready: %v, want %q, %q", err, want, why)
	}
}

// TestReadySetsForkedNodeAside shows a head of another fork at one node. With two nodes neither is a majority.
func TestReadySetsForkedNodeAside(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	b.wantReady(b.over(b.forked(), b.url), fault.ChainUnsettled, "different blocks")
	b.wantReady(b.over(b.forked(), b.url, b.url), "", "")
	b.wantReady(b.over(b.url, b.answersTo("eth_getBlockByNumber", `"error":{"code":-32603,"message":"internal error"}`)),
		fault.DependencyDown, "1 of 2 nodes")
	b.wantReady(b.over(b.url), "", "")
}

// TestReadyReportsReorganisation replaces blocks that an earlier survey read. One block is usual; more make the chain
// unsettled for a while.
func TestReadyReportsReorganisation(t *testing.T) {
	b := newBench(t)
	c := b.over(b.url)
	look := func() { t.Helper(); b.wantReady(c, "", "") }
	for range 10 {
		b.mine(1)
		look()
	}
	b.control("anvil_reorg", 1, []any{})
	look()
	b.control("anvil_reorg", 4, []any{})
	b.wantReady(c, fault.ChainUnsettled, "replaced")
	b.mine(2)
	b.wantReady(c, fault.ChainUnsettled, "replaced")
	b.ahead.Add(31)
	look()
	for range 5 {
		b.mine(1)
		look()
	}
	b.control("anvil_rollback", 4)
	b.wantReady(c, fault.ChainUnsettled, "replaced")
}

// TestNodeBehindIsNoReorganisation surveys a node whose head is some blocks older than the one read before at another
// node. Nothing was replaced.
func TestNodeBehindIsNoReorganisation(t *testing.T) {
	b := newBench(t)
	b.mine(10)
	var looks atomic.Int64
	behind := b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" || !q.has("latest") {
			return ""
		}
		if looks.Add(1) <= 2 {
			return `"error":{"code":-32603,"message":"internal error"}`
		}
		return b.member("eth_getBlockByNumber", hexutil.EncodeUint64(uint64(b.header("latest").Number)-9), false)
	})
	c := b.over(behind, b.url, b.url)
	for range 4 {
		b.wantReady(c, "", "")
		b.mine(4)
	}
}

// TestReadyFailsWithoutUsableNodes reports the cause, whatever an earlier survey decided about the only node that
// answers.
func TestReadyFailsWithoutUsableNodes(t *testing.T) {
	b := newBench(t)
	b.pass(20)
	old := b.header("earliest").Number
	goesBack := func() string {
		var looks atomic.Int64
		return b.lying(func(q question) string {
			if q.Method != "eth_getBlockByNumber" || !q.has("latest") {
				return ""
			}
			if looks.Add(1) == 1 {
				return ""
			}
			return b.member("eth_getBlockByNumber", hexutil.EncodeUint64(uint64(old)), false)
		})
	}
	b.ahead.Add(20)
	alone := b.over(goesBack())
	b.wantReady(alone, "", "")
	b.wantReady(alone, "", "") // the only node is believed
	var silent atomic.Bool
	other := b.lying(func(q question) string {
		if silent.Load() {
			return `"error":{"code":-32603,"message":"internal error"}`
		}
		return ""
	})
	c, err := chain.New(t.Context(),
		chain.Config{Domain: domain, WitnessFrom: 2 * price, Now: b.now, CallTimeout: callTimeout,
			Endpoints: []chain.Endpoint{{URL: goesBack()}, {URL: other}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for range 2 { // at the second survey the node has an older head, and is set aside
		b.wantReady(c, "", "")
	}
	silent.Store(true)
	b.wantReady(c, fault.DependencyDown, "lag")
}

// TestReadyComparesTheClockWithTheChains: a machine whose clock is slow would ask for payments that are over. One node
// that shows blocks of tomorrow closes nothing.
func TestReadyComparesTheClockWithTheChains(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	tomorrow := b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" || !q.has("latest") {
			return ""
		}
		at := hexutil.EncodeUint64(uint64(time.Now().Add(24 * time.Hour).Unix()))
		return fmt.Sprintf(`"result":{"number":"0xffffff","hash":%q,"timestamp":%q}`, b.header("latest").Hash, at)
	})
	c, lied := b.over(b.url), b.over(b.url, b.url, tomorrow)
	for name, tt := range map[string]struct {
		on     *chain.Chain
		behind int64
		why    string
	}{
		"in time": {c, 0, ""}, "a little behind": {c, 30, ""}, "behind": {c, 600, "clock is"},
		"one node of tomorrow": {lied, 0, ""}, "one node of tomorrow, and behind": {lied, 600, "clock is"},
	} {
		b.ahead.Add(-tt.behind)
		err := tt.on.Ready(t.Context(), time.Hour)
		if tt.behind > 60 {
			err = tt.on.Ready(t.Context(), time.Minute)
		}
		b.ahead.Add(tt.behind)
		if (tt.why == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUsableNamesTokenIssuer pauses the token, and blocks accounts of ours and of payers.
func TestUsableNamesTokenIssuer(t *testing.T) {
	b := newBench(t)
	admin := func(method string, account ...x402.Address) {
		t.Helper()
		data := crypto.Keccak256([]byte(method))[:4]
		for _, a := range account {
			word := a.Word()
			data = append(data, word[:]...)
		}
		b.sendAs(devnet.WalletsOf(devnet.RoleAdmin)[0], token, data)
	}
	treasury := x402.Address(common.HexToAddress("0x7ea5"))
	ours := []chain.Account{{Name: "payee", Address: b.payee}, {Name: "treasury", Address: treasury}}
	usable := func(want fault.Code, why string) {
		t.Helper()
		if err := b.chain.Usable(t.Context(), ours); fault.Of(err) != want || err != nil &&
			!strings.Contains(err.Error(), why) {
			t.Errorf("usable: %v, want %q, %q", err, want, why)
		}
	}
	p := b.claim(buyer(0))
	simulate := func(want string) {
		t.Helper()
		if got := b.reasonOf(b.chain.Simulate(t.Context(), p.Authorization, p.Signature)); got != want {
			t.Errorf("simulate: %q, want %q", got, want)
		}
	}
	usable("", "")
	admin("pause()")
	usable(fault.TokenPaused, "paused")
	simulate(payment.ReasonTokenPaused)
	admin("unpause()")
	for name, a := range map[string]x402.Address{"payee": b.payee, "treasury": treasury} {
		admin("blacklist(address)", a)
		usable(fault.AccountBlocked, name)
		if a == b.payee {
			simulate(payment.ReasonAccountBlocked)
		}
		admin("unBlacklist(address)", a)
		usable("", "")
	}
	admin("blacklist(address)", p.Authorization.From)
	usable("", "")
	simulate(payment.ReasonPayerBlocked)
}

// TestProveReadsNamedTransaction accepts only the transaction that made the payment, and needs two nodes to show it.
func TestProveReadsNamedTransaction(t *testing.T) {
	b := newBench(t)
	p, other := b.claim(buyer(0)), b.claim(buyer(1))
	b.submit(p)
	b.submit(other)
	right, wrong := b.settles(p).Transaction, b.settles(other).Transaction
	b.mine(2)
	blind := b.answersTo("eth_getLogs", `"result":[]`)
	never := b.claim(buyer(2))
	forged := b.lying(b.forging(never, "safe"))
	for name, tt := range map[string]struct {
		nodes []string
		p     payment.Payment
		hash  x402.Hash
		want  payment.State
	}{
		"right":                    {[]string{b.url}, p, right, payment.Settled},
		"of another payment":       {[]string{b.url}, p, wrong, payment.Unknown},
		"of no block":              {[]string{b.url}, p, x402.Hash{1}, payment.Unknown},
		"the logs are missing":     {[]string{blind, blind}, p, right, payment.Settled},
		"forged by one node":       {[]string{forged, b.url}, never, x402.Hash{31: 0xf0}, payment.Unknown},
		"forged by the second one": {[]string{b.url, forged}, never, x402.Hash{31: 0xf0}, payment.Unknown},
	} {
		v, err := b.over(tt.nodes...).Prove(t.Context(), tt.p.Authorization, tt.hash)
		if err != nil || v.State != tt.want {
			t.Errorf("%s: %+v, %v, want state %d", name, v, err, tt.want)
		}
	}
}

// metricsOf is what Prometheus reads.
func metricsOf(t *testing.T, counted *telemetry.Telemetry) string {
	t.Helper()
	page := httptest.NewRecorder()
	counted.Page.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.String()
}

// TestHeadAgesTellAStuckNode asks a node that follows, one whose head stays, and one that shows none.
func TestHeadAgesTellAStuckNode(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	stuck := b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" {
			return ""
		}
		return fmt.Sprintf(`"result":{"number":"0x0","hash":%q,"timestamp":"0x1"}`, b.header("earliest").Hash)
	})
	silent := b.answersTo("eth_getBlockByNumber", `"error":{"code":-32603,"message":"internal error"}`)
	on := b.over(b.url, stuck, silent)
	before := on.HeadAges(t.Context())
	b.pass(60)
	ages := on.HeadAges(t.Context())
	if grown := ages["3"] - before["3"]; len(ages) != 3 || before["3"] > time.Minute || grown < time.Minute {
		t.Errorf("the ages are %v, and were %v a minute before", ages, before)
	}
	head := b.header("latest")
	if now := b.now().Sub(time.Unix(int64(head.Timestamp), 0)); ages["1"] > now || ages["2"] < 24*time.Hour {
		t.Errorf("the ages are %v, the chain's is %s", ages, now)
	}
}

// TestMetricsCountAnswersOfEachNode names the node that is pruned, forked, behind or contradicted.
func TestMetricsCountAnswersOfEachNode(t *testing.T) {
	b := newBench(t)
	counted, err := telemetry.Start(t.Context(), "test", "0", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counted.Stop(t.Context()) })
	b.mine(3)
	p := b.claim(buyer(0))
	liar := b.lying(b.forging(p, "safe"))
	pruned, forked := b.lying(prunes), b.forked()
	behind := b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" {
			return ""
		}
		block := b.header("earliest")
		return fmt.Sprintf(`"result":{"number":"0x0","hash":%q,"timestamp":"0x1"}`, block.Hash)
	})
	config := chain.Config{Domain: domain, CallTimeout: 10 * time.Second, Now: b.now, Metrics: counted.Metrics}
	want := []string{"contradicted", "pruned", "forked", "lagging", "ok"}
	for _, u := range []string{liar, pruned, forked, behind, b.url} {
		config.Endpoints = append(config.Endpoints, chain.Endpoint{URL: u})
	}
	c, err := chain.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_ = c.Ready(t.Context(), 0)
	for range 9 {
		state(t, c, p)
	}
	page := metricsOf(t, counted)
	for i, outcome := range want {
		found := false
		for l := range strings.SplitSeq(page, "\n") {
			found = found || strings.Contains(l, fmt.Sprintf(`node="%d"`, i+1)) &&
				strings.Contains(l, `outcome="`+outcome+`"`) && !strings.HasSuffix(l, "} 0")
		}
		if !found {
			t.Errorf("no %s of node %d in\n%s", outcome, i+1, page)
		}
	}
}

// TestStuckNodeMakesNoOtherLookWrong: a node that shows what has been paid contradicts one that is as far and hides it,
// and not one that has not got there.
func TestStuckNodeMakesNoOtherLookWrong(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	stuck, _ := b.frozen()
	p := b.claim(buyer(0))
	b.submit(p)
	b.settles(p)
	for name, c := range map[string]struct {
		other        string
		contradicted bool
	}{
		"stuck": {stuck, false}, "hiding": {b.answersTo("eth_getLogs", `"result":[]`), true},
	} {
		t.Run(name, func(t *testing.T) {
			counted, err := telemetry.Start(t.Context(), "test", "0", outward.Rule{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = counted.Stop(context.WithoutCancel(t.Context())) })
			on, err := chain.New(t.Context(), chain.Config{
				Domain: domain, CallTimeout: 10 * time.Second, Now: b.now, Metrics: counted.Metrics,
				Endpoints: []chain.Endpoint{{URL: b.url}, {URL: c.other}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(on.Close)
			_ = on.Ready(t.Context(), 0)
			for range 3 {
				if got := state(t, on, p); got == payment.Settled {
					t.Fatal("the payment is settled by one of two nodes")
				}
			}
			zero := `chain_node_answers_total{node="1",outcome="contradicted"} 0` + "\n"
			if page := metricsOf(t, counted); strings.Contains(page, zero) == c.contradicted {
				t.Errorf("contradicted %t, but\n%s", c.contradicted, page)
			}
		})
	}
}
