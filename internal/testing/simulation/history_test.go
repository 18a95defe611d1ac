package simulation_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/history"
)

// request is what a buyer asked for: a purchase by its key, with a payment or without.
type request struct {
	payer, key string
	paid       bool
	// nonce is the payment's, and body what was asked for besides the key.
	nonce, body string
}

// reply is what the buyer was told; the zero one says that nobody knows.
type reply struct {
	status             int
	code               string
	again              bool
	order, transaction string
	amount, state      string
}

// event is a request with its reply, in the world's time.
type event struct {
	request
	reply
	from, to time.Time
}

var ranks = history.Ranks

// linearizable reports whether the history of what buyers saw can have happened, one request at a time.
func linearizable(t *testing.T, seen []event, reorganised bool) bool {
	t.Helper()
	var all []history.Event
	for _, e := range seen {
		all = append(all, history.Event{
			Request: history.Request{Payer: e.payer, Key: e.key, Paid: e.paid, Nonce: e.nonce, Body: e.body},
			Reply: history.Reply{
				Status: e.status, Code: e.code, Again: e.again, Order: e.order, Transaction: e.transaction, Amount: e.amount,
				State: e.state,
			},
			From: e.from, To: e.to,
		})
	}
	broken := history.Check(all, history.World{Reorganised: reorganised})
	for _, one := range broken {
		t.Logf("this cannot have happened: %+v", one)
	}
	return len(broken) == 0
}
