package simulation_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
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

// purchaseState is what is known of one key.
type purchaseState struct {
	order, transaction string
	// state is how far the order was, as last told, and body what it was bought with.
	state, body string
}

// ranks is how far an order has come. What is told later is never less.
var ranks = map[string]int{
	"settled": 1, "provisioning": 2, "fulfilled": 3, "refund_pending": 3, "operator_review": 3, "refunded": 4,
}

// model is one key, as a buyer may rely on it. The first order that anybody is told of is the only one; whoever asks
// after that was told gets the same, or an answer that decides nothing; nobody is asked to pay again, and nobody who
// asks for something else gets it.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (all [][]porcupine.Operation) {
		at := map[[2]string]int{}
		for _, o := range history {
			r := o.Input.(request)
			key := [2]string{r.payer, r.key}
			i, ok := at[key]
			if !ok {
				i = len(all)
				at[key], all = i, append(all, nil)
			}
			all[i] = append(all[i], o)
		}
		return all
	},
	Init: func() any { return purchaseState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(purchaseState), input.(request), output.(reply)
		switch {
		case out.status == http.StatusOK && s.order == "":
			return in.paid && out.order != "", purchaseState{out.order, out.transaction, out.state, in.body}
		case out.status == http.StatusOK:
			same := out.order == s.order && out.transaction == s.transaction && in.body == s.body &&
				ranks[out.state] >= ranks[s.state]
			return same, purchaseState{s.order, s.transaction, out.state, s.body}
		case out.status == http.StatusPaymentRequired && in.paid:
			return s.order == "", s
		case out.again: // whatever the status is
			return s.order == "" || !in.paid, s
		}
		return true, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// linearizable reports whether the history of what buyers saw can have happened, one request at a time. What nobody
// knows may have happened at any time.
func linearizable(t *testing.T, history []event, reorganised bool) bool {
	t.Helper()
	var all []porcupine.Operation
	for i, e := range history {
		if reorganised { // another transaction may have made the transfer in the end
			e.transaction = ""
		}
		o := porcupine.Operation{
			ClientId: i % 64, Input: e.request, Output: e.reply, Call: e.from.UnixNano(), Return: e.to.UnixNano(),
		}
		if e.status == 0 {
			o.Return = math.MaxInt64
		}
		all = append(all, o)
	}
	return porcupine.CheckOperations(model, all)
}
