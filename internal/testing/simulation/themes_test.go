package simulation_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/stripe"
)

// everything is what a world is about in which all is drawn by itself. What has to come together for a fault to show
// seldom does there. So two of three worlds over PostgreSQL are about one thing: what belongs to it is there at once
// and often, and little else is, so that it takes less time, too.
const everything = "everything"

// Some do more where the world is about them.
const decisions, owners = "decisions", "owners"

// crowds is not drawn: such a world takes as long as a dozen others, and less for each purchase.
const crowds = "crowds"

// themes are what else a world may be about.
var themes = map[string]func(p *plan, rng *rand.Rand){
	crowds:         aboutCrowds,
	decisions:      aboutDecisions,
	owners:         aboutOwners,
	"nodes":        aboutNodes,
	"rush":         aboutRush,
	"workers":      aboutWorkers,
	"restores":     aboutRestores,
	"facilitators": aboutFacilitators,
	"cheats":       aboutCheats,
	"strangers":    aboutStrangers,
	"vendors":      aboutVendors,
	"forks":        aboutForks,
	"operations":   aboutOperations,
}

// themeOf draws what the world of a seed is about.
func themeOf(seed uint64) string {
	rng := diceNamed(seed, "theme")
	if rng.IntN(3) == 0 {
		return everything
	}
	drawn := slices.Sorted(maps.Keys(themes))
	return oneOf(rng, slices.DeleteFunc(drawn, func(theme string) bool { return theme == crowds })...)
}

// about leaves of a plan what goes wrong between the processes and everybody else, and adds what it is about.
func (p plan) about(theme string) plan {
	p = p.safe()
	p.nodes, p.reorganisations, p.lags, p.outages, p.lies, p.liar = 1, 0, 0, 0, 0, false
	p.cheats, p.droughts, p.smart = false, false, false
	rng := diceNamed(p.seed, theme)
	p.theme, p.buyers, p.over = theme, 3+rng.IntN(6), time.Duration(1+rng.IntN(10))*time.Second
	p.until = time.Minute
	themes[theme](&p, rng)
	return p
}

// oneOf draws one of several.
func oneOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// aboutDecisions: much waits for operators, and several decide at once.
func aboutDecisions(p *plan, rng *rand.Rand) {
	p.operators, p.pace, p.stops = len(persons), fast, 0
	p.doubt, p.byHand = rng.IntN(2) == 0, rng.IntN(2) == 0
	switch rng.IntN(4) {
	case 0, 1:
		p.second = true
	case 2:
		p.refusing = true
	default:
		p.refusing, p.holds = true, true
	}
	p.owners, p.spending = rng.IntN(2) == 0, rng.IntN(4) == 0
	p.dies(rng)
}

// aboutOwners: whoever has something does something with it.
func aboutOwners(p *plan, rng *rand.Rand) {
	p.owners, p.most = true, p.buyers
	p.issuer, p.supplier = oneOf(rng, issuers...), oneOf(rng, suppliers...)
	p.operators, p.spending = rng.IntN(2), rng.IntN(4) == 0
	p.dies(rng)
}

// dies lets processes die mostly where something was done or stored.
func (p *plan) dies(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		p.weather.crash, p.weather.sends = 500+rng.IntN(4000), 10
	}
}

// aboutNodes: one of three nodes is false, and good ones are silent at times.
func aboutNodes(p *plan, rng *rand.Rand) {
	p.nodes, p.lies, p.liar = 3, float64(6+rng.IntN(20)), rng.IntN(2) == 0
	p.outages, p.block = oneOf(rng, 0, 2, 6.0), oneOf(rng, 0, 0, 2)
	p.settlers = oneOf(rng, settlers...)
	p.cheats, p.smart = rng.IntN(3) == 0, rng.IntN(4) == 0 && p.settlers == "relayer"
	p.hostile = p.hostile || p.cheats
}

// aboutRush: all come at once when everything is up, and there is not enough for all of them. Processes stand still for
// moments, and what waits then goes on at once.
func aboutRush(p *plan, rng *rand.Rand) {
	p.over, p.buyers, p.hostile = rush, 12+rng.IntN(16), true
	p.processes, p.opens = 1+rng.IntN(2), 6*time.Second
	p.stops, p.stopped = 60, time.Second/2
	p.bounded = rng.IntN(2) == 0
	if rng.IntN(3) > 0 {
		p.float = money.Cents(2500 * (p.buyers/4 + rng.IntN(p.buyers/2)))
	}
}

// aboutCrowds: hundreds buy within a minute, so that what is done in batches is done in large ones.
func aboutCrowds(p *plan, rng *rand.Rand) {
	p.buyers, p.over = 400+rng.IntN(800), time.Duration(5+rng.IntN(55))*time.Second
	p.processes, p.block, p.float = 1+rng.IntN(3), oneOf(rng, 0, 0, 10, 30), 0
}

// aboutWorkers: processes stand still for longer than their leases last, die, and hear late.
func aboutWorkers(p *plan, rng *rand.Rand) {
	p.processes, p.stops, p.stopped = 2+rng.IntN(2), float64(3+rng.IntN(8)), 40*time.Second
	p.weather.late, p.weather.crash = 2_000+rng.IntN(30_000), rng.IntN(10_000)
	p.owners, p.most = rng.IntN(2) == 0, 3
	p.dies(rng)
}

// aboutRestores: the database is put back.
func aboutRestores(p *plan, rng *rand.Rand) {
	p.nodes, p.restores = oneOf(rng, 1, 1, 3), true
	p.dark = oneOf(rng, 0, 0, time.Hour, 20*time.Hour)
}

// aboutOperations: an operator changes keys by the handbook, and closes what is sold for a while.
func aboutOperations(p *plan, rng *rand.Rand) {
	p.rotates, p.until, p.processes = true, 90*time.Second, 1+rng.IntN(3)
	p.over = time.Duration(20+rng.IntN(40)) * time.Second
	p.buyers = 6 + rng.IntN(8)
	p.nodes, p.stops, p.stopped = oneOf(rng, 1, 1, 3), oneOf(rng, 0, 0, 2.0), 30*time.Second
	if rng.IntN(3) == 0 {
		p.restores, p.dark = true, oneOf(rng, 0, 0, time.Hour)
		return
	}
	p.closes, p.pauses = rng.IntN(2) == 0, rng.IntN(3) == 0
	if p.pauses {
		return // nothing is refunded: after two reverts a refund is not sent again before its signature has expired
	}
	p.operators, p.owners, p.most = rng.IntN(2), rng.IntN(2) == 0, 3
	p.refusing = p.operators > 0 && rng.IntN(2) == 0
	p.dies(rng)
	if rng.IntN(2) == 0 {
		p.closes, p.processes, p.over = false, 2+rng.IntN(2), 15*time.Second // while some do not know the new one
		which := rng.IntN(3)
		if which != 0 {
			p.issuer, p.nextIssuer = lithic.Name, stripe.Name // both show cards on a page
		}
		if which != 1 {
			p.nextSupplier = esimaccess.Name
		}
	}
}

// aboutFacilitators: one settles, and does not always do what it says.
func aboutFacilitators(p *plan, rng *rand.Rand) {
	p.settlers = oneOf(rng, "facilitator,relayer", "relayer,facilitator", "facilitator")
	p.droughts = p.settlers != "facilitator" && rng.IntN(2) == 0
	p.nodes = oneOf(rng, 1, 3)
}

// aboutCheats: what was signed is spent in another way.
func aboutCheats(p *plan, rng *rand.Rand) {
	p.cheats, p.hostile, p.buyers = true, true, 6+rng.IntN(8)
	p.settlers, p.block = oneOf(rng, settlers...), oneOf(rng, 0, 0, 3)
	p.smart = p.settlers == "relayer" && rng.IntN(3) == 0
	p.nodes = oneOf(rng, 1, 3)
}

// aboutStrangers: some want what is not theirs.
func aboutStrangers(p *plan, rng *rand.Rand) {
	p.strangers, p.owners, p.most = 2, true, 2
	p.bounded = rng.IntN(3) == 0
	p.smart = rng.IntN(4) == 0
}

// aboutVendors: real adapters, whose vendors answer wrongly now and then.
func aboutVendors(p *plan, rng *rand.Rand) {
	p.issuer, p.supplier = oneOf(rng, issuers[1:]...), oneOf(rng, suppliers[1:]...)
	p.operators = rng.IntN(2)
	p.dies(rng)
	if rng.IntN(2) == 0 {
		p.slips = float64(4 + rng.IntN(60))
	} else {
		p.owners, p.most = rng.IntN(2) == 0, 3
	}
}

// aboutForks: blocks are replaced, and nodes lag.
func aboutForks(p *plan, rng *rand.Rand) {
	p.reorganisations, p.lags, p.nodes = float64(4+rng.IntN(20)), oneOf(rng, 0, 4.0), oneOf(rng, 1, 3)
	p.block, p.fees = oneOf(rng, 0, 0, 1, 3), oneOf(rng, 0, 3.0)
	p.settlers = oneOf(rng, settlers...)
}
