package admin

import (
	"math/big"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// Gauges are present values that operators watch. What could not be read is left out.
type Gauges struct {
	At       time.Time
	Floats   []Float
	Accounts []Account
	Jobs     []job.Depth
	Nodes    []NodeHead
}

// Float is what a provider can still take from what was paid to it in advance.
type Float struct {
	Provider string
	Units    money.USDC
}

// Account is one of the service's accounts on chain.
type Account struct {
	// Name is payee, treasury or relayer.
	Name    string
	Address x402.Address
	// Units is what it holds of the asset, and Wei what it holds for gas; nil where it needs none.
	Units *money.USDC
	Wei   *big.Int
}

// NodeHead is the latest block of one node of the chain.
type NodeHead struct {
	// Node is the node's position among the configured ones, from 1.
	Node  string
	Block uint64
	Age   time.Duration
}
