package fulfilment

// Refusal is a provider's definite no: the call had no effect and never will have one under this reference.
// Every other error of a call means that its outcome is unknown.
type Refusal struct {
	// Code is the neutral reason: one of those below, or one of the product's.
	Code string
	// Message is the provider's own text, for evidence and operators, not for buyers.
	Message string
}

// The neutral codes that refusals of every provider may have.
const (
	RefusedFloat    = "insufficient_float"
	RefusedRequest  = "request_rejected"
	RefusedUnstated = "rejected"
)

// Error implements error.
func (r *Refusal) Error() string { return "the provider refused: " + r.Code + ": " + r.Message }

// Stated is r, or the refusal of a provider that reports one without a reason.
func (r *Refusal) Stated() *Refusal {
	if r == nil {
		return &Refusal{Code: RefusedUnstated}
	}
	return r
}
