package crash_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/stripe"
)

// Whenever the program dies, a card of a real issuer and the money on it are there once, by the issuer's own books.
func TestKilledWhileARealIssuerDelivers(t *testing.T) {
	tortures(t) // simulated processes die over the vendors' adapters, too
	t.Parallel()
	for _, name := range []string{lithic.Name, stripe.Name} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worlds := make(chan *world, atOnce()/2)
			for range cap(worlds) {
				worlds <- newWorld(t).over(name, "")
			}
			t.Run("killed", func(t *testing.T) { run(t, worlds, whileAnIssuerDelivers(name)) })
		})
	}
}

// whileAnIssuerDelivers takes every point of a delivery, and pairs at which something irreversible has just begun or
// ended.
func whileAnIssuerDelivers(issuer string) []crash {
	opened := []string{
		"card.reserved", "submit.marked", "issuer.before_open", "issuer.after_open", "card.before_commit", "card.activated",
		"move.before_commit@2", "move.committed@2", "fee.leased", "fulfill.done",
	}
	again := [][2]string{
		{"card.reserved", "issuer.before_open"}, {"submit.marked", "issuer.after_open"},
		{"issuer.before_open", "issuer.before_open"}, {"issuer.before_open", "issuer.after_open"},
		{"issuer.after_open", "card.before_commit"}, {"issuer.after_open", "card.activated"},
		{"card.before_commit", "card.before_commit"},
	}
	if issuer == lithic.Name {
		// The fee is withdrawn from a purse. A limit never has it.
		opened = append(opened, "issuer.unloaded", "submit.marked@2", "turn.before_commit", "fee.turn", "fee.before_withdraw",
			"fee.after_withdraw", "fee.taken")
		again = append(again, [][2]string{
			{"issuer.unloaded", "issuer.unloaded"}, {"issuer.unloaded", "issuer.after_open"},
			{"issuer.before_open", "issuer.unloaded"}, {"fee.turn", "fee.before_withdraw"},
			{"fee.before_withdraw", "fee.after_withdraw"}, {"fee.after_withdraw", "fee.taken"},
			{"fee.after_withdraw", "fee.turn"},
		}...)
	}
	var cases []crash
	for _, p := range opened {
		cases = append(cases, crash{first: p})
	}
	for _, p := range again {
		cases = append(cases, crash{first: p[0], second: p[1]}, crash{first: p[0], second: p[1], signs: true})
	}
	for _, p := range []string{
		"turn.before_commit", "load.taken", "submit.marked", "load.before_send", "load.after_send", "move.before_commit@2",
		"fulfill.done",
	} {
		cases = append(cases, crash{flow: topup, first: p})
	}
	for _, p := range [][2]string{
		{"turn.before_commit", "load.taken"}, {"load.taken", "load.after_send"}, {"load.before_send", "load.before_send"},
		{"load.before_send", "load.after_send"}, {"load.after_send", "load.taken"}, {"load.after_send", "move.before_commit"},
	} {
		cases = append(cases, crash{flow: topup, first: p[0], second: p[1]},
			crash{flow: topup, first: p[0], second: p[1], signs: true})
	}
	return cases
}

// flow names what is bought in this world.
func (w *world) flow(of string) string {
	if w.issuer == "" {
		return of
	}
	return of + " of " + w.issuer
}
