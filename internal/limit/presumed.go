package limit

import (
	"context"
	"sync/atomic"
)

// presumption is how a request that brings a payment was counted before anyone looked at the payment.
type presumption struct {
	limits  *Limiter
	counted bool
	refusal error
	// other is set once the request is known to be none of the unpaid ones.
	other atomic.Bool
}

type presumptionKey struct{}

// Presume counts the request of ctx, which brings a payment, as an unpaid one: anybody can send some text as
// a payment. NotUnpaid takes it back. The request goes on also when there were too many, because only the records
// can say that it repeats what is paid; until then Excess is what it has to be answered with.
func (l *Limiter) Presume(ctx context.Context) context.Context {
	_, counted, err := l.take(Unpaid, Address(ctx))
	if !counted {
		return ctx
	}
	return context.WithValue(ctx, presumptionKey{}, &presumption{limits: l, counted: err == nil, refusal: err})
}

func presumed(ctx context.Context) *presumption {
	p, _ := ctx.Value(presumptionKey{}).(*presumption)
	return p
}

// NotUnpaid says that the request is none of the unpaid ones: its payment is authentic, or it was counted as a
// payment and refused.
func NotUnpaid(ctx context.Context) {
	p := presumed(ctx)
	if p != nil && !p.other.Swap(true) && p.counted {
		p.limits.Give(Unpaid, Address(ctx))
	}
}

// Excess is the Refusal of a request that is one too many unless its payment is authentic; nil for all others.
func Excess(ctx context.Context) error {
	if p := presumed(ctx); p != nil && !p.other.Load() {
		return p.refusal
	}
	return nil
}

// Answered ends a request that was presumed: if it was answered with its Excess, that is counted as a refusal.
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
