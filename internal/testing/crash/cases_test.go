package crash_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/faultpoint"
)

// crash is one case: who settles, where the program dies, where it dies again while it recovers, and how
// the buyer asks again.
type crash struct {
	// flow is what is bought; empty is a card.
	flow string
	// settler is the order of settlement; empty is the relayer.
	settler       string
	first, second string
	// signs lets the buyer repeat the purchase with a new authorization instead of the same header.
	signs bool
	// drawn cases may turn out to have no second point: what runs next to the order may be done already.
	drawn bool
}

func (c crash) name() string {
	name := c.first
	for _, other := range []string{c.settler, c.flow} {
		if other != "" {
			name = other + " " + name
		}
	}
	if c.second != "" {
		name += " then " + c.second
	}
	if c.signs {
		name += " signing again"
	}
	return name
}

// The orders of settlement.
const (
	relayer     = "relayer"
	facilitator = "facilitator"
	both        = "facilitator,relayer"
)

// The flows.
const (
	issue       = "card issue"
	topup       = "card top-up"
	refund      = "refund of a card"
	topupRefund = "refund of a top-up"
	later       = "card order paid later"
	esim        = "eSIM"
)

// passes are how often an ordinary purchase reaches a point; each pass is a case.
func passes(flow, settler, point string) int {
	area, _, _ := strings.Cut(point, ".")
	switch {
	case area == "owe", area == "observe": // nothing of an ordinary purchase
		return 0
	// they have tests of their own
	case slices.Contains([]string{"void", "expire", "bump", "arrive", "prove", "catchup", "recover", "close", "return",
		"cancel", "extend", "webhook", "batch", "resume"},
		area):
		return 0
	case area == "create" && flow != later:
		return 0
	case area == "journal", point == "issuer.unloaded": // none of the sandbox
		return 0
	// none of an ordinary purchase
	case area == "periodic", area == "transactions", area == "timeline", point == "transaction.reverted":
		return 0
	case flow != refund && area == "refund":
		return 0
	case flow == refund && (area == "fee" || point == "card.before_commit" || point == "card.activated"):
		return 0
	case flow == refund && area == "transaction" && settler != relayer: // the refund is the relayer's all the same
		return 1
	case flow == refund && area == "transaction":
		return 2
	case area == "transaction" && settler != relayer: // of both, the second has nothing to do
		return 0
	case area == "facilitator" && settler == relayer:
		return 0
	case flow != topup && area == "load":
		return 0
	case (flow == esim || flow == refund) && area == "turn": // nothing moves on a card
		return 0
	case flow != esim && (area == "esim" || area == "supplier"):
		return 0
	case (flow == topup || flow == esim) && (area == "card" || area == "issuer" || area == "fee"):
		return 0
	case area == "move", flow != topup && flow != refund && flow != esim && area == "submit":
		return 2
	}
	return 1
}

// points are all points of an ordinary purchase, with their passes, in its order.
func points(flow, settler string) []string {
	var all []string
	for _, p := range faultpoint.Points() {
		for n := 1; n <= passes(flow, settler, p.Name); n++ {
			name := p.Name
			if n > 1 {
				name += "@" + strconv.Itoa(n)
			}
			all = append(all, name)
		}
	}
	return all
}

// fault is the point with a mode.
func fault(point, mode string) string {
	name, pass, counted := strings.Cut(point, "@")
	if counted {
		mode += "@" + pass
	}
	return name + ":" + mode
}

// ordinary are the cases of the ordinary run: before and after what cannot be undone, most of them with another kill
// while the program recovers, and an answer that is half written, which no simulated process has. The simulation kills
// its processes at any call of a purchase.
func ordinary() []crash {
	return []crash{
		{first: "submit.marked", second: "issuer.after_open"},
		{first: "answer.half", signs: true},
		{flow: later, first: "create.committed", second: "claim.committed"},
		{flow: refund, first: "refund.stored", second: "refund.sent"},
		{flow: esim, first: "supplier.after_order", second: "esim.installed"},
	}
}

func once() []crash {
	var cases []crash
	for _, p := range points(issue, relayer) {
		cases = append(cases, crash{first: p})
	}
	return cases
}

// whileItRecovers takes the points at which something irreversible has just begun or ended.
func whileItRecovers() []crash {
	return []crash{
		{first: "claim.before_commit", second: "claim.committed"},
		{first: "transaction.before_commit", second: "transaction.stored"},
		{first: "transaction.stored", second: "transaction.sent"},
		{first: "transaction.sent", second: "settle.seen"},
		{first: "settle.before_commit", second: "settle.before_commit"},
		{first: "issuer.before_open", second: "issuer.before_open"},
		{first: "issuer.after_open", second: "card.before_commit"},
		{first: "card.activated", second: "fulfill.leased"},
		{first: "fee.after_withdraw", second: "fee.leased"},
	}
}

// whileAFacilitatorSettles takes the points at which it matters who settles.
func whileAFacilitatorSettles() []crash {
	return []crash{
		{settler: facilitator, first: "claim.committed"},
		{settler: facilitator, first: "facilitator.before_settle"},
		{settler: facilitator, first: "facilitator.after_settle"},
		{settler: facilitator, first: "facilitator.after_settle", signs: true},
		{settler: facilitator, first: "facilitator.before_settle", second: "facilitator.after_settle"},
		{settler: facilitator, first: "facilitator.after_settle", second: "settle.seen"},
		{settler: both, first: "facilitator.before_settle"},
		{settler: both, first: "facilitator.after_settle", second: "settle.before_commit"},
	}
}

// whileACardIsToppedUp takes the points at which a top-up differs from the sale of a card.
func whileACardIsToppedUp() []crash {
	return []crash{
		{flow: topup, first: "claim.committed"},
		{flow: topup, first: "transaction.sent"},
		{flow: topup, first: "turn.before_commit"},
		{flow: topup, first: "load.taken"},
		{flow: topup, first: "load.before_send"},
		{flow: topup, first: "load.after_send"},
		{flow: topup, first: "load.after_send", second: "move.before_commit", signs: true},
		{flow: topup, first: "fulfill.done", signs: true},
	}
}

// whileAnOrderIsPaidLater takes the points that a purchase at once does not have; with time, every one from the order's
// opening on.
func whileAnOrderIsPaidLater() []crash {
	var cases []crash
	bought := points(issue, relayer)
	for _, p := range points(later, relayer) {
		if torture() || !slices.Contains(bought, p) {
			cases = append(cases, crash{flow: later, first: p})
		}
	}
	return append(cases,
		crash{flow: later, first: "create.before_commit", second: "create.committed"},
		crash{flow: later, first: "create.committed", second: "claim.committed"},
		crash{flow: later, first: "claim.before_commit", second: "claim.committed", signs: true},
		crash{flow: later, first: "transaction.sent", second: "settle.before_commit", signs: true},
		crash{flow: later, first: "answer.half", signs: true},
	)
}

// whileMoneyGoesBack takes the points of a refund, and those before it at which the issuer has refused and the database
// does not know it yet.
func whileMoneyGoesBack() []crash {
	cases := []crash{
		{first: "issuer.after_open"},
		{first: "move.before_commit@2"},
		{first: "move.committed@2"},
		{first: "transaction.before_commit@2"},
		{first: "transaction.stored@2"},
		{first: "transaction.sent@2"},
		{first: "fulfill.done"},
		{first: "refund.stored", second: "refund.before_send"},
		{first: "refund.before_send", second: "refund.sent"},
		{first: "transaction.stored@2", second: "refund.seen"},
		{first: "transaction.sent@2", second: "refund.before_commit"},
		{first: "refund.sent", second: "refund.before_commit", signs: true},
		{first: "refund.before_commit", second: "refund.before_commit"},
		{first: "refund.committed", second: "fulfill.done", signs: true},
		{settler: facilitator, first: "refund.sent"},
	}
	for _, p := range points(refund, relayer) {
		if strings.HasPrefix(p, "refund.") {
			cases = append(cases, crash{first: p})
		}
	}
	for i := range cases {
		cases[i].flow = refund
	}
	return append(cases, crash{flow: topupRefund, first: "load.after_send"}, crash{
		flow: topupRefund, first: "refund.sent",
	})
}

// whileAnESIMIsSold takes the points at which an eSIM differs from the sale of a card.
func whileAnESIMIsSold() []crash {
	return []crash{
		{flow: esim, first: "claim.committed"},
		{flow: esim, first: "transaction.sent"},
		{flow: esim, first: "settle.committed", signs: true},
		{flow: esim, first: "esim.reserved"},
		{flow: esim, first: "submit.marked"},
		{flow: esim, first: "supplier.before_order"},
		{flow: esim, first: "supplier.after_order"},
		{flow: esim, first: "supplier.after_order", second: "esim.before_commit", signs: true},
		{flow: esim, first: "esim.before_commit"},
		{flow: esim, first: "esim.installed"},
		{flow: esim, first: "esim.installed", second: "fulfill.leased"},
		{flow: esim, first: "answer.half"},
		{flow: esim, first: "fulfill.done", signs: true},
	}
}

// andTheBuyerSignsAnew makes the buyer sign a new authorization for each repeat. One that is not needed is never sent.
func andTheBuyerSignsAnew() []crash {
	return []crash{
		{first: "buy.verified", signs: true},
		{first: "claim.committed", signs: true},
		{first: "transaction.stored", signs: true},
		{first: "transaction.sent", signs: true},
		{first: "settle.committed", signs: true},
		{first: "answer.half", signs: true},
	}
}

// again reports whether a program that died at the first point can reach the second when it recovers.
func again(flow, settler, first, second string) bool {
	all := points(flow, settler)
	last := slices.Index(all, "claim.before_commit") // what comes before is done by the buyer alone
	i, j := slices.Index(all, first), slices.Index(all, second)
	if strings.HasPrefix(first, "move.") && strings.HasSuffix(first, "@2") {
		i = slices.Index(all, "fulfill.done") - 1
	}
	if strings.HasPrefix(first, "attempt.") && strings.HasSuffix(first, "@2") {
		i = slices.Index(all, "refund.before_send")
	}
	name, _, passed := strings.Cut(second, "@")
	switch {
	case passed:
		return false // the pass before may be done already
	case name == "create.committed":
		return i < j // the key finds the order
	case strings.HasPrefix(name, "answer."):
		return true // every repeat is answered
	case j <= last:
		return i <= j
	case name == "transaction.before_commit" || name == "transaction.stored":
		return i <= slices.Index(all, "transaction.before_commit")
	case name == "move.before_commit" || name == "move.committed":
		return i <= slices.Index(all, "fulfill.done")-1
	case strings.HasSuffix(name, "committed"), strings.HasPrefix(name, "facilitator."), name == "transaction.sent",
		name == "issuer.after_open",
		name == "card.activated", name == "fee.after_withdraw", name == "load.after_send",
		name == "refund.stored", name == "refund.sent", name == "supplier.after_order", name == "esim.installed":
		return i < j // done once
	}
	return i <= j
}
