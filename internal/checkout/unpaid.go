package checkout

import (
	"sync"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// question is all that tells two challenges of the same second apart: a quote's time is in seconds, and
// extensions belong to their resource.
type question struct {
	kind        order.Kind
	request     order.Fingerprint
	resource    x402.Resource
	price       money.Cents
	item        string
	description string
}

// maxQuestions bounds what is remembered of strangers, who choose what they ask.
const maxQuestions = 256

// challenges remembers those of the running second, so that a flood of unpaid requests signs and encodes
// each of them once.
type challenges struct {
	mu     sync.Mutex
	second int64
	made   map[question]error
}

func (c *challenges) remember(second int64, q question, make func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second != c.second || len(c.made) == maxQuestions {
		c.second, c.made = second, map[question]error{}
	}
	made, ok := c.made[q]
	if !ok {
		made = make()
		c.made[q] = made
	}
	return made
}
