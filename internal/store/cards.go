package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	entcard "github.com/roamcard/roamcard/ent/card"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// Cards keeps the cards sold. It implements card.Store.
type Cards struct{ s *Store }

// Cards is the part of the store that the card product uses.
func (s *Store) Cards() Cards { return Cards{s} }

// Live implements card.Store.
func (c Cards) Live(ctx context.Context, owner x402.Address) (card.Card, error) {
	return oneCard(c.s.ent.Card.Query().Where(
		entcard.Owner(owner.Lower()), entcard.StatusNotIn(entcard.StatusCLOSED, entcard.StatusFAILED)).Only(ctx))
}

// Cards implements card.Store.
func (c Cards) Cards(ctx context.Context, owner x402.Address) ([]card.Card, error) {
	rows, err := c.s.ent.Card.Query().Where(entcard.Owner(owner.Lower())).
		Order(entcard.ByCreatedAt(sql.OrderDesc())).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	out := make([]card.Card, len(rows))
	for i, row := range rows {
		if out[i], err = cardOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Card implements card.Store.
func (c Cards) Card(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Card, error) {
	return oneCard(c.s.ent.Card.Query().Where(entcard.ID(id), entcard.Owner(owner.Lower())).Only(ctx))
}

// Issued implements card.Store.
func (c Cards) Issued(ctx context.Context, orders ...order.ID) (map[order.ID]card.Card, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	names := make([]string, len(orders))
	for i, id := range orders {
		names[i] = string(id)
	}
	rows, err := c.s.ent.Card.Query().Where(entcard.OrderIDIn(names...)).Order(entcard.ByCreatedAt()).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make(map[order.ID]card.Card, len(rows))
	for _, row := range rows {
		got, err := cardOf(row)
		if err != nil {
			return nil, err
		}
		found[got.Order] = got
	}
	return found, nil
}

// ByNames implements card.Store.
func (c Cards) ByNames(
	ctx context.Context, provider string, accounts []string, refs []fulfilment.Ref,
) ([]card.Card, error) {
	opened := make([]uuid.UUID, len(refs))
	for i, ref := range refs {
		opened[i] = uuid.UUID(ref)
	}
	rows, err := c.s.ent.Card.Query().Where(entcard.Provider(provider), entcard.Or(
		entcard.And(entcard.AccountNEQ(""), entcard.AccountIn(accounts...)), entcard.ReferenceIn(opened...))).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make([]card.Card, len(rows))
	for i, row := range rows {
		if found[i], err = cardOf(row); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Reserved implements card.Store.
func (c Cards) Reserved(ctx context.Context, resource string, asOf time.Time) (int64, error) {
	return c.s.reserved(ctx, resource, asOf)
}

// reserved is how much of a resource live orders have reserved.
func (s *Store) reserved(ctx context.Context, resource string, asOf time.Time) (held int64, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, "SELECT ("+reservedSQL+")::bigint", resource, asOf).Scan(&held)
	return held, mapError(err)
}

// Reserve implements card.Store.
func (c Cards) Reserve(ctx context.Context, f job.Fence, n card.Card) (card.Card, error) {
	var got card.Card
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		// The fence locks the order's job, so no other transaction can make its card.
		row, err := tx.Card.Query().Where(
			entcard.OrderID(string(n.Order)), entcard.Owner(n.Owner.Lower()), entcard.Reference(uuid.UUID(n.Ref))).Only(ctx)
		if err == nil {
			got, err = cardOf(row)
			return err
		}
		if !ent.IsNotFound(err) {
			return err
		}
		got = n
		return tx.Card.Create().SetID(n.ID).SetOrderID(string(n.Order)).SetOwner(n.Owner.Lower()).
			SetStatus(entcard.Status(n.Status)).SetReference(uuid.UUID(n.Ref)).SetLoadUsdCents(int64(n.Load)).
			SetProvider(n.Provider).SetProgramme(n.Programme).SetHolder(string(n.Holder)).
			SetCreatedAt(n.CreatedAt).SetUpdatedAt(n.UpdatedAt).Exec(ctx)
	})
	return got, err
}

// Activate implements card.Store.
func (c Cards) Activate(ctx context.Context, f job.Fence, a card.Card, postings []ledger.Posting, fee job.New) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		n, err := tx.Card.Update().
			Where(entcard.ID(a.ID), entcard.Owner(a.Owner.Lower()), entcard.StatusEQ(entcard.StatusPENDING)).
			SetStatus(entcard.StatusACTIVE).SetAccount(a.Account).SetLast4(a.Last4).SetUpdatedAt(c.s.stamp()).Save(ctx)
		if err != nil || n == 0 {
			return err
		}
		postFor(tx, c.s.stamp(), a.Owner, postings...)
		if _, _, err = insertJob(ctx, tx, fee, a.Owner); err != nil {
			return err
		}
		return faultpoint.Fail("card.before_commit")
	})
}

// takeCardTurnSQL takes a card that nothing else has. Its row is locked by the statement before: so this one sees what
// became of whoever had it. What is on the card by the ledger is in millionths of a dollar. A closing waits for each
// top-up of the card that the issuer may have been asked for, not only for the last that had the card.
const takeCardTurnSQL = `
	UPDATE cards SET moving_order = $2, moving_job = $3, moving_reference = $4, moving_target_usd_cents = CASE
		WHEN $7 THEN (SELECT coalesce(sum(amount), 0) / 10000 FROM ledger_entries WHERE account = 'card:' || cards.id)
		WHEN $5 = 0 THEN 0
		WHEN moving_reference = $4 THEN moving_target_usd_cents
		ELSE $5 + (SELECT coalesce(sum(amount), 0) / 10000 FROM ledger_entries WHERE account = 'card:' || cards.id) END
	WHERE id = $1 AND (changing_until IS NULL OR changing_until <= $9)
		AND (moving_order = $2 AND moving_job IS NOT DISTINCT FROM $3 OR NOT EXISTS (
			SELECT FROM orders WHERE id = cards.moving_order AND owner = cards.owner
				AND (status = 'provisioning' OR status = 'operator_review' AND $6))
		AND NOT EXISTS (SELECT FROM jobs WHERE id = cards.moving_job AND status IN ('queued', 'processing')))
		AND NOT ($7 AND EXISTS (
			SELECT FROM orders WHERE owner = cards.owner AND kind = ANY($8)
				AND status IN ('provisioning', 'operator_review') AND item->>'card' = cards.id::text))
	RETURNING moving_target_usd_cents`

const closingSQL = `SELECT EXISTS (SELECT FROM jobs WHERE kind = $1 AND unique_key = $2)`

const lockCardSQL = "SELECT FROM cards WHERE id = $1 FOR UPDATE"

// TakeTurn implements card.Store.
func (c Cards) TakeTurn(ctx context.Context, f job.Fence, t card.Turn) (target money.Cents, err error) {
	var feeJob *uuid.UUID
	if t.FeeJob != uuid.Nil {
		feeJob = &t.FeeJob
	}
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		later(tx, lockCardSQL, t.Card)
		if t.Order != "" && !t.Begun {
			var closing bool
			if err := raw(tx).QueryRow(ctx, closingSQL, card.CloseJob, t.Card.String()).Scan(&closing); err != nil {
				return err
			}
			if closing {
				return card.ErrClosing
			}
		}
		err := raw(tx).QueryRow(ctx, takeCardTurnSQL, t.Card, t.Order, feeJob, uuid.UUID(t.Ref), int64(t.Load), t.Held,
			t.Closing, c.s.issuerKinds(), c.s.stamp()).Scan((*int64)(&target))
		if errors.Is(err, pgx.ErrNoRows) {
			return card.ErrBusy
		}
		if err != nil {
			return err
		}
		return faultpoint.Fail("turn.before_commit")
	})
	return target, err
}

// beginChangeSQL takes a card for a change that no movement and no other change has.
const beginChangeSQL = `
	UPDATE cards SET changing = $2, changing_until = $3
	WHERE id = $1 AND (changing_until IS NULL OR changing_until <= $4)
		AND NOT EXISTS (SELECT FROM orders WHERE id = cards.moving_order AND owner = cards.owner
			AND status IN ('provisioning', 'operator_review'))
		AND NOT EXISTS (SELECT FROM jobs WHERE id = cards.moving_job AND status IN ('queued', 'processing'))`

const endChangeSQL = `UPDATE cards SET changing = NULL, changing_until = NULL WHERE id = $1 AND changing = $2`

// BeginChange implements card.Store.
func (c Cards) BeginChange(ctx context.Context, id, change uuid.UUID, most time.Duration) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		later(tx, lockCardSQL, id)
		now := c.s.stamp()
		took, err := raw(tx).Exec(ctx, beginChangeSQL, id, change, now.Add(most), now)
		if err == nil && took.RowsAffected() == 0 {
			err = card.ErrBusy
		}
		return err
	})
}

// EndChange implements card.Store.
func (c Cards) EndChange(ctx context.Context, id, change uuid.UUID) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := c.s.pool.Exec(ctx, endChangeSQL, id, change)
	return mapError(err)
}

// FeeTaken implements card.Store.
func (c Cards) FeeTaken(ctx context.Context, f job.Fence, postings []ledger.Posting) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		post(tx, c.s.stamp(), postings...)
		return finishJob(ctx, tx, f, job.Done())
	})
}

// Observe implements card.Store.
func (c Cards) Observe(ctx context.Context, seen ...card.Seen) (changed []card.Card, err error) {
	if len(seen) == 0 {
		return nil, nil
	}
	refs, statuses, providers := make([]uuid.UUID, len(seen)), make([]string, len(seen)), make([]string, len(seen))
	for i, one := range seen {
		refs[i], statuses[i], providers[i] = uuid.UUID(one.Ref), string(one.Status), one.Provider
	}
	var from, to []string
	for _, m := range card.Moves() {
		from, to = append(from, string(m[0])), append(to, string(m[1]))
	}
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, observeSQL, refs, statuses, from, to, c.s.stamp(), providers)
		if err != nil {
			return err
		}
		if changed, err = pgx.CollectRows(rows, scanObserved); err != nil {
			return err
		}
		return faultpoint.Fail("observe.before_commit")
	})
	return changed, err
}

// SetOwnerFrozen implements card.Store.
func (c Cards) SetOwnerFrozen(ctx context.Context, id uuid.UUID, owner x402.Address, frozen bool) error {
	return mapError(c.s.ent.Card.Update().Where(entcard.ID(id), entcard.Owner(owner.Lower())).
		SetOwnerFrozen(frozen).SetUpdatedAt(c.s.stamp()).Exec(ctx))
}

// FeeOpen implements card.Store.
func (c Cards) FeeOpen(ctx context.Context, id uuid.UUID) (open bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = c.s.pool.QueryRow(ctx, feeOpenSQL, card.FeeJob, id.String()).Scan(&open)
	return open, mapError(err)
}

const feeOpenSQL = `SELECT EXISTS (
	SELECT FROM jobs WHERE kind = $1 AND unique_key = $2 AND status IN ('queued', 'processing'))`

// Rows are locked in one order, because two processes may observe the same cards.
const observeSQL = `
	WITH seen AS (
		SELECT c.id, s.status FROM cards c
		JOIN unnest($1::uuid[], $2::text[], $6::text[]) AS s (reference, status, provider)
			ON c.reference = s.reference AND c.provider = s.provider
		JOIN unnest($3::text[], $4::text[]) AS m (from_status, to_status)
			ON c.status = m.from_status AND s.status = m.to_status
		ORDER BY c.id FOR UPDATE OF c)
	UPDATE cards SET status = seen.status, updated_at = $5,
		owner_frozen = owner_frozen AND seen.status <> 'ACTIVE'
	FROM seen WHERE cards.id = seen.id
	RETURNING cards.id, cards.order_id, cards.status`

func scanObserved(row pgx.CollectableRow) (c card.Card, err error) {
	return c, row.Scan(&c.ID, &c.Order, &c.Status)
}

// Fail implements card.Store.
func (c Cards) Fail(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		return tx.Card.Update().Where(entcard.ID(id), entcard.StatusEQ(entcard.StatusPENDING)).
			SetStatus(entcard.StatusFAILED).SetUpdatedAt(c.s.stamp()).Exec(ctx)
	})
}

func oneCard(row *ent.Card, err error) (card.Card, error) {
	if ent.IsNotFound(err) {
		return card.Card{}, card.ErrNotFound
	}
	if err != nil {
		return card.Card{}, mapError(err)
	}
	return cardOf(row)
}

func cardOf(row *ent.Card) (card.Card, error) {
	owner, err := x402.ParseAddress(row.Owner)
	if err != nil {
		return card.Card{}, fmt.Errorf("card %s: owner: %w", row.ID, err)
	}
	return card.Card{
		ID: row.ID, Order: order.ID(row.OrderID), Owner: owner, Status: card.Status(row.Status),
		Ref:      fulfilment.Ref(row.Reference),
		Provider: row.Provider, Programme: row.Programme, Holder: card.Holder(row.Holder),
		Load: money.Cents(row.LoadUsdCents), Account: row.Account, Last4: row.Last4,
		OwnerFrozen: row.OwnerFrozen, CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(),
	}, nil
}
