package checkout

import (
	"sync"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// challengeKey is the cache key of a challenge within one second: a quote's expiry is in seconds, and extensions depend
// on the resource.
type challengeKey struct {
	kind        order.Kind
	request     order.Fingerprint
	resource    x402.Resource
	price       money.Cents
	item        string
	description string
	// preview has no key, and offers nothing.
	preview bool
}

// maxChallenges bounds the cache, whose keys unauthenticated callers choose.
const maxChallenges = 256

// challenges caches the challenges of the current second, so that a flood of unpaid requests signs and encodes each of
// them once.
type challenges struct {
	mu     sync.Mutex
	second int64
	made   map[challengeKey]error
}

func (c *challenges) get(second int64, q challengeKey, make func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second != c.second || len(c.made) == maxChallenges {
		c.second, c.made = second, map[challengeKey]error{}
	}
	made, ok := c.made[q]
	if !ok {
		made = make()
		c.made[q] = made
	}
	return made
}
