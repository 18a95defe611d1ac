package topup

import (
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

// LoadStep is the load of a card in a delivery.
const LoadStep = "load"

var loads = fulfilment.Series{
	Namespace: uuid.MustParse("6f1b5a52-8f0e-5c3e-9a57-0d1b7c5b2f10"), Name: LoadStep, Step: LoadStep,
}

// LoadRef is the reference of an attempt at a load at the issuer of cards, by the order's name.
func LoadRef(name string, attempt int) fulfilment.Ref { return loads.Ref(name, attempt) }
