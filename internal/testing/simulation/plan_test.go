package simulation_test

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// rush is in how much time all buyers of some worlds come, so that what they do is done in batches.
const rush = 50 * time.Millisecond

// mostSkew is by how much a process's clock is wrong at most: two differ by less than payment.ClockSkew.
const mostSkew = 5 * time.Second

// planOf draws a run over PostgreSQL.
func planOf(seed uint64) plan { return planAbout(cmp.Or(*about, themeOf(seed)), seed) }

// planAbout draws a run that is about something.
func planAbout(theme string, seed uint64) plan {
	p := drawnOf(seed)
	p.screens = diceNamed(seed, "screens").IntN(6) == 0
	if theme != everything {
		return p.about(theme)
	}
	if diceNamed(seed, "put back").IntN(4) == 0 {
		p = p.safe()
		p.restores = true
	}
	return p
}

// drawnOf draws a run. Some are calm, and some are hell. Each part has dice of its own, so that a part that is added
// changes nothing of what a seed means.
func drawnOf(seed uint64) plan {
	dice := func(part string) *rand.Rand { return diceNamed(seed, part) }
	// sometimes is a number below most that is often nothing, and sometimes much.
	sometimes := func(part string, most int) int {
		rng := dice(part)
		if rng.IntN(3) == 0 {
			return 0
		}
		return rng.IntN(most) >> rng.IntN(8)
	}
	// often is how often something happens in a minute.
	often := func(part string) float64 { return float64(sometimes(part, 1000)) / 200 }
	p := plan{
		seed: seed, theme: everything, most: mostOwners, stopped: longestStop, pace: pace,
		until:     24 * time.Hour,
		processes: 1 + dice("processes").IntN(3), buyers: 4 + dice("buyers").IntN(12),
		hostile: dice("hostile").IntN(4) > 0, over: time.Duration(1+dice("over").IntN(30)) * time.Second,
		weather: weather{
			latency: time.Duration(1+dice("latency").IntN(20)) * time.Millisecond,
			refused: sometimes("refused", 60_000), lost: sometimes("lost", 60_000), late: sometimes("late", 20_000),
			crash: sometimes("crash", 10_000),
		},
		issuer: issuers[dice("issuer").IntN(len(issuers))], supplier: suppliers[dice("supplier").IntN(len(suppliers))],
		nodes: []int{1, 1, 3}[dice("nodes").IntN(3)], block: []int{0, 0, 1, 3}[dice("block").IntN(4)],
		reorganisations: often("reorganisations"), lags: often("lags"), outages: often("outages"), fees: often("fees"),
		stops: often("stops"),
	}
	p.settlers = settlers[dice("settlers").IntN(len(settlers))]
	p.operators = []int{0, 1, 1, 2}[dice("operators").IntN(4)]
	p.spending = dice("spending").IntN(4) == 0
	p.owners = dice("owners").IntN(2) == 0
	p.strangers = []int{0, 1, 1, 1}[dice("strangers").IntN(4)]
	p.bounded, p.counted = dice("bounded").IntN(3) < 2, dice("counted").IntN(2) == 0
	p.refusing, p.holds = dice("refusing").IntN(4) == 0, dice("holds").IntN(4) == 0
	if p.byHand = dice("byHand").IntN(4) == 0; p.byHand || p.refusing || p.holds {
		p.operators = max(p.operators, 1)
	}
	if dice("rush").IntN(4) == 0 {
		p.over = rush
	}
	if dice("quorum").IntN(4) == 0 {
		p.nodes = 3
	}
	if rng := dice("falsehood"); p.nodes == 3 && rng.IntN(4) > 0 {
		p.lies, p.liar = float64(4+rng.IntN(16)), rng.IntN(2) == 0
	}
	if rng := dice("churn"); p.reorganisations > 0 && rng.IntN(3) == 0 {
		p.reorganisations = float64(5 + rng.IntN(20))
	}
	if rng := dice("stalls"); rng.IntN(4) == 0 {
		p.stops = float64(2 + rng.IntN(6))
	}
	if rng := dice("skew"); rng.IntN(2) == 0 {
		p.skew = time.Duration(1 + rng.Int64N(int64(mostSkew)))
	}
	// Who comes at once is claimed for in batches, and those have to see what each other takes of a float.
	if rng := dice("float"); rng.IntN(4) == 0 || p.over == rush && rng.IntN(2) == 0 {
		p.float = money.Cents(2500 * (1 + rng.IntN(p.buyers)))
	}
	p.droughts = dice("droughts").IntN(4) == 0
	p.smart = strings.Contains(p.settlers, "relayer") && dice("smart").IntN(3) == 0
	if dice("cheats").IntN(3) == 0 {
		// What was paid in a block that is then replaced would be lost otherwise, as chain.paid_at says.
		p.cheats, p.hostile, p.reorganisations = true, true, 0
	}
	// Either people are odd, or the chain: a world with all of it takes too long.
	if dice("odd").IntN(2) == 0 {
		p = p.buyersAlone()
	} else {
		if p.second = dice("second").IntN(2) == 0; p.second {
			p.operators, p.byHand, p.refusing = len(persons), false, false
		}
		p.lies, p.liar, p.droughts = 0, false, false
	}
	// The false node's word has to be doubted also while a good one is silent.
	if rng := dice("silence"); p.lies > 0 && rng.IntN(2) == 0 {
		p.outages = float64(1 + rng.IntN(5))
	}
	if p.bounded {
		// Who pays for more than they have has spent the money of the payment that was replaced.
		p.cheats, p.reorganisations = false, 0
	}
	if rng := dice("slips"); !p.cheats && !p.bounded && rng.IntN(3) == 0 {
		p.slips = float64(2 + rng.IntN(40))
	}
	return p
}

// buyersAlone leaves out of a plan who does more than buying, and what only operators can end.
func (p plan) buyersAlone() plan {
	p.owners, p.strangers, p.bounded, p.refusing, p.holds, p.byHand = false, 0, false, false, false, false
	return p
}

// planInMemory draws a run in memory, in which there are more buyers. What whole programs have alone is not there.
func planInMemory(seed uint64) plan {
	p := drawnOf(seed)
	// Nobody raises the fee of a transaction that waits: that is the relayer's work.
	p.settlers, p.operators, p.second, p.nodes, p.fees, p.smart = "relayer", 0, false, 1, 0, false
	p.lies, p.liar, p.droughts, p.cheats, p.slips = 0, false, false, false, 0
	p = p.buyersAlone()
	p.buyers, p.float, p.block = 10*p.buyers, 10*p.float, 10*p.block
	if seed%2 == 0 {
		p.weather.sends = 20
	}
	return p
}
