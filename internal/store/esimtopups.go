package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

var _ esim.TopupStore = Esims{}

// EsimTopupProduct is the store's part of the sale of more data for eSIMs.
func EsimTopupProduct() Product {
	return Product{
		Kind: esim.TopupKind, records: esimTopupRecords,
		referencesSQL: `SELECT reference FROM esim_topups WHERE reference = ANY($1)`,
		ownersSQL:     `SELECT owner FROM esim_topups WHERE reference = ANY($2)`,
	}
}

const (
	esimTopupsOfSQL = `SELECT order_id, cost_micros FROM esim_topups
		WHERE status = 'ready' AND order_id = ANY($1) ORDER BY id`

	// The lock lets a top-up and a cancellation of one profile begin one after the other.
	lockToppedSQL = `SELECT status FROM esim_profiles WHERE id = $1 AND owner = $2 FOR UPDATE`

	ownerOfTopupSQL = `SELECT owner FROM esim_topups WHERE id = $1`

	toppedUpSQL = `SELECT EXISTS (SELECT 1 FROM esim_topups
		WHERE profile_id = $1 AND owner = $2 AND status <> 'failed')`

	findTopupSQL = `SELECT ` + ent.EsimTopupColumns + ` FROM esim_topups WHERE reference = $1 AND owner = $2`

	completeTopupSQL = `UPDATE esim_topups SET status = 'ready', account = $2, cost_micros = $3, updated_at = $4
		WHERE id = $1 AND owner = $5 AND status = 'ordered'`

	failTopupSQL = `UPDATE esim_topups SET status = 'failed', updated_at = $2
		WHERE id = $1 AND owner = $3 AND status = 'ordered'`

	deliveredByAccountSQL = `SELECT account, order_id, owner FROM esim_profiles
		WHERE provider = $1 AND status IN ('ready', 'cancelled') AND account = ANY($2)`
)

var (
	topupTable = ent.EsimTopupTable.But("order_id", "owner")

	reserveTopupSQL = table.Statement(`
		INSERT INTO esim_topups ({esim_topups}, order_id, owner) SELECT {n.esim_topups}, id, owner
		FROM orders WHERE id = {n.order_id} AND owner = {n.owner} RETURNING 1`, table.One("n", topupTable, ofOrder))
)

// A live plan stays as the last sync left it. Rows that did not change are not written.
var learnPlansSQL = plansSQL("", `NOT old.live AND (`+planColumns("old.")+`)
	IS DISTINCT FROM (`+planColumns("excluded.")+`)`)

// Learn implements esim.Store.
func (e Esims) Learn(ctx context.Context, provider string, plans []esim.Plan) ([]esim.Plan, error) {
	rows := e.planRows(provider, plans)
	for _, row := range rows {
		row.Live = false
	}
	if _, err := e.s.pool.Exec(ctx, learnPlansSQL, ent.EsimPlanTable.Arrays(rows)...); err != nil {
		return nil, mapError(err)
	}
	known, err := e.PlansByCode(ctx, provider)
	if err != nil {
		return nil, err
	}
	learned := make([]esim.Plan, len(plans))
	for i, p := range plans {
		learned[i] = known[p.Code]
	}
	return learned, nil
}

// TopupOrder implements esim.TopupStore.
func (e Esims) TopupOrder(ctx context.Context, id order.ID) (order.Order, error) {
	row, err := e.s.ent.Order.Query().Where(entorder.ID(string(id)), entorder.Kind(string(esim.TopupKind))).Only(ctx)
	if ent.IsNotFound(err) {
		return order.Order{}, esim.ErrNotFound
	}
	if err != nil {
		return order.Order{}, mapError(err)
	}
	return orderOf(row)
}

// ReserveTopup implements esim.TopupStore.
func (e Esims) ReserveTopup(ctx context.Context, f job.Fence, t esim.Topup) (esim.Topup, error) {
	var got esim.Topup
	err := e.s.withOwner(ctx, f, ownerOfProfileSQL, t.Profile, func(ctx context.Context, tx *ent.Tx, owner string) error {
		var status esim.Status
		switch err := raw(tx).QueryRow(ctx, lockToppedSQL, t.Profile, owner).Scan(&status); {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("profile %s: %w", t.Profile, esim.ErrNotFound)
		case err != nil:
			return fmt.Errorf("lock profile %s: %w", t.Profile, err)
		}
		rows, err := raw(tx).Query(ctx, findTopupSQL, uuid.UUID(t.Ref), owner)
		if err != nil {
			return err
		}
		known, err := pgx.CollectRows(rows, scanTopup)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			got = known[0]
			return nil
		}
		free, err := notCancelled(ctx, tx, t.Profile, owner, status)
		if err != nil {
			return err
		}
		if !free {
			return esim.ErrCancelling
		}
		got = t
		return touchInserted(ctx, tx, fmt.Errorf("order %s: %w", t.Order, esim.ErrNotFound), reserveTopupSQL,
			append(topupTable.Values(&ent.EsimTopup{
				ID: t.ID, ProfileID: t.Profile, PlanID: string(t.Plan), Provider: t.Provider, Status: string(t.Status),
				Reference: uuid.UUID(t.Ref), CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
			}), string(t.Order), owner)...)
	})
	return got, err
}

const cancelOfProfileSQL = `SELECT j.payload FROM jobs j
	JOIN esim_profiles p ON p.order_id = j.unique_key AND p.owner = j.owner
	WHERE j.kind = $1 AND j.owner = $3 AND p.id = $2`

// notCancelled reports whether a locked profile is its owner's, and not being given back.
func notCancelled(ctx context.Context, tx *ent.Tx, profile uuid.UUID, owner string, status esim.Status) (bool, error) {
	if status != esim.Ready {
		return false, nil
	}
	rows, err := raw(tx).Query(ctx, cancelOfProfileSQL, esim.CancelJob, profile, owner)
	if err != nil {
		return false, err
	}
	all, err := pgx.CollectRows(rows, scanEsimCancel)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if c.Stage != esim.StageKept {
			return false, nil
		}
	}
	return true, nil
}

// CompleteTopup implements esim.TopupStore.
func (e Esims) CompleteTopup(ctx context.Context, f job.Fence, t esim.Topup, postings []ledger.Posting) error {
	return e.s.withOwner(ctx, f, ownerOfTopupSQL, t.ID, func(ctx context.Context, tx *ent.Tx, owner string) error {
		now := e.s.stamp()
		tag, err := raw(tx).Exec(ctx, completeTopupSQL, t.ID, t.Account, int64(t.Cost), now, owner)
		if err == nil && tag.RowsAffected() > 0 {
			postAs(tx, now, f.Of, postings...)
		}
		return errors.Join(err, faultpoint.Fail("extend.before_commit"))
	})
}

// FailTopup implements esim.TopupStore.
func (e Esims) FailTopup(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return e.s.withOwner(ctx, f, ownerOfTopupSQL, id, func(ctx context.Context, tx *ent.Tx, owner string) error {
		_, err := raw(tx).Exec(ctx, failTopupSQL, id, e.s.stamp(), owner)
		return err
	})
}

// scanTopup reads a row of ent.EsimTopupColumns.
func scanTopup(from pgx.CollectableRow) (esim.Topup, error) {
	row, err := ent.ScanEsimTopup(from)
	return esim.Topup{
		ID: row.ID, Order: order.ID(row.OrderID), Profile: row.ProfileID, Plan: esim.PlanID(row.PlanID),
		Provider: row.Provider, Status: esim.Status(row.Status), Ref: fulfilment.Ref(row.Reference),
		Account: row.Account, Cost: money.USDC(row.CostMicros), CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(),
	}, err
}

// DeliveredByAccount implements esim.Accounts.
func (e Esims) DeliveredByAccount(
	ctx context.Context, provider string, accounts []string,
) (map[string]esim.Delivered, error) {
	rows, err := e.s.pool.Query(ctx, deliveredByAccountSQL, provider, accounts)
	if err != nil {
		return nil, mapError(err)
	}
	all := map[string]esim.Delivered{}
	var account, owner string
	var of order.ID
	_, err = pgx.ForEachRow(rows, []any{&account, &of, &owner}, func() error {
		address, err := x402.ParseAddress(owner)
		all[account] = esim.Delivered{Order: of, Owner: address}
		return err
	})
	return all, mapError(err)
}

// esimTopupRecords reads the top-ups of orders that were made.
func esimTopupRecords(b booksReader, orders []string) (reconcile.Goods, error) {
	var r esim.TopupRecords
	err := b.all(readAll(b, &r.Topups, func(row pgx.CollectableRow) (t esim.Topup, err error) {
		var cost money.USDC
		err = row.Scan(&t.Order, (*int64)(&cost))
		t.Cost = cost
		return t, err
	}, esimTopupsOfSQL, orders))
	return r, err
}
