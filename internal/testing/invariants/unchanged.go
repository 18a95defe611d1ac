package invariants

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// unchanged is I20. It is separate from the others because it compares two readings of the books.
const unchangedID, unchangedRule = "I20", "a second recovery changes nothing"

// Unchanged lets the program recover once more, by again, and reports each part of the books that this
// has changed. It is for a system at rest. An error means that a book could not be read, or is again's own.
func Unchanged(ctx context.Context, b Books, again func(context.Context) error) ([]Violation, error) {
	before, err := readFingerprint(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := again(ctx); err != nil {
		return nil, fmt.Errorf("recover once more: %w", err)
	}
	after, err := readFingerprint(ctx, b)
	if err != nil {
		return nil, err
	}
	return before.compare(after), nil
}

// fingerprint is a hash of each part of the books that buyers and bookkeeping rely on.
type fingerprint map[string][sha256.Size]byte

func readFingerprint(ctx context.Context, b Books) (fingerprint, error) {
	r, err := read(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.fingerprint()
}

// fingerprint leaves out maintenance: the jobs that rebroadcast transactions, and whether these are final yet.
func (r *records) fingerprint() (fingerprint, error) {
	var jobs []jobRow
	for _, j := range r.jobs {
		if j.Kind == fulfillJob || j.Kind == feeJob {
			jobs = append(jobs, j)
		}
	}
	var transactions [][]string
	for _, a := range r.transactions {
		transactions = append(transactions,
			slices.Concat([]string{a.Relayer, fmt.Sprint(a.Nonce)}, a.Payments, a.Hashes))
	}
	all := fingerprint{}
	for part, content := range map[string]any{
		"orders": r.orders, "timeline": r.moves, "payments": r.payments, "refunds": r.refunds,
		"settlement transactions": transactions, "cards": r.cards,
		"reservations": r.reservations, "jobs": jobs, "audit": r.audit,
		"ledger's postings": r.postings, "ledger's entries": r.entries,
		"chain's transfers": r.chain.credits, "chain's transfers back": r.chain.payouts,
		"chain's used authorizations": r.chain.used, "chain's count of our transactions": r.chain.sent,
		"issuer's cards": r.issuer.Cards, "issuer's movements": r.issuer.Movements, "issuer's references": r.issuer.Executed,
		"issuer's float": r.issuer.FloatCents,
		"eSIM profiles":  r.profiles, "supplier's eSIMs": r.supplier.Esims, "supplier's references": r.supplier.Executed,
		"top-ups of eSIMs": r.topups, "supplier's top-ups": r.supplier.Topups,
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("write the %s down: %w", part, err)
		}
		all[part] = sha256.Sum256(text)
	}
	return all, nil
}

func (f fingerprint) compare(after fingerprint) []Violation {
	var found []Violation
	for _, part := range slices.Sorted(maps.Keys(f)) {
		if f[part] != after[part] {
			found = append(found, Violation{unchangedID, unchangedRule, "the " + part + " changed"})
		}
	}
	return found
}
