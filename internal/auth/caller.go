package auth

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/x402"
)

// Scope is one thing a session may do.
type Scope string

// The scopes. Every wallet gets the first three; ScopeActivity is for the wallets in
// Config.ActivityWallets.
const (
	ScopeOrders   Scope = "orders"
	ScopeCards    Scope = "cards"
	ScopeReveal   Scope = "reveal"
	ScopeActivity Scope = "activity"
)

// CallerKind says how a caller authenticated.
type CallerKind string

// The kinds of caller. The zero kind is an anonymous caller.
const (
	KindAnonymous CallerKind = ""
	KindWallet    CallerKind = "wallet"
	KindOperator  CallerKind = "operator"
	// KindDelivery is the holder of a delivery token: it stands for the owner of one order and has no
	// session and no scopes.
	KindDelivery CallerKind = "delivery"
	// KindWatch is the holder of a watch token: it stands for the owner of one order and may only watch that one.
	KindWatch CallerKind = "watch"
)

// Caller is who a request comes from. The zero Caller is anonymous and may do nothing that needs
// a scope.
type Caller struct {
	Kind CallerKind
	// Wallet, SessionID, Scopes and ExpiresAt are those of a wallet's session. A delivery and a watch have the Wallet, and
	// a wallet that signed in for one request has no SessionID.
	Wallet    x402.Address
	SessionID uuid.UUID
	Scopes    []Scope
	ExpiresAt time.Time
	// Name is an operator's name, fit for the audit trail, Role what the operator may do, and Source where the operator
	// is known from. ExpiresAt is zero for one of the configuration.
	Name   string
	Role   Role
	Source string
	// Minters are the operators who minted the operator's token, and those who minted theirs.
	Minters []string
	// Order is the id of the only order that a watch may see.
	Order string
}

// Has reports whether the caller was granted a scope. Operators have none: their routes ask for
// KindOperator.
func (c Caller) Has(scope Scope) bool { return slices.Contains(c.Scopes, scope) }
