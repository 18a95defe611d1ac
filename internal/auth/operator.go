package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
)

// Operator is a named token of a person who runs the service. Several may be active at a time, so that one can be
// replaced without a gap.
type Operator struct {
	// Name is what the audit trail says.
	Name string
	// Hash is the SHA-256 of the token.
	Hash [32]byte
}

// Operator finds the operator behind an Authorization header. It compares with every token, in
// the same time whichever matches or none does. Whatever is wrong, the fault
// operator_token_invalid is the same. The caller audits every use.
func (a *Auth) Operator(_ context.Context, authorizationHeader string) (Caller, error) {
	token, ok := strings.CutPrefix(authorizationHeader, bearer)
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range a.operators {
		same := subtle.ConstantTimeCompare(hash[:], a.operators[i].Hash[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if !ok || token == "" || found < 0 {
		return Caller{}, fault.New(fault.OperatorTokenInvalid, "The operator token is missing or not one of ours.")
	}
	return Caller{Kind: KindOperator, Name: a.operators[found].Name}, nil
}
