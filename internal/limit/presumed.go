package limit

import (
	"context"
	"sync/atomic"
)

// presumption is how a request with a payment was counted before the payment is verified.
type presumption struct {
	limits  *Limiter
	counted bool
	refusal error
	// other is set once the request is known to be none of the unpaid ones.
	other atomic.Bool
}

type presumptionKey struct{}

// Presume counts the request of ctx, which has a payment header, as an unpaid one: anybody can send arbitrary text in
// that header. NotUnpaid reverses that. The request continues even beyond the rate, because only the records show that
// it repeats a paid order; until then Excess is its answer.
func (l *Limiter) Presume(ctx context.Context) context.Context {
	_, counted, err := l.take(Unpaid, Address(ctx), 1)
	if !counted {
		return ctx
	}
	return context.WithValue(ctx, presumptionKey{}, &presumption{limits: l, counted: err == nil, refusal: err})
}

func presumed(ctx context.Context) *presumption {
	p, _ := ctx.Value(presumptionKey{}).(*presumption)
	return p
}

// NotUnpaid returns the request to the unpaid rate: its payment is authentic, or it was counted as a payment and
// refused.
func NotUnpaid(ctx context.Context) {
	p := presumed(ctx)
	if p != nil && !p.other.Swap(true) && p.counted {
		p.limits.Give(Unpaid, Address(ctx))
	}
}

// Excess is the Refusal of a request beyond the rate whose payment is not proven authentic yet; nil for all others.
func Excess(ctx context.Context) error {
	if p := presumed(ctx); p != nil && !p.other.Load() {
		return p.refusal
	}
	return nil
}

// Answered ends a presumed request: one that was answered with its Excess is counted as a refusal.
func Answered(ctx context.Context) {
	if p := presumed(ctx); p != nil && Excess(ctx) != nil {
		p.limits.refuse(Unpaid)
	}
}

// Unproven counts a request whose payment is not authentic, unless it was presumed so, and returns the Refusal
// of one that is too many.
func (l *Limiter) Unproven(ctx context.Context) error {
	if presumed(ctx) != nil {
		return Excess(ctx)
	}
	_, _, err := l.Take(Unpaid, Address(ctx))
	return err
}
