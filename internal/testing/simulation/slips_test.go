package simulation_test

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// unplayed are the faults by which a provider says what is not so, against what its documentation promises: that it has
// not made what it has made, or has not yet, or has. Nobody can know better. And those that break a connection: what is
// between the processes and the providers loses answers by itself, and no handler may panic here.
var unplayed = []vendorfake.Mode{
	vendorfake.NotFound, vendorfake.Late, "early",
	vendorfake.TimeoutBefore, vendorfake.TimeoutAfter, vendorfake.Hang, vendorfake.Truncated,
}

// slip lets a provider answer a request wrongly now and then, by any of the faults that it can have.
func (w *world) slip(over <-chan struct{}) {
	rng := diceNamed(w.plan.seed, "slips in time")
	apis := []string{"/control/", "/control/esim/"}
	if w.plan.issuer != sandboxes {
		apis[0] = "/" + w.plan.issuer + "/control/"
	}
	if w.plan.supplier != sandboxes {
		apis[1] = "/" + w.plan.supplier + "/control/"
	}
	for pause(time.Duration(rng.ExpFloat64()/w.plan.slips*float64(time.Minute))+1, over) {
		api := apis[rng.IntN(len(apis))]
		var can struct{ Modes map[string][]vendorfake.Mode }
		w.control(http.MethodGet, api+"faults", nil, &can)
		op := slices.Sorted(maps.Keys(can.Modes))[rng.IntN(len(can.Modes))]
		modes := slices.DeleteFunc(can.Modes[op], func(m vendorfake.Mode) bool {
			// What an eSIM has cost, only its supplier knows.
			return slices.Contains(unplayed, m) || m == vendorfake.WrongAmount && api == apis[1]
		})
		fault := vendorfake.Fault{Op: op, Mode: modes[rng.IntN(len(modes))], Times: 1 + rng.IntN(3)}
		w.control(http.MethodPost, api+"faults", fault, nil)
		w.bus.note("the next %d of %s go wrong: %s", fault.Times, op, fault.Mode)
	}
	for _, api := range apis {
		w.control(http.MethodDelete, api+"faults", nil, nil)
	}
}
