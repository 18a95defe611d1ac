package sandbox

import (
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// rules are how long things take and what has to stay on a card.
type rules struct {
	settle, slow, reverse time.Duration
	retention             money.Cents
}

// fate is what a request's scenario does to it. The zero fate succeeds after the usual delay.
//
//	001  stays pending for ever
//	002  is declined: the holder is rejected
//	003  withdrawals are declined, those of the request and all those on a card opened with it
//	005  takes 30 s
//	006  succeeds and is then reversed: a card is terminated and what is on it goes back to the
//	     master balance; a movement is undone
//
// The other scenarios concern other parts of the service and change nothing here.
type fate struct {
	stuck    bool
	declined string
	slow     bool
	reversed bool
}

func fateOfCard(scenario string) fate {
	switch scenario {
	case "001":
		return fate{stuck: true}
	case "002":
		return fate{declined: codeHolderDeclined}
	case "005":
		return fate{slow: true}
	case "006":
		return fate{reversed: true}
	default:
		return fate{}
	}
}

func fateOfMovement(m moveRow, card cardRow) fate {
	if m.Direction == outOfCard && (m.Scenario == "003" || card.Scenario == "003") {
		return fate{declined: codeDeclined}
	}
	return fateOfCard(m.Scenario)
}

// due is when something that begins at a time ends; zero for never.
func (r rules) due(at time.Time, f fate) time.Time {
	switch {
	case f.stuck:
		return time.Time{}
	case f.slow:
		return at.Add(r.slow)
	default:
		return at.Add(r.settle)
	}
}
