package stripe

import (
	"context"
	"fmt"
	"net/http"
	"time"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// floatReader keeps the float that was read last. Reading it takes a request for each hundred cards of the account, so
// it is read now and then, and goes on where the last call had to stop.
type floatReader struct {
	every, most time.Duration
	turn        turn

	// The others belong to whoever has the turn.
	last   card.Inventory
	under  *floatPass
	passed bool
}

// floatPass is one reading of the float under way.
type floatPass struct {
	asOf      time.Time
	use       use
	after     string
	committed money.Cents
}

// Stock implements card.Stock. It fails while cards cannot be opened in the holder's name.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	if err := i.float.turn.take(ctx); err != nil {
		return card.Inventory{}, fmt.Errorf("read the float: %w", err)
	}
	defer i.float.turn.leave()
	if i.float.fresh(i.now(), i.float.every) {
		return i.float.last, nil
	}
	if err := i.readFloat(ctx); err != nil {
		// Time was up: what was read before is still true as of then.
		if ctx.Err() != nil && i.float.fresh(i.now(), i.float.most) {
			return i.float.last, nil
		}
		return card.Inventory{}, fmt.Errorf("read the float: %w", err)
	}
	return i.float.last, nil
}

func (f *floatReader) fresh(now time.Time, within time.Duration) bool {
	age := now.Sub(f.last.AsOf)
	return f.passed && age >= 0 && age < within
}

// readFloat reads what the account has for cards and none is allowed to spend. What is spent meanwhile makes it less,
// never more: the account is read last.
func (i *Issuer) readFloat(ctx context.Context) error {
	f := i.float
	if f.under == nil || i.now().Sub(f.under.asOf) >= f.most {
		asOf := i.now().UTC()
		if err := i.holder(ctx); err != nil {
			return err
		}
		u, err := i.inUse(ctx)
		if err != nil {
			return err
		}
		f.under = &floatPass{asOf: asOf, use: u}
	}
	pass := f.under
	for {
		p, err := i.listCards(ctx, span{after: pass.after})
		if err != nil {
			return err
		}
		for _, a := range p.items {
			committed, err := pass.use.committed(a)
			if err != nil {
				f.under = nil
				return err
			}
			pass.committed += committed
		}
		if !p.more {
			break
		}
		pass.after = p.items[len(p.items)-1].ID
	}
	f.under = nil
	there, err := i.issuingBalance(ctx)
	if err != nil {
		return err
	}
	f.last, f.passed = card.Inventory{Float: there - pass.committed, AsOf: pass.asOf}, true
	return nil
}

// issuingBalance is what the account has for cards and no authorization holds.
func (i *Issuer) issuingBalance(ctx context.Context) (money.Cents, error) {
	p := &stripego.BalanceRetrieveParams{}
	var got balanceAnswer
	err := i.send(ctx, request{
		op: "stock", method: http.MethodGet, path: "/v1/balance", route: "/v1/balance", params: p,
		bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err != nil {
		return 0, err
	}
	return got.dollars()
}
