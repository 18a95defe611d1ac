package voucher

import (
	"fmt"
	"sync"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/secret"
)

// Press prints vouchers. It is the provider of the product, and stays when the program ends.
type Press struct {
	mu      sync.Mutex
	printed map[fulfilment.Ref]voucher
	refused map[fulfilment.Ref]*fulfilment.Refusal
	broken  bool
}

// Code is what the buyer of a voucher gets.
type Code struct{ Text secret.Text }

type voucher struct {
	code Code
	// buyer is a note of whom it is for, see order.BuyerOf.
	buyer string
}

// NewPress makes a press that has printed nothing.
func NewPress() *Press {
	return &Press{printed: map[fulfilment.Ref]voucher{}, refused: map[fulfilment.Ref]*fulfilment.Refusal{}}
}

// Break makes the press refuse what it has not printed yet, or stops that.
func (p *Press) Break(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

// Traits say that a reference is printed once only.
func (p *Press) Traits() fulfilment.Traits { return fulfilment.Traits{Deduplicates: true} }

// Print prints a voucher under a reference. Its error is a *fulfilment.Refusal.
func (p *Press) Print(ref fulfilment.Ref, buyer string) (Code, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.printed[ref]; ok {
		return known.code, nil
	}
	if no := p.refused[ref]; no != nil {
		return Code{}, no
	}
	if p.broken {
		no := &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "the press is broken"}
		p.refused[ref] = no
		return Code{}, no
	}
	made := voucher{Code{secret.New(fmt.Sprintf("VOUCHER-%04d", len(p.printed)+1))}, buyer}
	p.printed[ref] = made
	return made.code, nil
}

// Printed reads a voucher back by its reference. fulfilment.ErrNoRef when there is none.
func (p *Press) Printed(ref fulfilment.Ref) (Code, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, ok := p.printed[ref]
	if !ok {
		return Code{}, fulfilment.ErrNoRef
	}
	return made.code, nil
}
