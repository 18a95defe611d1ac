package invariants

import (
	"slices"
	"strings"
)

// graph is every legal step of an order.
var graph = map[string][]string{
	"payment_required": {"settling", "expired"},
	"settling":         {"settled", "payment_required"},
	"settled":          {"provisioning", "refund_pending", "operator_review"},
	"provisioning":     {"fulfilled", "refund_pending", "operator_review"},
	"refund_pending":   {"refunded", "operator_review"},
	"operator_review":  {"provisioning", "fulfilled", "refund_pending"},
}

func movesFollowTheGraph(r *records) []string {
	var f findings
	moves := group(r.moves, func(m moveRow) string { return m.Order })
	for _, o := range r.orders {
		story := slices.SortedFunc(slices.Values(moves[o.ID]), func(a, b moveRow) int { return int(a.Version - b.Version) })
		status, version := "payment_required", int64(0)
		for _, m := range story {
			switch {
			case m.Version <= version:
				f.add("order %s has two moves to version %d", o.ID, m.Version)
			case m.Version != version+1 && version != 0:
				f.add("order %s has no move to version %d", o.ID, version+1)
			case m.From != status && version != 0:
				f.add("order %s moved from %s while it was %s", o.ID, m.From, status)
			case m.From == "expired" && m.To == "settling" && strings.HasPrefix(m.Actor, "operator:"):
				// It was paid in data that was lost, and recovered.
			case !slices.Contains(graph[m.From], m.To):
				f.add("order %s moved from %s to %s", o.ID, m.From, m.To)
			case m.From == "operator_review" && !strings.HasPrefix(m.Actor, "operator:"):
				f.add("order %s left operator_review by %s", o.ID, m.Actor)
			}
			status, version = m.To, m.Version
		}
		if len(story) > 0 && (status != o.Status || version != o.Version) {
			f.add("order %s is %s at version %d, its timeline ends at %s, version %d", o.ID, o.Status, o.Version, status,
				version)
		}
		if len(story) == 0 && o.paid() {
			f.add("order %s is %s without a timeline", o.ID, o.Status)
		}
	}
	return f
}

func challengesAreUsedOnce(r *records) []string {
	var f findings
	seen := map[string]bool{}
	for _, c := range r.challenges {
		if seen[c.ID] {
			f.add("challenge %s exists twice", c.ID)
		}
		seen[c.ID] = true
		if c.ConsumedAt != nil &&
			(c.ConsumedAt.After(c.ExpiresAt.Add(r.skew)) || c.ConsumedAt.Before(c.IssuedAt.Add(-r.skew))) {
			f.add("challenge %s was used outside of its time", c.ID)
		}
	}
	return f
}

// oneWorkerPerJob also refuses two open jobs for one order: both would work on it.
func oneWorkerPerJob(r *records) []string {
	var f findings
	open := map[string]int{}
	for _, j := range r.jobs {
		if j.Leased != (j.Status == "processing") {
			f.add("job %s is %s, leased: %t", j.ID, j.Status, j.Leased)
		}
		if j.Status != "queued" && j.Attempt < 1 {
			f.add("job %s is %s and was never claimed", j.ID, j.Status)
		}
		if j.Kind == fulfillJob && (j.Status == "queued" || j.Status == "processing") {
			if open[j.Order]++; open[j.Order] == 2 {
				f.add("order %s has two open jobs", j.Order)
			}
		}
	}
	return f
}

// noncesAreContiguous compares the relayers' stored transactions with those in blocks.
func noncesAreContiguous(r *records) []string {
	var f findings
	stored := map[string]map[int64]bool{}
	for _, a := range r.transactions {
		relayer := lower(a.Relayer)
		if stored[relayer] == nil {
			stored[relayer] = map[int64]bool{}
		}
		stored[relayer][a.Nonce] = true
	}
	for _, relayer := range r.chain.fresh {
		for nonce := range r.chain.sent[relayer] {
			if !stored[relayer][nonce] && !r.pruned(relayer, nonce) {
				f.add("relayer %s sent a transaction with nonce %d that was never stored", relayer, nonce)
			}
		}
	}
	for relayer, transactions := range group(r.transactions, func(a transactionRow) string { return lower(a.Relayer) }) {
		slices.SortFunc(transactions, func(a, b transactionRow) int { return int(a.Nonce - b.Nonce) })
		for i, a := range transactions {
			if i > 0 && a.Nonce == transactions[i-1].Nonce {
				f.add("relayer %s uses nonce %d for two transactions", relayer, a.Nonce)
			}
			for missing := transactions[max(0, i-1)].Nonce + 1; missing < a.Nonce; missing++ {
				if !r.pruned(relayer, missing) {
					f.add("relayer %s has no transaction with nonce %d", relayer, missing)
				}
			}
			included := 0
			for _, hash := range a.Hashes {
				tx, ok := r.chain.included[lower(hash)]
				if !ok {
					continue
				}
				included++
				if tx.Nonce != a.Nonce || !same(tx.From, a.Relayer) {
					f.add("transaction %s is from %s with nonce %d, is stored as from %s with nonce %d", hash, tx.From, tx.Nonce,
						a.Relayer, a.Nonce)
				}
			}
			if included > 1 {
				f.add("relayer %s has %d transactions in blocks for nonce %d", relayer, included, a.Nonce)
			}
		}
		last := transactions[len(transactions)-1].Nonce
		if sent := r.chain.sent[relayer]; sent > last+1 && !(r.pruned(relayer, last+1) && r.pruned(relayer, sent-1)) {
			f.add("relayer %s sent %d transactions, the last one stored is number %d", relayer, sent, last)
		}
	}
	return f
}

// membersEndAsTheChainShows compares what is stored of each member with the token's logs.
func membersEndAsTheChainShows(r *records) []string {
	var f findings
	type authorization struct{ payer, nonce string }
	signed := map[string]authorization{}
	for _, p := range r.payments {
		signed[p.ID] = authorization{lower(p.Payer), lower(p.Nonce)}
	}
	moved := map[authorization]string{}
	for _, u := range r.chain.used {
		moved[authorization{lower(u.Payer), lower(u.Nonce)}] = lower(u.Transaction)
	}
	for _, b := range r.refunds {
		signed[b.ID] = authorization{lower(b.Treasury), lower(b.Nonce)}
	}
	open := map[string]int{}
	for _, t := range r.transactions {
		if len(t.Payments) == 0 || len(t.Payments) != len(t.Ends) {
			f.add("transaction %s has %d members with %d statuses", t.ID, len(t.Payments), len(t.Ends))
			continue
		}
		for i, id := range t.Payments {
			end := t.Ends[i]
			if end == "open" {
				open[id]++
			}
			if (end == "open") != (t.Status == "open") || t.Status == "reverted" && end != "reverted" {
				f.add("transaction %s is %s, and its member %s %s", t.ID, t.Status, id, end)
			}
			a, known := signed[id]
			by := slices.ContainsFunc(t.Hashes, func(hash string) bool { return lower(hash) == moved[a] })
			// One that was seen to revert may have moved it after all, in a block that has replaced the one that was seen.
			late := r.reorganised && end == "reverted"
			if known && end != "open" && by != (end == "closed") && !late {
				f.add("member %s of transaction %s is %s, on the chain it was moved by %q", id, t.ID, end, moved[a])
			}
		}
	}
	for id, n := range open {
		if n > 1 {
			f.add("payment %s is in %d open transactions", id, n)
		}
	}
	return f
}

// pruned says that a restore has lost the transaction of a relayer with an account nonce.
func (r *records) pruned(relayer string, nonce int64) bool {
	return slices.ContainsFunc(r.lost, func(g Gap) bool {
		return same(g.Relayer, relayer) && nonce >= g.From && nonce < g.To
	})
}

func operatorActsAreAudited(r *records) []string {
	var f findings
	type act struct{ actor, subject string }
	rows, moves := map[act]int{}, map[act]int{}
	once, retries := map[auditRow]int{}, map[string]int64{}
	for _, a := range r.audit {
		// A look has no key; an act has one, and a reason. What is asked of a second operator, and what that one says, moves
		// nothing: the act itself has a row, too.
		if a.Key != "" && !strings.HasPrefix(a.Action, "approval.") {
			rows[act{a.Actor, a.Subject}]++
		}
		if a.Actor == "" || a.Action == "" || (a.Key != "" && a.Reason == "") {
			f.add("an audit row about %s lacks who, what or why", a.Subject)
		}
		if strings.HasSuffix(a.Action, ".retry") {
			retries[a.Subject]++
		}
		key := auditRow{Actor: a.Actor, Action: a.Action, Subject: a.Subject, Key: a.Key}
		if once[key]++; a.Key != "" && once[key] == 2 {
			f.add("%s by %s on %s with key %s is audited twice", a.Action, a.Actor, a.Subject, a.Key)
		}
	}
	for _, m := range r.moves {
		if strings.HasPrefix(m.Actor, "operator:") {
			moves[act{m.Actor, m.Order}]++
		}
	}
	for _, j := range r.jobs {
		if j.Kind == feeJob && retries[j.ID] != j.Retry-1 {
			f.add("fee job %s was retried %d times, audited %d times", j.ID, j.Retry-1, retries[j.ID])
		}
	}
	for a, n := range moves {
		if got := rows[a] + rows[act{strings.TrimPrefix(a.actor, "operator:"), a.subject}]; got != n {
			f.add("%s moved order %s %d times, audited %d times", a.actor, a.subject, n, got)
		}
	}
	return f
}
