package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// diceOf are dice of a seed of their own.
func diceOf(seed, nth uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, nth)) }

// diceNamed are dice of a seed by what they are thrown for.
func diceNamed(seed uint64, what string) *rand.Rand {
	name := fnv.New64a()
	name.Write([]byte(what))
	return diceOf(seed, name.Sum64())
}

// rules are those of the world's own: what must hold of what strangers and odd buyers are told.
type rules struct {
	mu     sync.Mutex
	broken []invariants.Violation
	// never are the authorizations that no order may claim, with what is wrong with them.
	never []unclaimable
	// links are orders that were made to be paid later.
	links []link
	// closed are the sales that operators had closed.
	closed []closed
	// retired are relayers that may only finish what they have begun.
	retired []retirement
	// back is when everything ran again after it was dark for long.
	back []time.Time
	// poor are wallets that have little.
	poor []poor
}

// unclaimable is an authorization that no order may claim.
type unclaimable struct{ nonce, why string }

// link is an order that its owner has made, and until when it can be paid.
type link struct {
	id, key string
	owner   *member
	expires time.Time
}

// broke notes that a rule does not hold.
func (r *rules) broke(rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, invariants.Violation{ID: "world", Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// neverClaimed notes a payment that no order may claim.
func (r *rules) neverClaimed(payment, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.never = append(r.never, unclaimable{nonceOf(payment), why})
}

func (r *rules) wasBack(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = append(r.back, at)
}

func (r *rules) made(l link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = append(r.links, l)
}

// linked is one of the orders that were made to be paid later, but those of a wallet; false when there is none.
func (r *rules) linked(but *buyer, rng *rand.Rand) (link, bool) {
	r.mu.Lock()
	all := slices.Clone(r.links)
	r.mu.Unlock()
	all = slices.DeleteFunc(all, func(l link) bool { return l.owner.address == but.address })
	if len(all) == 0 {
		return link{}, false
	}
	return all[rng.IntN(len(all))], true
}

// check looks into the database for what may not be there, and returns all that is broken. limited says that the issuer
// limits what is spent, and skew is by how much a process's clock may be wrong.
func (r *rules) check(
	ctx context.Context, conn *pgx.Conn, limited bool, skew time.Duration,
) ([]invariants.Violation, error) {
	for _, one := range r.never {
		var claims int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM payments WHERE nonce = $1", one.nonce).Scan(&claims); err != nil {
			return nil, err
		}
		if claims > 0 {
			r.broke("what is not a payment of the price by its owner is not claimed", "%s was claimed", one.why)
		}
	}
	for _, l := range r.links {
		// An order whose first payment is dead can be paid for ever.
		var late bool
		err := conn.QueryRow(ctx, `SELECT coalesce(min(at) >= $2, false) FROM timeline
			WHERE order_id = $1 AND from_status = 'payment_required' AND to_status = 'settling'
			AND actor NOT LIKE 'operator:%'`, l.id, l.expires).Scan(&late)
		if err != nil {
			return nil, err
		}
		if late {
			r.broke("an order is paid in its time", "order %s was claimed after %s", l.id, l.expires)
		}
	}
	err := errors.Join(r.checkClosed(ctx, conn, skew), r.checkRetired(ctx, conn, skew), r.checkKnown(ctx, conn),
		r.checkPatience(ctx, conn, skew), r.checkFees(ctx, conn, limited))
	return r.broken, err
}

// checkKnown looks for what was left to an operator because one process did not know a provider that others know.
func (r *rules) checkKnown(ctx context.Context, conn *pgx.Conn) error {
	var left int
	err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM timeline WHERE reason LIKE '%is not configured') +
		(SELECT count(*) FROM jobs WHERE last_error LIKE '%is not configured')`).Scan(&left)
	if err == nil && left > 0 {
		r.broke("what belongs to a provider that some processes know is not left to an operator", "%d orders and fees", left)
	}
	return err
}

// checkPatience looks for what was left to an operator because a provider had not ended it while nobody could ask.
func (r *rules) checkPatience(ctx context.Context, conn *pgx.Conn, skew time.Duration) error {
	for _, at := range r.back {
		var left int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM timeline WHERE to_status = 'operator_review'
			AND reason LIKE '%for too long' AND at BETWEEN $1 AND $2`, at, at.Add(doubtDeadline-skew)).Scan(&left)
		if err != nil {
			return err
		}
		if left > 0 {
			r.broke("after a long outage providers are asked anew before an operator is", "%d orders", left)
		}
	}
	return nil
}

// checkFees looks at what became of the issue fees.
func (r *rules) checkFees(ctx context.Context, conn *pgx.Conn, limited bool) error {
	for _, rule := range []struct {
		rule, where string
		on          bool
	}{
		{"a fee that its holder has spent is owed",
			`status = 'failed' AND last_error = 'card_funds_insufficient' AND NOT payload @> '{"owed": true}'`, true},
		{"a card is not frozen before its fee is withdrawn, unless that is written off",
			`status = 'failed' AND last_error = 'card_state' AND NOT payload @> '{"writtenOff": true}'`, true},
		{"where an issuer limits what is spent, the fee is on no card", `NOT payload @> '{"kept": true}'`, limited},
	} {
		var jobs int
		if !rule.on {
			continue
		}
		err := conn.QueryRow(ctx, `SELECT count(*) FROM jobs WHERE kind = 'card_issue_fee' AND `+rule.where).Scan(&jobs)
		if err != nil {
			return err
		}
		if jobs > 0 {
			r.broke(rule.rule, "%d fees", jobs)
		}
	}
	return nil
}
