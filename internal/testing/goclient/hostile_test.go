package goclient_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// hostileCase is one of clients/testing/hostile.json: what the service lies, what the client then does, and the most
// that it may cost.
type hostileCase struct {
	Name, About           string
	Lies                  []map[string]any
	Steps                 []hostileStep
	Transfers, Signatures int
	Caps                  struct{ Day string }
}

type hostileStep struct{ Do, Key, Expect string }

// told is what the service has seen and done.
type told struct {
	Requests  []struct{ Path, Payment string }
	Taken     []struct{ Moved bool }
	Elsewhere int
}

func hostileCases(t *testing.T) (cases []hostileCase) {
	t.Helper()
	data, err := os.ReadFile("../../../clients/testing/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

func TestClientLosesNothingToAHostileService(t *testing.T) {
	for _, c := range hostileCases(t) {
		if !c.floods() {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				s := newStageWithout(t)
				playHostile(s, s.Lying(), c)
			})
		}
	}
}

// An answer is read up to its bound, even one that is compressed or endless. What is counted is the memory of a
// process, so the client has one without the server.
func TestClientBoundsTheMemoryOfAnswers(t *testing.T) {
	if os.Getenv("ROAMCARD_READY") == "" {
		t.Parallel()
		ready := filepath.Join(t.TempDir(), "ready.json")
		data, err := json.Marshal(devserver.Start(t).Ready)
		if err := errors.Join(err, os.WriteFile(ready, data, 0o600)); err != nil {
			t.Fatal(err)
		}
		alone := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		alone.Env = append(os.Environ(), "ROAMCARD_READY="+ready)
		if out, err := alone.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+"/") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, c := range hostileCases(t) {
		if !c.floods() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s := newStageWithout(t)
			h := s.Lying()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			playHostile(s, h, c)
			runtime.ReadMemStats(&after)
			const most = 48 << 20 // each of up to four answers has 64 MiB
			if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
				t.Errorf("%d MiB were taken", taken>>20)
			}
		})
	}
}

func (c hostileCase) floods() bool {
	return strings.Contains(c.Name, "bomb") || strings.Contains(c.Name, "endless")
}

// succeeds reports whether a case ends with a purchase at the real service, which may take more than one repeat.
func (c hostileCase) succeeds() bool {
	return slices.ContainsFunc(c.Steps, func(s hostileStep) bool { return s.Expect == "ok" })
}

func playHostile(s *stage, h *proxy, c hostileCase) {
	t, w := s.t, s.wallet()
	t.Helper()
	client := s.buyer(w, func(cfg *roamcard.Config) {
		cfg.HTTP, cfg.Timeout = through(h.URL), time.Minute
		if !c.succeeds() {
			cfg.MaxReplays = new(1)
		}
		if c.Caps.Day != "" {
			cfg.Policy.MaxPerDay = 100
		}
	})
	devserver.Exchange(t, h.Control, map[string]any{"lies": c.Lies}, new(told))
	keys := map[string]string{}
	for i, step := range c.Steps {
		key, given := keys[step.Key]
		switch {
		case !given && step.Do == "pay":
			opened, err := client.Orders.CreateESIM(t.Context(), "", roamcard.NewKey())
			if err != nil {
				t.Fatal(err)
			}
			key = opened.GetOrderId()
			keys[step.Key] = key
		case !given:
			key = step.Key
		}
		var bought string
		var err error
		asked := cmp.Or(key, roamcard.NewKey())
		apptest.Await(t, "the service behind it can settle", func() error {
			bought, err = doHostile(t.Context(), client, step.Do, asked)
			// It is a busy machine's, and asks to be asked again. No case says so.
			if errors.Is(err, &roamcard.APIError{Code: "dependency_down"}) {
				return err
			}
			return nil
		})
		if key == "" {
			key = cmp.Or(keyOf(err), bought)
			keys["told"] = key
		}
		if got := kindOf(err); got != step.Expect && (step.Expect != "error" || err == nil) {
			t.Errorf("step %d, %s: %s, %v; want %s", i+1, step.Do, got, err, step.Expect)
		}
		if err != nil && w.signed() > 0 && (key == "" || keyOf(err) != key) && step.Expect != "denied" {
			t.Errorf("step %d: the error has the key %q: %v", i+1, keyOf(err), err)
		}
	}
	seen := new(told)
	h.Told(seen)
	if n := len(s.transfers(w)); n > c.Transfers || w.signed() > c.Signatures {
		t.Errorf("%d transfers and %d signatures, want at most %d and %d", n, w.signed(), c.Transfers, c.Signatures)
	}
	if seen.Elsewhere > 0 {
		t.Errorf("%d requests went to another host", seen.Elsewhere)
	}
}

// doHostile buys, and gives the key under which it was bought.
func doHostile(ctx context.Context, client *roamcard.Client, what, key string) (string, error) {
	var bought *roamcard.Purchase
	var err error
	switch what {
	case "card":
		bought, err = client.Cards.Purchase(ctx, key)
	case "topup":
		bought, err = client.Cards.TopUp(ctx, 2500, key)
	case "pay":
		_, err = client.Orders.Pay(ctx, key)
		return key, err
	case "esim-any", "esim":
		var esim *roamcard.BoughtESIM
		if esim, err = client.ESIM.Purchase(ctx, "", key); err == nil {
			bought = &esim.Purchase
		}
	default:
		err = errors.New("no such step: " + what)
	}
	if err != nil {
		return "", err
	}
	return bought.IdempotencyKey, nil
}

// kindOf names an error as the cases do.
func kindOf(err error) string {
	var api *roamcard.APIError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, roamcard.ErrAmbiguousPayment):
		return "ambiguous"
	case errors.Is(err, roamcard.ErrTermsMismatch):
		return "terms"
	case errors.Is(err, roamcard.ErrPolicyDenied):
		return "denied"
	case errors.As(err, &api):
		return "refused"
	}
	return "other"
}

// keyOf is the key that an error names, if there is one.
func keyOf(err error) string {
	if err == nil {
		return ""
	}
	return roamcard.ReportOf(err).IdempotencyKey
}
