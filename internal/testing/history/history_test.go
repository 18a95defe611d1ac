package history

import (
	"fmt"
	"testing"
	"time"
)

// at is a moment of a test.
func at(second int) time.Time { return time.Unix(int64(second), 0) }

// did is an event between two seconds: a paid request with the body of all of them.
func did(from, to int, told Reply) Event {
	return Event{Request{"0xa", "k", true, "0x1", "card"}, told, at(from), at(to)}
}

// sold is the answer that an order is fulfilled.
func sold(order string) Reply {
	return Reply{Status: 200, Order: order, Transaction: "0xt", Amount: "25", State: "fulfilled"}
}

func (e Event) with(change func(*Event)) Event { change(&e); return e }

var (
	unknown   Reply
	wait      = Reply{Status: 503, Code: "settlement_unknown"}
	asked     = Reply{Status: 402, Again: true}
	payAgain  = Reply{Status: 503, Again: true}
	early     = Reply{Status: 200, Order: "o", Transaction: "0xt", Amount: "25", State: "settled"}
	otherTx   = Reply{Status: 200, Order: "o", Transaction: "0xu", Amount: "25", State: "fulfilled"}
	dearer    = Reply{Status: 200, Order: "o", Transaction: "0xt", Amount: "26", State: "fulfilled"}
	otherBody = func(e *Event) { e.Body = "esim" }
	unpaid    = func(e *Event) { e.Paid, e.Nonce = false, "" }
	otherKey  = func(e *Event) { e.Key = "l" }
)

// TestWhatABuyerMayRelyOn: of each key, and at any time.
func TestWhatABuyerMayRelyOn(t *testing.T) {
	for name, c := range map[string]struct {
		history []Event
		want    bool
	}{
		"nothing":                          {nil, true},
		"bought and repeated":              {[]Event{did(0, 1, sold("o")), did(2, 3, sold("o"))}, true},
		"asked to wait, then told":         {[]Event{did(0, 1, wait), did(2, 3, sold("o"))}, true},
		"asked to pay before it was known": {[]Event{did(0, 1, asked), did(2, 3, sold("o"))}, true},
		"waiting after it was told":        {[]Event{did(0, 1, sold("o")), did(2, 3, wait)}, true},
		"further each time":                {[]Event{did(0, 1, early), did(2, 3, sold("o"))}, true},
		"another key":                      {[]Event{did(0, 1, sold("o")), did(2, 3, sold("p")).with(otherKey)}, true},
		"unpaid and asked":                 {[]Event{did(0, 1, sold("o")), did(2, 3, asked).with(unpaid)}, true},
		"unknown, then told":               {[]Event{did(0, 1, unknown), did(2, 3, sold("o"))}, true},
		"asked to pay while it was told":   {[]Event{did(0, 5, sold("o")), did(1, 4, asked)}, true},

		"two orders":                          {[]Event{did(0, 1, sold("o")), did(2, 3, sold("p"))}, false},
		"two orders at once":                  {[]Event{did(0, 5, sold("o")), did(1, 4, sold("p"))}, false},
		"two transactions":                    {[]Event{did(0, 1, sold("o")), did(2, 3, otherTx)}, false},
		"two prices":                          {[]Event{did(0, 1, sold("o")), did(2, 3, dearer)}, false},
		"asked to pay again":                  {[]Event{did(0, 1, sold("o")), did(2, 3, asked)}, false},
		"told that it is safe to pay again":   {[]Event{did(0, 1, sold("o")), did(2, 3, payAgain)}, false},
		"asked to pay again after an unknown": {[]Event{did(0, 9, unknown), did(1, 2, sold("o")), did(3, 4, asked)}, false},
		"less far than before":                {[]Event{did(0, 1, sold("o")), did(2, 3, early)}, false},
		"something else for the key":          {[]Event{did(0, 1, sold("o")), did(2, 3, sold("o")).with(otherBody)}, false},
		"an order without a payment":          {[]Event{did(0, 1, sold("o")).with(unpaid)}, false},
		"an order without a name":             {[]Event{did(0, 1, sold(""))}, false},
	} {
		if got := len(Check(c.history, World{})) == 0; got != c.want {
			t.Errorf("%s: can have happened: %v, want %v", name, got, c.want)
		}
	}
}

// TestReplacedBlocksChangeTheTransactionAlone: it is the same order all the same.
func TestReplacedBlocksChangeTheTransactionAlone(t *testing.T) {
	w := World{Reorganised: true}
	if broken := Check([]Event{did(0, 1, sold("o")), did(2, 3, otherTx)}, w); len(broken) != 0 {
		t.Errorf("another transaction: %v", broken)
	}
	if broken := Check([]Event{did(0, 1, sold("o")), did(2, 3, sold("p"))}, w); len(broken) != 1 {
		t.Error("another order can have happened")
	}
}

// TestRestoredDatabaseForgetsOnlyWhatItHasLost: what was told before the copy binds who sells from it.
func TestRestoredDatabaseForgetsOnlyWhatItHasLost(t *testing.T) {
	w := World{Losses: []Loss{{at(10), at(19), at(20)}}}
	for name, c := range map[string]struct {
		history []Event
		want    bool
	}{
		"told before, and the same after":      {[]Event{did(0, 1, sold("o")), did(30, 31, sold("o"))}, true},
		"told before, and less far after":      {[]Event{did(0, 1, sold("o")), did(30, 31, early)}, true},
		"lost, and another after":              {[]Event{did(11, 12, sold("o")), did(30, 31, sold("p"))}, true},
		"lost, and asked to pay after":         {[]Event{did(11, 12, sold("o")), did(30, 31, asked)}, true},
		"told while it was put back":           {[]Event{did(11, 12, sold("o")), did(19, 21, sold("p"))}, true},
		"told while it was copied":             {[]Event{did(9, 11, sold("o")), did(30, 31, sold("p"))}, true},
		"told before, and another after":       {[]Event{did(0, 1, sold("o")), did(30, 31, sold("p"))}, false},
		"told before, and asked to pay after":  {[]Event{did(0, 1, sold("o")), did(30, 31, asked)}, false},
		"two orders before it was put back":    {[]Event{did(11, 12, sold("o")), did(13, 14, sold("p"))}, false},
		"two orders after":                     {[]Event{did(30, 31, sold("o")), did(32, 33, sold("p"))}, false},
		"asked to pay after it was told again": {[]Event{did(30, 31, sold("o")), did(32, 33, asked)}, false},
	} {
		if got := len(Check(c.history, w)) == 0; got != c.want {
			t.Errorf("%s: can have happened: %v, want %v", name, got, c.want)
		}
	}
	twice := World{Losses: []Loss{{at(10), at(19), at(20)}, {at(40), at(49), at(50)}}}
	history := []Event{did(0, 1, sold("o")), did(30, 31, sold("o")), did(60, 61, sold("p"))}
	if len(Check(history, twice)) != 1 {
		t.Error("what was told before two restores is forgotten")
	}
}

// TestHistoriesOfManyKeysAreLookedAtAlone, so that thousands of requests take no time.
func TestHistoriesOfManyKeysAreLookedAtAlone(t *testing.T) {
	var all []Event
	for n := range 2000 {
		key := func(e *Event) { e.Key = fmt.Sprint(n % 500) }
		all = append(all, did(0, 100, unknown).with(key), did(n, n+3, sold("o")).with(key), did(n, n+2, wait).with(key))
	}
	all = append(all, did(5000, 5001, sold("p")).with(func(e *Event) { e.Key = "7" }))
	broken := Check(all, World{})
	if len(broken) != 1 || broken[0][0].Key != "7" {
		t.Errorf("%d keys cannot have happened", len(broken))
	}
}
