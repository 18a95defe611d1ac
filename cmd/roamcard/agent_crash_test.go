package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// step is where a purchase is when its server is killed: at a fault of the network, or when what set it up happened.
type step struct {
	fault fault
	// torture leaves the step to `make torture`: another one differs in less than what the service has seen.
	torture bool
	// paid says that the request which meets the fault has a payment.
	paid bool
	sets func(s *stage) (happened func() bool)
}

// A server that is killed at any step of a purchase, and started again, pays once. A signed payment is resumed; an
// unsigned purchase is repeated under its key.
func TestAgentKilledAtEachStepPaysOnce(t *testing.T) {
	t.Parallel()
	held := 120_000
	asks := func(s *stage) func() bool { s.settings.Mode = roamcard.HumanApproval; return nil }
	for name, at := range map[string]step{
		"while the price is asked": {fault: fault{"on": "unpaid", "delayMs": held}},
		"before the service has it": {
			fault: fault{"on": "paid", "forward": false, "status": 503, "delayMs": held}, paid: true,
		},
		"while the service has it":    {fault: fault{"on": "paid", "cut": 0, "delayMs": held}, paid: true, torture: true},
		"in the middle of the answer": {fault: fault{"on": "paid", "cut": 200, "delayMs": held}, paid: true},
		"at the end of the answer":    {fault: fault{"on": "paid", "cut": -1, "delayMs": held}, paid: true, torture: true},
		"while the wallet signs":      {sets: holdingSigner},
		"while the user is asked":     {sets: asks, torture: true},
	} {
		if at.torture && !whole {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			proxy := &between{s.Faulty(), s.t}
			s.killedAt(at, proxy)
			s.settings.Signer = nil
			p := &person{answer: yes}
			second := s.serve(proxy.URL, p.client())
			if at.paid {
				// Nobody asks for it: it is enough that a session begins.
				if _, err := second.ListTools(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				until(t, func() bool { return s.settled("k") })
			} else if got := second.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Failed {
				t.Fatalf("%+v\n%s", got, second.stderr)
			}
			order := second.settles("k").Order.OrderID
			if asks := s.settings.Mode != roamcard.Autonomous; (p.asked.Load() > 0) != asks {
				t.Errorf("asked %d times", p.asked.Load())
			}
			if got := second.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Failed || !got.Replayed ||
				got.Order.OrderID != order {
				t.Errorf("again: %+v", got)
			}
			s.paid(1, 2500)
		})
	}
}

// killedAt has an agent buy a card, and kills its server there.
func (s *stage) killedAt(at step, proxy *between) {
	s.t.Helper()
	asked, gone := make(chan struct{}, 1), make(chan struct{})
	happened := func() bool { return len(asked) > 0 }
	if at.sets != nil {
		if own := at.sets(s); own != nil {
			happened = own
		}
	} else {
		proxy.Inject(at.fault)
	}
	asks := func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		select {
		case <-gone:
		case <-ctx.Done():
		}
		return nil, context.Canceled
	}
	a := s.serve(proxy.URL, &mcp.ClientOptions{ElicitationHandler: asks})
	var calling sync.WaitGroup
	calling.Go(func() { _, _ = a.try("buy_card", map[string]any{"purchaseKey": "k"}) }) // its answer never comes
	if at.fault != nil {
		proxy.await(at.paid)
	} else {
		until(s.t, happened)
	}
	a.kill()
	close(gone)
	calling.Wait()
	proxy.Inject()
}

// holdingSigner gives the wallet to a program that never answers.
func holdingSigner(s *stage) func() bool {
	file := filepath.Join(s.dir, "signing")
	s.settings.Signer = asJSON(s.t, map[string]any{
		"address": s.signer.Address(), "command": []string{"env", "TEST_HOLD=" + file, os.Args[0]},
	})
	return func() bool {
		_, err := os.Stat(file)
		return err == nil
	}
}

func until(t *testing.T, happened func() bool) {
	t.Helper()
	apptest.Await(t, "it comes to that", func() error {
		if !happened() {
			return errors.New("it has not")
		}
		return nil
	})
}

func TestTwoAgentsWithOneKeyPayOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	agents := []*session{s.serve("", nil), s.serve("", nil)}
	var calls sync.WaitGroup
	for _, a := range agents {
		calls.Go(func() {
			for range 2 {
				if got, err := a.try("buy_card", map[string]any{"purchaseKey": "k"}); err != nil || got.Failed {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	calls.Wait()
	if one, other := agents[0].settles("k").Order.OrderID, agents[1].settles("k").Order.OrderID; one != other {
		t.Errorf("%s and %s", one, other)
	}
	s.paid(1, 2500)
}

// A purchase at a slow service continues after its call, and a client that gave up loses nothing.
func TestAgentAnswersInTimeAndContinues(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	proxy := &between{s.Faulty(), s.t}
	// The service answers long after any client has given up, so whatever comes back before is in time.
	proxy.Inject(fault{"on": "paid", "delayMs": 20_000})
	a := s.serve(proxy.URL, nil)
	got := a.call("buy_card", map[string]any{"purchaseKey": "k"})
	if got.Status != "processing" || got.NextAction != "get_order" || s.settled("k") {
		t.Errorf("%+v, settled %t", got, s.settled("k"))
	}
	if w := a.call("get_wallet", nil); len(w.Pending) != 1 || w.Pending[0].PurchaseKey != "k" {
		t.Errorf("%+v", w)
	}
	a.settles("k")
	s.paid(1, 2500)
}

// Clients give a server five seconds to connect: it makes no call before its first message, and writes only the
// protocol.
func TestAgentMakesNoCallBeforeItsFirstMessage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	called := make(chan struct{}, 1)
	go func() {
		if c, err := listener.Accept(); err == nil {
			called <- struct{}{}
			_ = c.Close()
		}
	}()
	s.settings.Origin = "http://" + listener.Addr().String()
	cmd := s.command("", "mcp", "serve", "--config", s.settingsFile())
	log, said := &recording{}, &recording{}
	cmd.Stderr, cmd.Stdout = log, said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return strings.Contains(log.String(), "session connected") })
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
	} {
		if _, err := in.Write([]byte(message + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() bool { return strings.Contains(said.String(), "get_wallet") })
	select {
	case <-called:
		t.Error("it called the service")
	default:
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end of the input: %v\n%s", err, log)
	}
	for line := range strings.Lines(said.String()) {
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) {
			t.Errorf("it said %q", line)
		}
	}
}

// While a wallet waits to be unlocked, each tool answers.
func TestAgentAnswersWhileItsWalletIsLocked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Operations = []string{"buy_card"}
	unlocked := make(chan struct{})
	a := s.inProcessWith(s.BaseURL, func(ctx context.Context) (roamcard.Signer, error) {
		select {
		case <-unlocked:
			return s.signer, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	calls := map[string]map[string]any{
		"get_wallet": nil, "get_order": {"purchaseKey": "k"}, "list_cards": nil, "get_card_balance": nil,
		"get_card_details": nil, "get_card_limits": nil, "list_card_transactions": nil, "list_esim_plans": nil,
		"get_esim_profile": {"orderId": "ord_1"}, "list_esim_topups": {"orderId": "ord_1"},
		"quote": {"tool": "buy_card"}, "buy_card": {"purchaseKey": "k"}, "show_card": nil,
		"show_esim":   {"orderId": "ord_1"},
		"top_up_card": {"purchaseKey": "k2", "amountUsdCents": 2500}, "buy_esim": {"purchaseKey": "k3", "planId": "p"},
	}
	if all, err := a.ListTools(t.Context(), nil); err != nil || len(all.Tools) != len(calls) {
		t.Fatalf("%d tools are called, %v", len(calls), err)
	}
	var calling sync.WaitGroup
	for tool, arguments := range calls {
		calling.Go(func() {
			got, err := a.try(tool, arguments)
			waits := got.Code == "still_working" && got.NextAction == "wait_and_call_again"
			if _, buys := arguments["purchaseKey"]; buys && tool != "get_order" {
				waits = got.Status == "processing" && got.NextAction == "get_order"
			}
			if err != nil || !waits {
				t.Errorf("%s: %+v, %v", tool, got, err)
			}
		})
	}
	calling.Wait()
	close(unlocked)
	a.settles("k")
	s.paid(1, 2500)
}

// A client that answers the question at once does not make a purchase take twice as long.
func TestAgentAnswersInTimeAfterAQuestion(t *testing.T) {
	t.Parallel()
	s, p := newStage(t), &person{answer: yes}
	s.settings.Mode = roamcard.HumanApproval
	slow := &slowWallet{KeySigner: s.signer, signs: make(chan struct{})}
	a := s.inProcessAt("2025-11-25", s.BaseURL, func(context.Context) (roamcard.Signer, error) {
		time.Sleep(2 * time.Second) // clock: of the time that the purchase has
		return slow, nil
	}, p.client())
	before := time.Now()
	got := a.call("buy_card", map[string]any{"purchaseKey": "k"})
	if got.Status != "processing" || p.asked.Load() != 1 {
		t.Errorf("%+v, asked %d times", got, p.asked.Load())
	}
	// What both steps take together is a matter of time: a machine of its own tells.
	if took := time.Since(before); whole && took > 4800*time.Millisecond { // clock: some clients wait five seconds
		t.Errorf("it took %s", took)
	}
	close(slow.signs)
	a.settles("k")
	s.paid(1, 2500)
}

// slowWallet signs when it is told to.
type slowWallet struct {
	*roamcard.KeySigner
	signs chan struct{}
}

func (w *slowWallet) SignTypedData(ctx context.Context, document roamcard.TypedData) ([]byte, error) {
	select {
	case <-w.signs:
		return w.KeySigner.SignTypedData(ctx, document)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A purchase that another session on the same journal paid is paid for this one, too.
func TestAgentTrustsTheJournalOverItsState(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	a := s.inProcess(s.BaseURL)
	if got := a.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Code != "approval_needed" {
		t.Fatalf("%+v", got)
	}
	s.settings.Mode = roamcard.Autonomous
	other := s.inProcess(s.BaseURL)
	if got := other.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Failed {
		t.Fatalf("%+v", got)
	}
	order := other.settles("k").Order.OrderID
	if got := a.call("get_order", map[string]any{"purchaseKey": "k"}); got.Failed || got.Status != "paid" ||
		got.Order.OrderID != order {
		t.Errorf("%+v", got)
	}
	s.paid(1, 2500)
}
