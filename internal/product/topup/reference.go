package topup

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
)

// references is the namespace of our references at the issuer of cards. They are derived, so that a lost row could not change
// them.
var references = uuid.MustParse("6f1b5a52-8f0e-5c3e-9a57-0d1b7c5b2f10")

// LoadStep is the load in a delivery, as the job's marker and the references name it.
const LoadStep = "load"

// LoadRef is the reference of an attempt at a load at the issuer, by the order's name.
func LoadRef(name string, attempt int) uuid.UUID {
	if goods, ok := order.AdoptedRef(name); ok && attempt <= 1 {
		return goods
	}
	return uuid.NewSHA1(references, []byte(numbered(LoadStep+"/"+name, attempt)))
}

// numbered is a name, with the number of the attempt from the second on.
func numbered(name string, attempt int) string {
	if attempt <= 1 {
		return name
	}
	return fmt.Sprintf("%s/%d", name, attempt)
}

// referencesOf are the references of every attempt so far.
func referencesOf(o order.Order) (all []order.Reference) {
	for n := 1; n <= o.Delivery; n++ {
		all = append(all, order.Reference{Step: LoadStep, Version: n, Reference: LoadRef(o.Name(), n).String()})
	}
	return all
}
