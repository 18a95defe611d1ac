package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/x402"
)

// Screening implements screening.Store.
type Screening struct{ s *Store }

// Screening keeps the lists of addresses that are not served.
func (s *Store) Screening() Screening { return Screening{s} }

// auditedRefusal is the action of a refusal in the audit trail.
const auditedRefusal = "payer.refuse"

const (
	storeListSQL = `INSERT INTO screening_lists AS l (id, digest, addresses, read_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, addresses = excluded.addresses,
		read_at = greatest(l.read_at, excluded.read_at)`
	removedSQL = `DELETE FROM screened_addresses WHERE list = $1 AND address <> ALL ($2::varchar[])`
	addedSQL   = `INSERT INTO screened_addresses (id, list, address)
		SELECT * FROM unnest($1::uuid[], array_fill($2::varchar, ARRAY[cardinality($1::uuid[])]), $3::varchar[])
		ON CONFLICT (address, list) DO NOTHING`
	lookUpSQL = `SELECT id, read_at,
			EXISTS (SELECT FROM screened_addresses a WHERE a.address = $2 AND a.list = screening_lists.id)
		FROM screening_lists WHERE id = ANY($1)`
	refusedTodaySQL = `SELECT EXISTS (SELECT FROM audit
		WHERE subject = $1 AND action = $2 AND actor = $3 AND at > $4::timestamptz - interval '1 day')`
)

// ReplaceList implements screening.Store.
func (s Screening) ReplaceList(ctx context.Context, l screening.List) error {
	hash := sha256.New()
	ids, addresses := make([]uuid.UUID, len(l.Addresses)), make([]string, len(l.Addresses))
	for i, a := range l.Addresses {
		ids[i], addresses[i] = uuid.Must(uuid.NewV7()), a.Lower()
		hash.Write(a[:])
	}
	digest := hash.Sum(nil)
	return s.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "screening/"+l.Name)
		known, err := tx.ScreeningList.Get(ctx, l.Name)
		if err != nil && !ent.IsNotFound(err) {
			return err
		}
		later(tx, storeListSQL, l.Name, digest, len(addresses), l.ReadAt)
		if known != nil && bytes.Equal(known.Digest, digest) {
			return nil
		}
		later(tx, removedSQL, l.Name, addresses)
		later(tx, addedSQL, ids, l.Name, addresses)
		return nil
	})
}

// LookUp implements screening.Store.
func (s Screening) LookUp(
	ctx context.Context, names []string, payer x402.Address,
) (map[string]screening.Entry, error) {
	if len(names) == 0 {
		return nil, nil
	}
	rows, err := s.s.pool.Query(ctx, lookUpSQL, names, payer.Lower())
	if err != nil {
		return nil, mapError(err)
	}
	defer rows.Close()
	all := map[string]screening.Entry{}
	for rows.Next() {
		var name string
		var e screening.Entry
		if err := rows.Scan(&name, &e.ReadAt, &e.Listed); err != nil {
			return nil, mapError(err)
		}
		all[name] = e
	}
	return all, mapError(rows.Err())
}

// AuditRefusal implements screening.Store.
func (s Screening) AuditRefusal(ctx context.Context, payer x402.Address, by string) error {
	actor, now := "screening:"+by, s.s.stamp()
	return s.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "refused/"+payer.Lower())
		var known bool
		err := raw(tx).QueryRow(ctx, refusedTodaySQL, payer.Lower(), auditedRefusal, actor, now).Scan(&known)
		if err != nil || known {
			return err
		}
		return s.s.audit(ctx, tx, actor, auditedRefusal, payer.Lower(), map[string]time.Time{"at": now})
	})
}
