package simulation_test

import (
	"context"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/x402"
)

// screeners is where the processes ask about payers, where they do.
const screeners = "https://screening.sim"

// perSecond is how many questions the service answers in any second. More buyers than that may come in one.
const perSecond = 3

// screen is a service that names wallets which are not to be served. As long as things go wrong, it answers something
// else at times, and no more often than its quota has it.
type screen struct {
	seed uint64
	// well is closed when nothing goes wrong any more.
	well <-chan struct{}

	mu    sync.Mutex
	named map[x402.Address]bool
	// asked counts the questions about each wallet, and lately are the times of those within the last second.
	asked  map[string]int
	lately []time.Time
}

func (w *world) newScreen() *screen {
	return &screen{seed: w.plan.seed, well: w.well, named: map[x402.Address]bool{}, asked: map[string]int{}}
}

// names says that a buyer is not to be served, in every fifth case; never one who does something with what it has.
func (s *screen) names(b *buyer) bool {
	plan := b.world.plan
	owner := plan.owners && b.nth < plan.most
	if !plan.screens || owner || diceNamed(s.seed, "named "+b.address.String()).IntN(5) > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[b.address] = true
	return true
}

// ServeHTTP implements http.Handler.
func (s *screen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := path.Base(r.URL.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[of]++
	status, answer := s.fails(of)
	if answer == "" {
		status, answer = http.StatusOK, `{"identifications":[]}`
		if address, err := x402.ParseAddress(of); err == nil && s.named[address] {
			answer = `{"identifications":[{"category":"sanctions","name":"SANCTIONS: a list"}]}`
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(answer)) // a recorder takes all
}

// refuses reports whether a wallet is not to be served.
func (s *screen) refuses(wallet string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, err := x402.ParseAddress(wallet)
	return err == nil && s.named[address]
}

// fails is what is answered instead; empty for nothing.
func (s *screen) fails(of string) (status int, text string) {
	select {
	case <-s.well:
		return 0, ""
	default:
	}
	now := time.Now()
	for len(s.lately) > 0 && now.Sub(s.lately[0]) >= time.Second {
		s.lately = s.lately[1:]
	}
	if len(s.lately) >= perSecond {
		return http.StatusTooManyRequests, `{"message":"Too Many Requests"}`
	}
	s.lately = append(s.lately, now)
	rng := diceNamed(s.seed, "screens "+of)
	for range s.asked[of] - 1 {
		rng.IntN(12)
	}
	switch rng.IntN(12) {
	case 0:
		return http.StatusInternalServerError, `{"message":"Internal Server Error"}`
	case 1:
		return http.StatusOK, `{"identifications":null}`
	case 2:
		return http.StatusOK, `<!doctype html><title>Back soon</title>`
	}
	return 0, ""
}

// checkScreened looks for payments of wallets that are not to be served.
func (w *world) checkScreened(ctx context.Context, conn *pgx.Conn) error {
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	for named := range w.screen.named {
		var claims int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM payments WHERE owner = $1", named.Lower()).Scan(&claims)
		if err != nil {
			return err
		}
		if claims > 0 {
			w.rules.broke("who is not to be served has no order", "%d payments of %s were claimed", claims, named)
		}
	}
	return nil
}
