package chain

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

// NodeHead is the latest block of one node.
type NodeHead struct {
	// Node is the node's position among the configured ones, from 1.
	Node   string
	Number uint64
	Time   time.Time
}

// Heads reads the latest block of every node. Nodes that do not answer in time are left out.
func (c *Chain) Heads(ctx context.Context) []NodeHead {
	heads, _ := c.heads(ctx, c.config.CallTimeout) // the metrics say which do not answer
	all := make([]NodeHead, len(heads))
	for i, t := range heads {
		all[i] = NodeHead{t.node.name, t.head.Number, t.head.time().UTC()}
	}
	slices.SortFunc(all, func(a, b NodeHead) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// Ether is what an account holds for gas, in wei.
func (c *Chain) Ether(ctx context.Context, of x402.Address) (*big.Int, error) {
	wei, err := c.ether(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("read the ether of %s: %w", of, err)
	}
	return wei, nil
}
