package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	entcard "github.com/roamcard/roamcard/ent/card"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// Cards keeps the cards sold. It implements card.Store.
type Cards struct{ s *Store }

// Cards is the part of the store that the card product uses.
func (s *Store) Cards() Cards { return Cards{s} }

// scanCardRow reads a row of ent.CardColumns.
func scanCardRow(from pgx.Row) (card.Card, error) {
	row, err := ent.ScanCard(from)
	if err != nil {
		return card.Card{}, err
	}
	return cardOf(row)
}

// liveCard finds an owner's live card.
var liveCard = newLookup(scanCardRow, `SELECT `+ent.CardColumns+` FROM cards
	WHERE owner = $1 AND status <> 'CLOSED' AND status <> 'FAILED' LIMIT 1`, "varchar")

// Live implements card.Store.
func (c Cards) Live(ctx context.Context, owner x402.Address) (card.Card, error) {
	found, err := lookUp[card.Card](ctx, c.s, liveCard, owner.Lower())
	if errors.Is(err, pgx.ErrNoRows) {
		return card.Card{}, card.ErrNotFound
	}
	return found, err
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

// Unpaid implements card.Store.
func (c Cards) Unpaid(ctx context.Context, resource string) (int64, error) {
	return c.s.unpaid(ctx, resource)
}

// reserved is how much of a resource live orders have reserved.
func (s *Store) reserved(ctx context.Context, resource string, asOf time.Time) (held int64, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, "SELECT ("+reservedSQL+")::bigint", resource, asOf).Scan(&held)
	return held, mapError(err)
}

// reserveCardSQL stores a card unless its order has one with this reference, and returns the stored one. The claim of
// the order's job is locked by the statement before, so no other transaction can make its card.
var reserveCardSQL = table.Statement(`
	WITH found AS (
		SELECT `+ent.CardColumns+` FROM cards
		WHERE order_id = {n.cards_order_id} AND owner = {n.cards_owner} AND reference = {n.cards_reference}
	), made AS (
		INSERT INTO cards ({cards}) SELECT {n.cards} WHERE NOT EXISTS (SELECT FROM found)
		RETURNING `+ent.CardColumns+`)
	SELECT * FROM found UNION ALL SELECT * FROM made`, table.One("n", ent.CardTable))

// Reserve implements card.Store.
func (c Cards) Reserve(ctx context.Context, f job.Fence, n card.Card) (card.Card, error) {
	var got card.Card
	err := c.s.fenced(ctx, f, func(_ context.Context, tx *ent.Tx) error {
		sql, args := reserveCardSQL, ent.CardTable.Values(&ent.Card{
			ID: n.ID, OrderID: string(n.Order), Owner: n.Owner.Lower(), Status: entcard.Status(n.Status),
			Provider: n.Provider, Programme: n.Programme, Holder: string(n.Holder), Reference: uuid.UUID(n.Ref),
			LoadUsdCents: int64(n.Load), CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt,
		})
		if shardsOf(tx) != nil {
			later(tx, insertCardSQL, args...)
			sql, args = findReservedCardSQL, []any{n.Order, n.Owner.Lower(), uuid.UUID(n.Ref)}
		}
		pgxOf(tx).later(statement{
			sql:  sql,
			args: args,
			read: func(answers pgx.BatchResults) (err error) {
				got, err = scanCardRow(answers.QueryRow())
				return err
			},
		})
		return nil
	})
	if err != nil {
		return card.Card{}, err
	}
	return got, nil
}

// errNotPending fails a change of a card that is not pending any more.
var errNotPending = errors.New("the card is not pending")

const activateCardSQL = `
	UPDATE cards SET status = 'ACTIVE', account = $3, last4 = $4, updated_at = $5
	WHERE id = $1 AND owner = $2 AND status = 'PENDING' RETURNING 1`

// Activate implements card.Store.
func (c Cards) Activate(ctx context.Context, f job.Fence, a card.Card, postings []ledger.Posting, fee job.New) error {
	err := c.s.fenced(ctx, f, func(ctx context.Context, tx *ent.Tx) error {
		mustAffectOne(tx, errNotPending, activateCardSQL, a.ID, a.Owner.Lower(), a.Account, a.Last4, c.s.stamp())
		postFor(tx, c.s.stamp(), a.Owner, postings...)
		if err := queueJob(ctx, tx, fee, a.Owner, nil); err != nil {
			return err
		}
		return faultpoint.Fail("card.before_commit")
	})
	if errors.Is(err, errNotPending) {
		return nil // the lease is held, and the card was made ACTIVE before
	}
	return err
}

// takeCardTurnSQL takes a card that nothing else has. Its row is locked by the statement before: so this one sees what
// became of whoever had it. What is on the card by the ledger is in millionths of a dollar. A closing waits for each
// top-up of the card that the issuer may have been asked for, not only for the last that had the card.
const takeCardTurnSQL = `
	UPDATE cards SET moving_order = $2, moving_job = $3, moving_reference = $4, moving_target_usd_cents = CASE
		WHEN $7 THEN (SELECT coalesce(sum(amount), 0) / 10000 FROM ledger_entries
			WHERE account = $11 AND owner = cards.owner)
		WHEN $5 = 0 THEN 0
		WHEN moving_reference = $4 THEN moving_target_usd_cents
		ELSE $5 + (SELECT coalesce(sum(amount), 0) / 10000 FROM ledger_entries
			WHERE account = $11 AND owner = cards.owner) END
	WHERE id = $1 AND owner = $10 AND (changing_until IS NULL OR changing_until <= $9)
		AND (moving_order = $2 AND moving_job IS NOT DISTINCT FROM $3 OR NOT EXISTS (
			SELECT 1 FROM orders WHERE id = cards.moving_order AND owner = cards.owner
				AND (status = 'provisioning' OR status = 'operator_review' AND $6))
		AND NOT EXISTS (SELECT 1 FROM jobs
			WHERE id = cards.moving_job AND owner = cards.owner AND status IN ('queued', 'processing')))
		AND NOT ($7 AND EXISTS (
			SELECT 1 FROM orders WHERE owner = cards.owner AND kind = ANY($8)
				AND status IN ('provisioning', 'operator_review') AND item->>'card' = cards.id::text))
	RETURNING moving_target_usd_cents`

const closingSQL = `SELECT EXISTS (SELECT 1 FROM jobs WHERE kind = $1 AND unique_key = $2)`

const ownClosingSQL = `SELECT EXISTS (SELECT 1 FROM jobs WHERE kind = $1 AND unique_key = $2 AND owner = $3)`

const lockCardSQL = "SELECT FROM cards WHERE id = $1 AND owner = $2 FOR UPDATE"

// TakeTurn implements card.Store.
func (c Cards) TakeTurn(ctx context.Context, f job.Fence, t card.MovementLock) (target money.Cents, err error) {
	var feeJob *uuid.UUID
	if t.FeeJob != uuid.Nil {
		feeJob = &t.FeeJob
	}
	err = c.s.withOwner(ctx, f, ownerOfCardSQL, t.Card, func(ctx context.Context, tx *ent.Tx, owner string) error {
		later(tx, lockCardSQL, t.Card, owner)
		if t.Order != "" && !t.Begun {
			var closing bool
			if err := raw(tx).QueryRow(ctx, ownClosingSQL, card.CloseJob, t.Card.String(), owner).Scan(&closing); err != nil {
				return err
			}
			if closing {
				return card.ErrClosing
			}
		}
		err = raw(tx).QueryRow(ctx, takeCardTurnSQL, t.Card, t.Order, feeJob, uuid.UUID(t.Ref), int64(t.Load), t.Held,
			t.Closing, c.s.issuerKinds(), c.s.stamp(), owner, ledger.Card(t.Card.String())).Scan((*int64)(&target))
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
	WHERE id = $1 AND owner = $5 AND (changing_until IS NULL OR changing_until <= $4)
		AND NOT EXISTS (SELECT 1 FROM orders WHERE id = cards.moving_order AND owner = cards.owner
			AND status IN ('provisioning', 'operator_review'))
		AND NOT EXISTS (SELECT 1 FROM jobs
			WHERE id = cards.moving_job AND owner = cards.owner AND status IN ('queued', 'processing'))`

const endChangeSQL = `UPDATE cards SET changing = NULL, changing_until = NULL
	WHERE id = $1 AND owner = $3 AND changing = $2`

// BeginChange implements card.Store.
func (c Cards) BeginChange(ctx context.Context, id, change uuid.UUID, most time.Duration) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		owner, err := lockCard(ctx, tx, id)
		if err != nil {
			return err
		}
		now := c.s.stamp()
		took, err := raw(tx).Exec(ctx, beginChangeSQL, id, change, now.Add(most), now, owner)
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
	owner, err := ownerOf(ctx, c.s.pool, ownerOfCardSQL, id)
	if err != nil {
		return err
	}
	_, err = c.s.pool.Exec(ctx, endChangeSQL, id, change, owner)
	return mapError(err)
}

// beginFreezingSQL takes a card that no change has. A change that ended with an outcome that is not known has left its
// time, and no name.
const beginFreezingSQL = `
	WITH before AS (
		SELECT id, CASE WHEN changing_until > $4 THEN changing_until END AS open FROM cards
		WHERE id = $1 AND owner = $5 AND (changing IS NULL OR changing_until IS NULL OR changing_until <= $4) FOR UPDATE)
	UPDATE cards SET changing = $2, changing_until = greatest($3, before.open) FROM before
	WHERE cards.id = before.id AND cards.owner = $5
	RETURNING before.open`

// BeginFreezing implements card.Store.
func (c Cards) BeginFreezing(
	ctx context.Context, id, change uuid.UUID, most time.Duration,
) (open time.Time, err error) {
	var until *time.Time
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		owner, err := lockCard(ctx, tx, id)
		if err != nil {
			return err
		}
		now := c.s.stamp()
		err = raw(tx).QueryRow(ctx, beginFreezingSQL, id, change, now.Add(most), now, owner).Scan(&until)
		if errors.Is(err, pgx.ErrNoRows) {
			return card.ErrBusy
		}
		return err
	})
	if err == nil && until != nil {
		open = until.UTC()
	}
	return open, err
}

// endFreezingSQL gives a card back. By the time that it leaves, observeSQL knows what an owner's freezing may become.
const endFreezingSQL = `
	UPDATE cards SET changing = NULL,
		changing_until = CASE WHEN $6::boolean THEN changing_until WHEN $3 > $5::timestamptz THEN $3::timestamptz
			WHEN owner_frozen AND status = 'ACTIVE' THEN $5 END,
		owner_frozen = owner_frozen AND ($6 OR NOT $4::boolean OR coalesce($3::timestamptz > $5, false)), updated_at = $5
	WHERE id = $1 AND owner = $7 AND changing = $2`

// EndFreezing implements card.Store.
func (c Cards) EndFreezing(ctx context.Context, id, change uuid.UUID, end card.Freezing) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	var open *time.Time
	if !end.Open.IsZero() {
		open = &end.Open
	}
	owner, err := ownerOf(ctx, c.s.pool, ownerOfCardSQL, id)
	if err != nil {
		return err
	}
	_, err = c.s.pool.Exec(ctx, endFreezingSQL, id, change, open, end.Undone, c.s.stamp(), end.Unknown, owner)
	return mapError(err)
}

// FeeTaken implements card.Store.
func (c Cards) FeeTaken(ctx context.Context, f job.Fence, postings []ledger.Posting) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		postAs(tx, c.s.stamp(), f.Of, postings...)
		return finishJob(ctx, tx, f, job.Done())
	})
}

// Observe implements card.Store.
func (c Cards) Observe(ctx context.Context, seen ...card.Seen) (changed []card.Card, err error) {
	if len(seen) == 0 {
		return nil, nil
	}
	refs, statuses, providers := make([]uuid.UUID, len(seen)), make([]string, len(seen)), make([]string, len(seen))
	asOf := make([]time.Time, len(seen))
	for i, one := range seen {
		refs[i], statuses[i], providers[i] = uuid.UUID(one.Ref), string(one.Status), one.Provider
		if asOf[i] = one.AsOf; one.AsOf.IsZero() {
			asOf[i] = c.s.stamp().Add(aheadOfClocks)
		}
	}
	var from, to []string
	for _, m := range card.Moves() {
		from, to = append(from, string(m[0])), append(to, string(m[1]))
	}
	args := []any{refs, statuses, from, to, c.s.stamp(), providers, asOf}
	if c.s.shards == nil {
		return c.observe(ctx, observeSQL, args...)
	}
	groups, err := c.s.dueOwners(ctx, seenCardsSQL, refs)
	for _, owners := range groups {
		some, err := c.observe(ctx, observeOfSQL, append(slices.Clone(args), owners)...)
		if changed = append(changed, some...); err != nil {
			return changed, err
		}
	}
	return changed, err
}

func (c Cards) observe(ctx context.Context, sql string, args ...any) (changed []card.Card, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, sql, args...)
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
	SELECT 1 FROM jobs WHERE kind = $1 AND unique_key = $2 AND status IN ('queued', 'processing'))`

// aheadOfClocks is ahead of the clock of any process: what an issuer answers to a change is newer than all that is
// stored.
const aheadOfClocks = time.Hour

// Rows are locked in one order, because two processes may observe the same cards. A report from before the last change
// of a card is old. An ACTIVE card whose owner's freezing did not take effect in its time is not frozen by its owner.
const observeSQL = `
	WITH seen AS (
		SELECT c.id, s.status FROM cards c
		JOIN unnest($1::uuid[], $2::text[], $6::text[], $7::timestamptz[]) AS s (reference, status, provider, as_of)
			ON c.reference = s.reference AND c.provider = s.provider AND c.updated_at <= s.as_of
		LEFT JOIN unnest($3::text[], $4::text[]) AS m (from_status, to_status)
			ON c.status = m.from_status AND s.status = m.to_status
		WHERE m.to_status IS NOT NULL
			OR c.owner_frozen AND c.status = 'ACTIVE' AND s.status = 'ACTIVE' AND c.changing_until <= least(s.as_of, $5)
		ORDER BY c.id FOR UPDATE OF c)
	UPDATE cards SET status = seen.status, updated_at = $5,
		owner_frozen = owner_frozen AND (seen.status <> 'ACTIVE' OR coalesce(changing_until > $5, false))
	FROM seen WHERE cards.id = seen.id
	RETURNING cards.id, cards.order_id, cards.status`

func scanObserved(row pgx.CollectableRow) (c card.Card, err error) {
	return c, row.Scan(&c.ID, &c.Order, &c.Status)
}

// Fail implements card.Store.
func (c Cards) Fail(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return c.s.withOwner(ctx, f, ownerOfCardSQL, id, func(ctx context.Context, tx *ent.Tx, owner string) error {
		return tx.Card.Update().Where(entcard.ID(id), entcard.Owner(owner), entcard.StatusEQ(entcard.StatusPENDING)).
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
