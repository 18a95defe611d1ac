package fulfilment

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
)

// Ref is our own reference for one call at a provider. It is stored before the first call, stays the same
// however often that is sent, and is how an unknown outcome is read back.
type Ref uuid.UUID

// String is the 36-character form that is sent.
func (r Ref) String() string { return uuid.UUID(r).String() }

// ErrNoRef says that a provider knows no call by a reference: authoritative, but only after the
// provider's visibility delay has passed since the last send.
var ErrNoRef = errors.New("the provider knows no such reference")

// ErrNotSent says that a call failed before anything of it could take effect, as its adapter can prove: it has not
// begun the one exchange that takes effect. The call is made again under the same reference, so an adapter that is
// wrong buys twice. It never stands for an answer to that exchange, nor for what broke it.
var ErrNotSent = errors.New("nothing was sent")

// DeriveRef is the reference that follows from a name in a product's namespace, so that a lost row cannot change it.
func DeriveRef(namespace uuid.UUID, name string) Ref {
	return Ref(uuid.NewSHA1(namespace, []byte(name)))
}

// Series is the references of one kind of call in the delivery of orders: one for each attempt, by the order's name.
type Series struct {
	// Namespace and Name are what references are derived from. They never change.
	Namespace uuid.UUID
	Name      string
	// Step names the call to operators, and in the markers of jobs.
	Step string
}

// Ref is the reference of an attempt at the delivery of the order with a name. Of an order that was made for goods
// that a provider has, the first attempt's is that of the goods.
func (s Series) Ref(name string, attempt int) Ref {
	if goods, ok := order.RecoveredRef(name); ok && attempt <= 1 {
		return Ref(goods)
	}
	return DeriveRef(s.Namespace, numbered(s.Name+"/"+name, attempt))
}

// Marker is the Step of an attempt's Call.
func (s Series) Marker(attempt int) string { return numbered(s.Step, attempt) }

// References are what the provider knows an order's delivery by: one for each attempt so far.
func (s Series) References(o order.Order) []order.Reference {
	var all []order.Reference
	for n := 1; n <= o.Delivery; n++ {
		all = append(all, order.Reference{Step: s.Step, Version: n, Reference: s.Ref(o.Name(), n).String()})
	}
	return all
}

// numbered is a name, with the number of the attempt from the second on.
func numbered(name string, attempt int) string {
	if attempt <= 1 {
		return name
	}
	return fmt.Sprintf("%s/%d", name, attempt)
}
