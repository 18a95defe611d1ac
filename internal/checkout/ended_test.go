package checkout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
)

// ending is a caller's context that ends when it is looked at for the nth time: at the nth place where somebody waits,
// or is about to.
type ending struct {
	context.Context
	err error

	mu   sync.Mutex
	left int
	done chan struct{}
}

func endingAt(t *testing.T, n int, err error) *ending {
	t.Helper()
	return &ending{Context: t.Context(), err: err, left: n, done: make(chan struct{})}
}

// look counts, and reports whether the context has ended.
func (e *ending) look() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left == 0 {
		close(e.done)
	}
	return e.left <= 0
}

// still reports whether it has not ended.
func (e *ending) still() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left > 0
}

// Done implements context.Context.
func (e *ending) Done() <-chan struct{} { e.look(); return e.done }

// Err implements context.Context.
func (e *ending) Err() error {
	if e.look() {
		return e.err
	}
	return nil
}

// A caller's time ends at every place of a purchase where anybody looks: the answer is the order, that the caller left
// before anything was claimed, or the order whose payment is under way. It is never that something is down, and a
// payment that was begun is finished.
func TestCallersTimeEndsAtEveryAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		for what, do := range map[string]func(ctx context.Context, b checkouttest.Buyer, key string) error{
			"ask for terms": func(ctx context.Context, _ checkouttest.Buyer, key string) error {
				_, err := s.Buy(ctx, checkouttest.Purchase(key))
				if fault.Of(err) == fault.PaymentRequired {
					return nil
				}
				return err
			},
			"pay": func(ctx context.Context, b checkouttest.Buyer, key string) error {
				p := checkouttest.Purchase(key)
				p.Payment = b.Pay(t, s.Challenge(t, p))
				_, err := s.Buy(ctx, p)
				if spent := s.Spent(b); err == nil && spent == 0 || fault.Of(err) == fault.Canceled && spent != 0 {
					t.Errorf("spent %s with %v", spent, err)
				}
				return err
			},
			"order": func(ctx context.Context, b checkouttest.Buyer, key string) error {
				_, err := s.Create(ctx, checkout.CreateRequest{
					Kind: checkouttest.Purchase(key).Kind, Owner: b.Address, Key: key, Request: checkouttest.Purchase(key).Request,
				})
				return err
			},
			"list orders": func(ctx context.Context, b checkouttest.Buyer, _ string) error {
				_, _, err := s.Orders(ctx, b.Address, checkout.Query{Limit: 10})
				return err
			},
		} {
			for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
				want := fault.Canceled
				if ended == context.DeadlineExceeded {
					want = fault.DeadlineExceeded
				}
				ends := 0
				for n := 1; n < 200; n++ {
					ctx := endingAt(t, n, ended)
					err := do(ctx, s.NewBuyer(t), what+time.Now().String())
					switch f, _ := fault.As(err); {
					case err == nil:
					case f != nil && f.Code == want:
						ends++
					case f != nil && f.Code == fault.SettlementUnknown && f.OrderID != "":
					default:
						t.Errorf("%s, whose caller's time ends at look %d: %v", what, n, err)
					}
					if ctx.still() {
						break // it was never looked at so often
					}
				}
				// A payment goes on without its caller, and terms are given without asking anybody.
				if waits := what == "order" || what == "list orders"; waits && ends == 0 {
					t.Errorf("%s: no caller has left", what)
				}
			}
		}
	})
}
