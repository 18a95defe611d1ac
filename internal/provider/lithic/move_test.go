package lithic_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

func newToken() uuid.UUID { return uuid.UUID(fulfilmenttest.NewRef()) }

// TestLoadsAndWithdrawalsAtOnceAddUp: 200 cards, each loaded and withdrawn from at the same time, with some answers
// lost and sent again.
func TestLoadsAndWithdrawalsAtOnceAddUp(t *testing.T) {
	const pairs = 200
	b := start(t, lithicfake.Config{}, false)
	accounts := make([]string, pairs)
	for n := range accounts {
		accounts[n] = b.opened(2500).ID
	}
	var done sync.WaitGroup
	for n, account := range accounts {
		if n%10 == 0 {
			b.fake.Fault("move", vendorfake.TimeoutAfter)
		}
		for direction, amount := range map[card.Direction]money.Cents{card.Load: 2450, card.Withdrawal: 1000} {
			m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account, Direction: direction, Amount: amount}
			done.Go(func() {
				err := errors.New("not sent")
				for sent := 0; err != nil && sent <= pairs; sent++ {
					_, err = b.Move(t.Context(), m)
				}
				if err != nil {
					t.Errorf("%s: %v", direction, err)
				}
			})
		}
	}
	done.Wait()
	for _, account := range accounts {
		b.wantBalance(account, 2500+2450-1000)
	}
	if float, want := b.fake.FloatBalance(), int64(10_000_000-pairs*(2500+2450-1000)); float != want {
		t.Errorf("the float is %d, want %d", float, want)
	}
	if n := len(b.fake.Transfers()); n != 3*pairs {
		t.Errorf("%d transfers", n)
	}
}

func TestAnswersThatAreNotOursSettleNothing(t *testing.T) {
	for _, mode := range []vendorfake.Mode{
		vendorfake.WrongAmount, vendorfake.Inexact, vendorfake.WrongUnit, vendorfake.WrongCurrency, vendorfake.Partial,
		vendorfake.WrongOwner,
	} {
		t.Run(string(mode), func(t *testing.T) {
			b := start(t, lithicfake.Config{}, false)
			a := b.opened(2500)
			m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000}
			b.fake.Fault("move", mode)
			_, err := b.Move(t.Context(), m)
			b.handles().WantUnknown(t, err)
			// It happened, and reads back right.
			moved, err := b.Moved(t.Context(), a.ID, m.Ref)
			if err != nil || moved.State != card.MoveSucceeded || moved.Amount != 1000 {
				t.Errorf("read back: %+v, %v", moved, err)
			}
			b.fake.Fault("move", mode)
			_, err = b.Open(t.Context(), opening(2500))
			b.handles().WantUnknown(t, err)
		})
	}
}

func TestTransferThatWasTakenBackStaysPending(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000}
	if _, err := b.Move(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []vendorfake.Mode{lithicfake.Reversed, vendorfake.UnknownState} {
		b.fake.Fault("moved", mode)
		moved, err := b.Moved(t.Context(), a.ID, m.Ref)
		if err != nil || moved.State != card.MovePending || moved.Refusal != nil {
			t.Errorf("%s reads as %+v, %v", mode, moved, err)
		}
		b.fake.Fault("moved", mode)
		read, err := b.Account(t.Context(), a.Ref)
		if err != nil || read.State != card.AccountPending || read.Refusal != nil {
			t.Errorf("%s of the opening reads as %+v, %v", mode, read, err)
		}
	}
}

func TestMovementOfAnotherCardIsNoRecord(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a, other := b.opened(2500), b.opened(2500)
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1000}
	if _, err := b.Move(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	_, err := b.Moved(t.Context(), other.ID, m.Ref)
	b.handles().WantUnknown(t, err)
	for _, account := range []string{"", "..", "a/b", "crd_1"} {
		_, err := b.Moved(t.Context(), account, m.Ref)
		b.handles().WantUnknown(t, err)
		_, err = b.Move(t.Context(), card.Movement{Ref: fulfilmenttest.NewRef(), Account: account, Amount: 1})
		b.handles().WantUnknown(t, err)
		if _, err := b.Balance(t.Context(), account); err == nil {
			t.Errorf("the balance of %q was read", account)
		}
	}
}

func TestOverspentCardShowsItsDebt(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	b.fake.Spend(a.ID, 2700)
	b.wantBalance(a.ID, -200)
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1}
	moved, err := b.Move(t.Context(), m)
	if err != nil || moved.State != card.MoveFailed || moved.Refusal.Code != card.RefusedFunds {
		t.Errorf("withdrawn from nothing: %+v, %v", moved, err)
	}
}

func TestBalancesInOtherUnitsAreRefused(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for _, mode := range []vendorfake.Mode{vendorfake.Inexact, vendorfake.WrongCurrency} {
		b.fake.Fault("balance", mode)
		if got, err := b.Balance(t.Context(), a.ID); err == nil {
			t.Errorf("%s reads as %+v", mode, got)
		}
		b.fake.Fault("stock", mode)
		if got, err := b.Stock(t.Context()); err == nil {
			t.Errorf("%s reads as %+v", mode, got)
		}
	}
}

// The vendor quotes card numbers and the key wherever it can.
func TestSecretsStayOutOfErrorsLogsAndSpans(t *testing.T) {
	const number, key = "5230480300000017", "key-of-the-test"
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	var out bytes.Buffer
	quoted := number + " 5230 4803 0000 0017 " + key + ` \"cvv\":\"987\"`
	stated := `{"message":"` + quoted + `","debugging_request_id":"94d5e915-xxxx"}`
	for _, c := range []struct {
		status int
		body   string
	}{
		{200, `{"token":"` + quoted + `","pan":"` + number + `","cvv":"987"}`},
		{200, `{"data":["` + quoted + `"],"has_more":false}`},
		{400, stated}, {404, stated}, {422, stated}, {429, stated}, {500, stated}, {502, quoted},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		cfg := configOf(web.URL, web.Client())
		cfg.Tracer, cfg.Inline, cfg.Key = tracer, true, secret.New("unused-"+key)
		i := dial(t, cfg)
		on := newToken().String()
		for name, call := range map[string]func() error{
			"credentials": func() error { _, err := i.Credentials(t.Context(), on); return err },
			"balance":     func() error { _, err := i.Balance(t.Context(), on); return err },
			"open":        func() error { _, err := i.Open(t.Context(), opening(2500)); return err },
			"account":     func() error { _, err := i.Account(t.Context(), fulfilmenttest.NewRef()); return err },
			"accounts":    func() error { _, _, err := i.Accounts(t.Context(), ""); return err },
			"changes":     func() error { _, err := i.Changes(t.Context(), ""); return err },
			"lock":        func() error { _, err := i.SetFrozen(t.Context(), on, true); return err },
			"purchases":   func() error { _, _, err := i.Transactions(t.Context(), on, "", 10); return err },
		} {
			err := call()
			if err == nil || errors.Is(err, fulfilment.ErrNoRef) {
				t.Errorf("%s took %d %s: %v", name, c.status, c.body, err)
			}
			slog.New(slog.NewJSONHandler(&out, nil)).Error(name, "err", err)
			fmt.Fprintf(&out, "%v %+v %#v\n", err, err, err)
		}
		web.Close()
	}
	for _, span := range spans.Ended() {
		fmt.Fprintf(&out, "%s %v %v %v\n", span.Name(), span.Attributes(), span.Status(), span.Events())
	}
	text := strings.NewReplacer(" ", "", "-", "", `\`, "").Replace(out.String())
	for _, hidden := range []string{number, `"cvv":"987"`, "keyofthetest"} {
		if strings.Contains(text, hidden) {
			t.Errorf("%s shows in %s", hidden, out.String())
		}
	}
}
