package endtoend_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

const facilitatorToken = "a-token-for-tests"

// remoteFacilitator is a facilitator with a key of its own on a world's chain.
type remoteFacilitator struct {
	*facilitatortest.Server
	server *httptest.Server
}

// newFacilitatorWorld is a world that settles in an order, and its facilitator. change may be nil.
func newFacilitatorWorld(t *testing.T, order string, change func(*app.Config)) (*world, *remoteFacilitator) {
	t.Helper()
	var f *remoteFacilitator
	w := newWorld(t, plan{change: func(c *app.Config) {
		f = startFacilitator(t, c.RPCURLs[0], facilitatortest.Config{Token: secret.New(facilitatorToken)})
		c.Settlement, c.SettlementTurn = strings.Split(order, ","), 3*time.Second
		c.FacilitatorURL, c.FacilitatorToken = f.server.URL, secret.New(facilitatorToken)
		if !strings.Contains(order, "relayer") {
			c.RelayerKeys = nil
		}
		if change != nil {
			change(c)
		}
	}})
	return w, f
}

// startFacilitator makes a facilitator on a chain, which asks its callers for what want says.
func startFacilitator(t *testing.T, rpcURL string, want facilitatortest.Config) *remoteFacilitator {
	t.Helper()
	key := newKey(t)
	if err := dialNode(t, rpcURL).CallContext(t.Context(), nil, "anvil_setBalance", addressOf(key).String(),
		"0x3635c9adc5dea00000"); err != nil {
		t.Fatalf("fund the facilitator: %v", err)
	}
	on, err := chain.New(t.Context(),
		chain.Config{Endpoints: []chain.Endpoint{{URL: rpcURL}}, Domain: domain(), CallTimeout: time.Minute,
			Now: time.Now})
	if err != nil {
		t.Fatalf("dial the chain for the facilitator: %v", err)
	}
	t.Cleanup(on.Close)
	relayer, err := chain.NewRelayer(chain.RelayerConfig{Chain: on, Transactions: paymenttest.NewTransactions(time.Now),
		Keys:         []payment.Signer{curve.NewLocalSigner(key)},
		MaxFeePerGas: big.NewInt(50e9), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("make the facilitator's relayer: %v", err)
	}
	want.Chain, want.Settler, want.Now = on, relayer, time.Now
	f := &remoteFacilitator{Server: facilitatortest.New(want)}
	f.server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.server.CloseClientConnections() // lets go of who was left hanging
		f.server.Close()
	})
	return f
}

// relayerAttempts is how many transactions of our own relayer's are for a payment of the buyer.
func (w *world) relayerAttempts(payer x402.Address) (n int) {
	w.t.Helper()
	err := w.db.QueryRow(context.WithoutCancel(w.t.Context()),
		"SELECT count(*) FROM transaction_members m JOIN payments p ON p.id = m.payment_id WHERE lower(p.owner) = $1",
		payer.Lower()).Scan(&n)
	if err != nil {
		w.t.Fatalf("count transactions: %v", err)
	}
	return n
}

// transfersFrom are the arrivals from one payer.
func (w *world) transfersFrom(payer x402.Address) (all []transfer) {
	w.t.Helper()
	for _, tr := range w.transfers() {
		if tr.from == payer {
			all = append(all, tr)
		}
	}
	return all
}

// buyPaidOnce buys a card and checks that it was paid for once.
func (b *buyer) buyPaidOnce(key string) {
	b.w.t.Helper()
	b.buyCard(key)
	if got := b.w.transfersFrom(b.address); len(got) != 1 || got[0].amount != price() {
		b.w.t.Errorf("transfers %+v, want one of %s", got, price())
	}
}

func TestPurchaseIsPaidOnceDespiteFacilitatorFaults(t *testing.T) {
	onlyTorture(t, "payment TestFailoverSettlesOnceWhateverFirstSettlerDoes, facilitator TestSubmitReadsOutcomes")
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator,relayer", nil)
	tests := []struct {
		name  string
		fault facilitatortest.Fault
		// takenOver says that only our own relayer can have moved the money.
		takenOver bool
	}{
		{"honest", facilitatortest.Honest, false},
		{"loses the reply after the broadcast", facilitatortest.Lose, false},
		{"answers pending", facilitatortest.Pending, false},
		{"fails before the effect", facilitatortest.Fail, true},
		{"answers pending as HTTP 500", facilitatortest.Pending500, false},
		{"hangs", facilitatortest.Hang, true},
		{"says failure after success", facilitatortest.Deny, false},
		{"answers half a text after the effect", facilitatortest.Garble, false},
		{"refuses our token", facilitatortest.Unauthorized, true},
		{"refuses a good payment", facilitatortest.Refuse, true},
		{"says success without doing anything", facilitatortest.Lie, true},
		{"is pending for ever", facilitatortest.Stall, true},
		{"redirects", facilitatortest.Redirect, true},
		{"asks to be left alone", facilitatortest.Limit, true},
	}
	for _, tt := range tests {
		f.Always(tt.fault)
		b, before := w.buyer(), f.Calls("/settle")
		b.buyPaidOnce("facilitator " + tt.name)
		if f.Calls("/settle") == before {
			t.Errorf("%s: the facilitator was not asked", tt.name)
		}
		if n := w.relayerAttempts(b.address); tt.takenOver && n != 1 {
			t.Errorf("%s: %d transactions of our own, want 1", tt.name, n)
		} else if tt.fault == facilitatortest.Honest && n != 0 {
			t.Errorf("%s: %d transactions of our own, want none", tt.name, n)
		}
	}
	if f.Calls("/elsewhere") != 0 {
		t.Error("a payment followed a redirect")
	}
	w.checkBooks()
}

// TestSettleRequestRepeatsTheChallenge holds what arrives at /settle against the challenge, which crawlers list by.
func TestSettleRequestRepeatsTheChallenge(t *testing.T) {
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator", nil)
	b := w.buyer()
	unpaid := w.send(post(purchasePath, "")) // as crawlers ask
	challenge, err := x402.DecodeRequired(unpaid.header.Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	b.buyPaidOnce("listed")
	var sent struct {
		PaymentPayload struct {
			Resource   x402.Resource
			Extensions map[string]any
		}
	}
	if err := json.Unmarshal(f.Settles()[0], &sent); err != nil {
		t.Fatal(err)
	}
	got := sent.PaymentPayload
	if got.Resource.URL != challenge.Resource.URL || got.Resource.URL == "" || got.Resource.Description == "" ||
		got.Resource.ServiceName != "roamcard" {
		t.Errorf("the facilitator is told of %+v, the buyer of %+v", got.Resource, challenge.Resource)
	}
	if diff := cmp.Diff(challenge.Extensions, got.Extensions); diff != "" || got.Extensions["bazaar"] == nil {
		t.Errorf("extensions (-challenge +settle):\n%s", diff)
	}
}

// TestPurchaseSettlesByCoinbaseKey buys where the facilitator asks for a token of a key for each call.
func TestPurchaseSettlesByCoinbaseKey(t *testing.T) {
	t.Parallel()
	key, secretOfKey := facilitatortest.NewEd25519("0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9",
		sha256.Sum256([]byte("a throw-away key for tests")))
	var log lockedBuffer
	var f *remoteFacilitator
	w := newWorld(t, plan{
		log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		change: func(c *app.Config) {
			f = startFacilitator(t, c.RPCURLs[0], facilitatortest.Config{Key: key})
			below := httptest.NewServer(http.StripPrefix(facilitatortest.CDPPath, f))
			t.Cleanup(below.Close)
			c.Settlement, c.RelayerKeys = []string{"facilitator"}, nil
			c.FacilitatorURL = below.URL + facilitatortest.CDPPath
			c.FacilitatorKeyID, c.FacilitatorKeySecret = key.ID, secretOfKey
		},
	})
	w.buyer().buyPaidOnce("by key")
	if f.Calls("/settle") == 0 || f.Calls("/supported") == 0 || len(f.Denied()) > 0 {
		t.Errorf("%d settlements, %d looks, denied: %v", f.Calls("/settle"), f.Calls("/supported"), f.Denied())
	}
	w.checkBooks()
	told := map[string]string{"the log": log.String(), "the database": w.dump()}
	for _, v := range invariants.Leaks(told, map[string]string{
		"the key": secretOfKey.Reveal(),
		"a token": "eyJhbGciOiJFZERTQSIsImtpZCI6IjBi", // with alg and kid, as no receipt begins
	}) {
		t.Error(v)
	}
	if !strings.Contains(told["the log"], "facilitator asked to settle") {
		t.Error("the log does not have the settlement: nothing was looked at")
	}
}

func TestFacilitatorWithoutRelayerSettlesAfterFaults(t *testing.T) {
	onlyTorture(t, "facilitator TestCollectorTrustsChainOnly and TestSubmitBacksOffFromFailingFacilitator")
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator", nil)
	for name, fault := range map[string]facilitatortest.Fault{
		"lost reply":  facilitatortest.Lose,
		"error":       facilitatortest.Fail,
		"lie":         facilitatortest.Lie,
		"pending 500": facilitatortest.Pending500,
		"denial":      facilitatortest.Deny,
	} {
		f.Next(fault)
		b := w.buyer()
		b.buyPaidOnce("alone " + name)
		if n := w.relayerAttempts(b.address); n != 0 {
			t.Errorf("%s: %d transactions of our own", name, n)
		}
	}
	w.checkBooks()
}

func TestRestartSendsFacilitatorTheSameBytes(t *testing.T) {
	onlyTorture(t, "facilitator TestSubmitSendsSameBytesEachTime, payment TestFailoverTurnSurvivesRestart")
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator", func(c *app.Config) { c.Wait = time.Second })
	f.Always(facilitatortest.Stall)
	b := w.buyer()
	paid := purchase("restart", header(t, b.payment()))
	if a := w.send(paid); a.status == 402 || a.status == 200 {
		t.Fatalf("status %d while nothing is decided: %s", a.status, a.body)
	}
	w.instances[0].stop()
	f.Always(facilitatortest.Honest)
	next := w.start(w.config)
	w.awaitReady(next)
	w.awaitSettled()
	paid.at = next
	w.send(paid).into(t, 200, nil)
	bodies := f.Settles()
	for _, body := range bodies {
		if !bytes.Equal(body, bodies[0]) {
			t.Fatal("one payment was sent in two forms")
		}
	}
	if len(bodies) < 2 || len(w.transfersFrom(b.address)) != 1 {
		t.Errorf("%d settle calls and %d transfers, want several and one", len(bodies), len(w.transfersFrom(b.address)))
	}
	w.checkBooks()
}

func TestRelayerSettlesWhenFacilitatorIsDown(t *testing.T) {
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator,relayer", nil)
	f.server.CloseClientConnections()
	f.server.Close()
	for _, key := range []string{"gone 1", "gone 2", "gone 3", "gone 4"} {
		b := w.buyer()
		b.buyPaidOnce(key)
		if n := w.relayerAttempts(b.address); n != 1 {
			t.Errorf("%s: %d transactions of our own, want 1", key, n)
		}
	}
	w.awaitReady(w.instances[0])
	w.checkBooks()
}

func TestFacilitatorSettlesWhenRelayerHasNoGas(t *testing.T) {
	t.Parallel()
	poor := secret.New(hexutil.Encode(crypto.FromECDSA(newKey(t))))
	w, _ := newFacilitatorWorld(t, "relayer,facilitator", func(c *app.Config) { c.RelayerKeys = []secret.Text{poor} })
	b := w.buyer()
	b.buyPaidOnce("no gas")
	if n := w.relayerAttempts(b.address); n != 0 {
		t.Errorf("%d transactions of our own, want none without gas", n)
	}
	w.checkBooks()
}

func TestServiceIsNotReadyWithoutItsOnlySettler(t *testing.T) {
	t.Parallel()
	w, f := newFacilitatorWorld(t, "facilitator", nil)
	f.server.CloseClientConnections()
	f.server.Close()
	eventually(t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 503 && strings.Contains(string(a.body), "facilitator"), string(a.body)
	})
}

func TestDevServerSettlesByFacilitator(t *testing.T) {
	t.Parallel()
	chain := sharedChain(t)
	f := startFacilitator(t, chain.RPCURL, facilitatortest.Config{})
	c := dev.Config{
		Addr: "127.0.0.1:0", Dir: t.TempDir(), DatabaseURL: storetest.URL(t), RPCURL: chain.RPCURL,
		SandboxURL: newIssuer(t, sandbox.Config{}).url,
		Settlement: "facilitator", Log: worldLog(t),
	}
	if err := dev.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "facilitator") {
		t.Errorf("without its address: %v", err)
	}
	ctx, cancel := waitContext(t)
	defer cancel()
	ready := false
	c.FacilitatorURL, c.OnReady = f.server.URL, func(dev.Ready) { ready = true; cancel() }
	if err := dev.Run(ctx, c); !ready || f.Calls("/supported") == 0 {
		t.Errorf("ready: %t, after %d looks at the facilitator: %v", ready, f.Calls("/supported"), err)
	}
}
