package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// hostileCase is one of clients/testing/hostile.json: what the service lies, what the agent then does, and the most
// that it may cost.
type hostileCase struct {
	Name                  string
	Lies                  []map[string]any
	Steps                 []struct{ Do, Key, Expect string }
	Transfers, Signatures int
	Caps                  struct{ Day string }
}

func (c hostileCase) floods() bool {
	return strings.Contains(c.Name, "bomb") || strings.Contains(c.Name, "endless")
}

// bought says that an agent can do what the steps do: it pays no order that was opened before.
func (c hostileCase) bought() bool { return c.Steps[0].Do != "pay" }

func hostileCases(t *testing.T) (cases []hostileCase) {
	t.Helper()
	data, err := os.ReadFile("../../clients/testing/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	cases = slices.DeleteFunc(cases, func(c hostileCase) bool { return !c.bought() })
	if whole {
		return cases
	}
	// The agent pays by the client, against which testing/goclient plays all of them: what the agent makes of the client's
	// answers is shown by one case for each row of them.
	seen := map[string]bool{}
	return slices.DeleteFunc(cases, func(c hostileCase) bool {
		kind := fmt.Sprint(c.Steps)
		again := seen[kind]
		seen[kind] = true
		return again
	})
}

// The cases of all clients, played through an agent's session.
func TestAgentLosesNothingToAHostileService(t *testing.T) {
	t.Parallel()
	for _, c := range hostileCases(t) {
		if !c.floods() {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				playHostile(newStage(t), c)
			})
		}
	}
}

func TestAgentBoundsTheMemoryOfAnswers(t *testing.T) {
	if !whole {
		t.Skip("testing/goclient shows it of the client: make torture runs it")
	}
	for _, c := range hostileCases(t) {
		if !c.floods() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s := newStage(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			playHostile(s, c)
			runtime.ReadMemStats(&after)
			const most = 64 << 20 // each of up to four answers has 64 MiB
			if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
				t.Errorf("%d MiB were taken", taken>>20)
			}
		})
	}
}

// inProcess serves with fewer repeats than the command, so that an unclear answer is told within the call.
func (s *stage) inProcess(dial string) *session {
	s.t.Helper()
	return s.inProcessWith(dial, func(context.Context) (roamcard.Signer, error) { return s.signer, nil })
}

func (s *stage) inProcessWith(dial string, open func(context.Context) (roamcard.Signer, error)) *session {
	s.t.Helper()
	return s.inProcessAt("", dial, open, nil)
}

func (s *stage) inProcessAt(
	version, dial string, open func(context.Context) (roamcard.Signer, error), opts *mcp.ClientOptions,
) *session {
	s.t.Helper()
	store, err := roamcard.NewFileStore(s.settings.Journal)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &session{t: s.t, wire: &recording{}, stderr: &recording{}}
	once := 1
	server := agent.New(agent.Config{
		Settings: s.settings, Store: store, Approvals: agent.ApprovalsOf(s.settings.Journal), MaxReplays: &once,
		Timeout:    time.Minute,
		OpenSigner: open,
		HTTP: &http.Transport{
			DialContext: instead(strings.TrimPrefix(s.BaseURL, "http://"), strings.TrimPrefix(dial, "http://")),
		},
		Log: slog.New(slog.NewTextHandler(a.stderr, nil)), Version: "test",
	})
	ctx, stop := context.WithCancel(s.t.Context())
	ours, theirs := mcp.NewInMemoryTransports()
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, theirs) }) // it ends with the test's session
	s.t.Cleanup(running.Wait)
	s.t.Cleanup(stop)
	return a.connect(version, ours, opts)
}

func playHostile(s *stage, c hostileCase) {
	t := s.t
	t.Helper()
	h := s.Lying()
	s.settings.MaxPerDayUSDCents = 100_000
	if c.Caps.Day != "" {
		s.settings.MaxPerDayUSDCents = 100
	}
	a := s.inProcess(h.URL)
	plan := a.call("list_esim_plans", nil).Plans[0].PlanID
	devserver.Exchange(t, h.Control, map[string]any{"lies": c.Lies}, new(any))
	for i, step := range c.Steps {
		tool, arguments := "buy_card", map[string]any{"purchaseKey": step.Key}
		switch step.Do {
		case "topup":
			tool, arguments["amountUsdCents"] = "top_up_card", 2500
		case "esim", "esim-any":
			tool, arguments["planId"] = "buy_esim", plan
		}
		if step.Key == "" {
			// An agent names what it buys; without a name nothing is asked for.
			delete(arguments, "purchaseKey")
			if got := a.call(tool, arguments); got.Code != "arguments_invalid" {
				t.Errorf("without a purchaseKey: %+v", got)
			}
			c.Transfers, c.Signatures = 0, 0
			break
		}
		got := a.call(tool, arguments)
		if step.Expect != "ambiguous" {
			got = a.ended(step.Key, got)
		}
		if !expected(got, step.Expect) {
			t.Errorf("step %d, %s: %+v; want %s\n%s", i+1, step.Do, got, step.Expect, a.stderr)
		}
		if got.PurchaseKey != step.Key {
			t.Errorf("step %d: the answer has the key %q", i+1, got.PurchaseKey)
		}
		// Under this key something was signed, unless its first and only step was denied before.
		if signedFor(s, step.Key) && got.SafeToPayAgain {
			t.Errorf("step %d: %+v says that it is safe to pay again", i+1, got)
		}
	}
	var seen struct{ Elsewhere int }
	res, err := http.Get(h.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&seen); err != nil {
		t.Fatal(err)
	}
	if n, signed := len(s.transfers()), s.signatures(); n > c.Transfers || signed > c.Signatures || seen.Elsewhere > 0 {
		t.Errorf("%d transfers and %d signatures, want at most %d and %d; %d requests went elsewhere",
			n, signed, c.Transfers, c.Signatures, seen.Elsewhere)
	}
}

// ended asks until a purchase goes on no more by itself: a slow service is not what is tested.
func (a *session) ended(key string, got told) told {
	a.t.Helper()
	apptest.Await(a.t, "the purchase goes on no more", func() error {
		if got.Status == "processing" {
			got = a.call("get_order", map[string]any{"purchaseKey": key})
		}
		if got.Status == "processing" {
			return errors.New("it does")
		}
		return nil
	})
	return got
}

// expected says whether a tool's answer is what a case calls it.
func expected(got told, kind string) bool {
	switch kind {
	case "ok":
		return !got.Failed && got.Status == "paid"
	case "ambiguous":
		return got.Code == "payment_outcome_unknown" || got.Status == "processing"
	case "terms":
		return got.Code == "terms_mismatch"
	case "denied":
		return got.Code == "denied_by_local_policy"
	case "refused":
		return got.Failed && got.Code != "payment_outcome_unknown" && got.Code != "denied_by_local_policy" &&
			got.Code != "terms_mismatch"
	}
	return got.Failed
}

func signedFor(s *stage, key string) bool {
	for _, e := range s.book().Purchases {
		if e.Key == key && len(e.Authorizations) > 0 {
			return true
		}
	}
	return false
}
