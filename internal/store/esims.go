package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/esimplan"
	"github.com/roamcard/roamcard/ent/esimprofile"
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
)

// Esims keeps the catalogue of eSIM plans and the eSIMs sold. It implements esim.Store.
type Esims struct{ s *Store }

var (
	_ esim.Store       = Esims{}
	_ esim.CancelStore = Esims{}
)

// Reserved implements esim.Store.
func (e Esims) Reserved(ctx context.Context, resource string, asOf time.Time) (int64, error) {
	return e.s.reserved(ctx, resource, asOf)
}

// Unpaid implements esim.Store.
func (e Esims) Unpaid(ctx context.Context, resource string) (int64, error) {
	return e.s.unpaid(ctx, resource)
}

// Esims is the part of the store that the eSIM product uses.
func (s *Store) Esims() Esims { return Esims{s} }

// EsimProduct is the store's part of the eSIM product.
func EsimProduct() Product {
	return Product{
		Kind: esim.Kind, records: esimRecords, referencesSQL: `SELECT reference FROM esim_profiles WHERE reference = ANY($1)`,
		ownersSQL: `SELECT owner FROM esim_profiles WHERE reference = ANY($2)`, jobs: []job.Kind{esim.CancelJob},
		returns: []job.Kind{esim.CancelJob},
	}
}

const (
	esimsOfSQL = `SELECT order_id, cost_micros FROM esim_profiles
		WHERE status IN ('ready', 'cancelled') AND order_id = ANY($1) ORDER BY id`

	// The unique key of a cancellation is its order.
	esimCancelsOfSQL = `SELECT payload FROM jobs WHERE kind = $1 AND unique_key = ANY($2::text[]) ORDER BY id`
)

const ownerOfProfileSQL = `SELECT owner FROM esim_profiles WHERE id = $1`

// installable is how long an eSIM may wait to be installed at most, at any supplier. Its plan begins then.
const installable = 366 * 24 * time.Hour

const esimProvidersSQL = `
	SELECT p.provider FROM orders o JOIN esim_plans p ON p.id = o.item->>'planId' WHERE ` + paidFor + `
	UNION SELECT e.provider FROM esim_profiles e LEFT JOIN esim_plans p ON p.id = e.plan_id
		WHERE e.status = 'ready' AND e.created_at + coalesce(p.validity_days, 0) * interval '1 day' > $2
	UNION SELECT e.provider FROM jobs j JOIN esim_profiles e ON e.order_id = j.unique_key AND e.owner = j.owner
		WHERE j.kind = $3 AND j.status IN ('queued', 'processing', 'operator_review') AND e.status <> 'failed'
	ORDER BY 1`

// shardedEsimProvidersSQL reads the plans, which are on the coordinator, first.
const shardedEsimProvidersSQL = `
	WITH plans AS MATERIALIZED (SELECT id, provider, validity_days FROM esim_plans)
	SELECT p.provider FROM orders o JOIN plans p ON p.id = o.item->>'planId' WHERE ` + paidFor + `
	UNION SELECT e.provider FROM esim_profiles e LEFT JOIN plans p ON p.id = e.plan_id
		WHERE e.status = 'ready' AND e.created_at + coalesce(p.validity_days, 0) * interval '1 day' > $2
	UNION SELECT e.provider FROM jobs j JOIN esim_profiles e ON e.order_id = j.unique_key AND e.owner = j.owner
		WHERE j.kind = $3 AND j.status IN ('queued', 'processing', 'operator_review') AND e.status <> 'failed'
	ORDER BY 1`

// Providers are the suppliers of paid orders for eSIMs, of eSIMs whose plan may not be over, and of those that are
// being given back.
func (e Esims) Providers(ctx context.Context) ([]string, error) {
	sql := e.s.shards.either(esimProvidersSQL, shardedEsimProvidersSQL)
	return e.s.names(ctx, sql, esim.Kind, e.s.stamp().Add(-installable), esim.CancelJob)
}

// esimRecords reads the profiles of orders that were made, and the orders' cancellations.
func esimRecords(b booksReader, orders []string) (reconcile.Goods, error) {
	var r esim.Records
	err := b.all(
		readAll(b, &r.Profiles, scanEsim, esimsOfSQL, orders),
		readAll(b, &r.Cancellations, scanEsimCancel, esimCancelsOfSQL, esim.CancelJob, orders),
	)
	return r, err
}

func scanEsim(row pgx.CollectableRow) (p esim.Profile, err error) {
	return p, row.Scan(&p.Order, (*int64)(&p.Cost))
}

// PlansByCode implements esim.Plans.
func (e Esims) PlansByCode(ctx context.Context, provider string) (map[string]esim.Plan, error) {
	rows, err := e.s.ent.EsimPlan.Query().Where(esimplan.Provider(provider)).All(ctx)
	all := map[string]esim.Plan{}
	for _, row := range rows {
		all[row.Code] = planOf(row)
	}
	return all, mapError(err)
}

const (
	// A sync of a provider that began before its last one finished is ignored.
	syncedSQL = `
		INSERT INTO esim_syncs (id, synced_at) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET synced_at = excluded.synced_at WHERE esim_syncs.synced_at <= excluded.synced_at`

	dropPlansSQL = `UPDATE esim_plans SET live = false, updated_at = $2
		WHERE live AND provider = $3 AND NOT code = ANY($1)`

	rotateTokenSQL = `
		INSERT INTO esim_tokens (id, owner, version, expires_at) VALUES ($1, $2, 2, $3)
		ON CONFLICT (id, owner) DO UPDATE SET version = esim_tokens.version + 1, expires_at = excluded.expires_at
		RETURNING version, expires_at`
)

var (
	// A profile and a top-up n are stored for an order that exists, whose columns of theirs are read from it.
	profileTable = ent.EsimProfileTable.But("order_id", "owner")
	ofOrder      = table.Columns{{Name: "order_id", Type: "varchar"}, {Name: "owner", Type: "varchar"}}

	reserveProfileSQL = table.Statement(`
		INSERT INTO esim_profiles ({esim_profiles}, order_id, owner) SELECT {n.esim_profiles}, id, owner
		FROM orders WHERE id = {n.order_id} AND owner = {n.owner} RETURNING 1`, table.One("n", profileTable, ofOrder))
)

// Of the plans p, rows that did not change are not written.
var replacePlansSQL = plansSQL(`live = excluded.live, `, `(old.live, `+planColumns("old.")+`)
	IS DISTINCT FROM (excluded.live, `+planColumns("excluded.")+`)`)

// plansSQL stores the plans p over known ones, where a condition is true.
func plansSQL(also, where string) string {
	return table.Statement(`
		INSERT INTO esim_plans AS old ({esim_plans}) SELECT {p.esim_plans} FROM {p} ORDER BY p.esim_plans_code
		ON CONFLICT (provider, code) DO UPDATE SET name = excluded.name, type = excluded.type,
			countries = excluded.countries, data_mb = excluded.data_mb, unlimited = excluded.unlimited,
			fair_use = excluded.fair_use, validity_days = excluded.validity_days, cost_micros = excluded.cost_micros,
			price_usd_cents = excluded.price_usd_cents, `+also+`updated_at = excluded.updated_at
		WHERE `+where, table.Rows("p", ent.EsimPlanTable))
}

// planColumns are what a supplier says of a plan.
func planColumns(of string) string {
	return of + strings.Join([]string{
		"name", "type", "countries", "data_mb", "unlimited", "fair_use", "validity_days", "cost_micros", "price_usd_cents",
	}, ", "+of)
}

func (e Esims) planRows(provider string, plans []esim.Plan) []*ent.EsimPlan {
	rows, now := make([]*ent.EsimPlan, len(plans)), e.s.stamp()
	for i, p := range plans {
		rows[i] = &ent.EsimPlan{
			ID: string(p.ID), Provider: provider, Code: p.Code, Name: p.Name, Type: esimplan.Type(p.Type),
			Countries: p.Countries, DataMB: p.DataMB, Unlimited: p.Unlimited, FairUse: p.FairUse,
			ValidityDays: p.ValidityDays, CostMicros: int64(p.Cost), PriceUsdCents: int64(p.Price), Live: p.Live,
			CreatedAt: now, UpdatedAt: now,
		}
	}
	return rows
}

// Plans implements esim.Store.
func (e Esims) Plans(ctx context.Context) ([]esim.Plan, map[string]time.Time, error) {
	synced, err := e.Synced(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := e.s.ent.EsimPlan.Query().Where(esimplan.Live(true)).
		Order(esimplan.ByPriceUsdCents(), esimplan.ByUnlimited(sql.OrderDesc()), esimplan.ByDataMB(sql.OrderDesc()),
			esimplan.ByID()).All(ctx)
	if err != nil {
		return nil, nil, mapError(err)
	}
	plans := make([]esim.Plan, len(rows))
	for i, row := range rows {
		plans[i] = planOf(row)
	}
	return plans, synced, nil
}

// Synced is when the plans of each supplier were read last.
func (e Esims) Synced(ctx context.Context) (map[string]time.Time, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	syncs, err := e.s.ent.EsimSync.Query().All(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the times of syncs: %w", mapError(err))
	}
	synced := make(map[string]time.Time, len(syncs))
	for _, s := range syncs {
		synced[s.ID] = s.SyncedAt.UTC()
	}
	return synced, nil
}

// Plan implements esim.Store.
func (e Esims) Plan(ctx context.Context, id esim.PlanID) (esim.Plan, error) {
	row, err := e.s.ent.EsimPlan.Get(ctx, string(id))
	if ent.IsNotFound(err) {
		return esim.Plan{}, esim.ErrNotFound
	}
	if err != nil {
		return esim.Plan{}, mapError(err)
	}
	return planOf(row), nil
}

// PlanNames implements esim.Store.
func (e Esims) PlanNames(ctx context.Context, ids ...esim.PlanID) (map[esim.PlanID]string, error) {
	rows, err := e.s.ent.EsimPlan.Query().Where(esimplan.IDIn(textsOf(ids)...)).
		Select(esimplan.FieldID, esimplan.FieldName).All(ctx)
	names := make(map[esim.PlanID]string, len(rows))
	for _, row := range rows {
		names[esim.PlanID(row.ID)] = row.Name
	}
	return names, mapError(err)
}

// Replace implements esim.Store.
func (e Esims) Replace(ctx context.Context, provider string, plans []esim.Plan, at time.Time) error {
	codes := make([]string, len(plans))
	for i, p := range plans {
		codes[i] = p.Code
	}
	rows := e.planRows(provider, plans)
	return e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		tag, err := raw(tx).Exec(ctx, syncedSQL, provider, at.UTC().Truncate(time.Microsecond))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if _, err := raw(tx).Exec(ctx, replacePlansSQL, ent.EsimPlanTable.Arrays(rows)...); err != nil {
			return err
		}
		_, err = raw(tx).Exec(ctx, dropPlansSQL, codes, e.s.stamp(), provider)
		return err
	})
}

// Withdraw implements esim.Store.
func (e Esims) Withdraw(ctx context.Context, id esim.PlanID) error {
	return mapError(e.s.ent.EsimPlan.UpdateOneID(string(id)).SetLive(false).SetUpdatedAt(e.s.stamp()).Exec(ctx))
}

// Order implements esim.Store.
func (e Esims) Order(ctx context.Context, id order.ID) (order.Order, error) {
	row, err := e.s.ent.Order.Query().Where(entorder.ID(string(id)), entorder.Kind(string(esim.Kind))).Only(ctx)
	if ent.IsNotFound(err) {
		return order.Order{}, esim.ErrNotFound
	}
	if err != nil {
		return order.Order{}, mapError(err)
	}
	return orderOf(row)
}

// Watch implements esim.Store.
func (e Esims) Watch(id order.ID) (wake <-chan struct{}, stop func()) { return e.s.Orders().Watch(id) }

// Profiles implements esim.Store.
func (e Esims) Profiles(ctx context.Context, orders ...order.ID) (map[order.ID]esim.Profile, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	names := make([]string, len(orders))
	for i, id := range orders {
		names[i] = string(id)
	}
	rows, err := e.s.ent.EsimProfile.Query().Where(esimprofile.OrderIDIn(names...)).Order(esimprofile.ByCreatedAt()).
		All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make(map[order.ID]esim.Profile, len(rows))
	for _, row := range rows { // the latest is last
		found[order.ID(row.OrderID)] = profileOf(row)
	}
	return found, nil
}

// Reserve implements esim.Store.
func (e Esims) Reserve(ctx context.Context, f job.Fence, p esim.Profile) (esim.Profile, error) {
	var got esim.Profile
	err := e.s.withOwner(ctx, f, ownerOfOrderSQL, p.Order, func(ctx context.Context, tx *ent.Tx, owner string) error {
		// The fence locks the order's job, so no other transaction can make its profile.
		row, err := tx.EsimProfile.Query().Where(esimprofile.Reference(uuid.UUID(p.Ref)), esimprofile.Owner(owner)).Only(ctx)
		if err == nil {
			got = profileOf(row)
			return nil
		}
		if !ent.IsNotFound(err) {
			return err
		}
		got = p
		return touchInserted(ctx, tx, fmt.Errorf("order %s: %w", p.Order, esim.ErrNotFound), reserveProfileSQL,
			append(profileTable.Values(&ent.EsimProfile{
				ID: p.ID, PlanID: string(p.Plan), Provider: p.Provider, Status: esimprofile.Status(p.Status),
				Reference: uuid.UUID(p.Ref), CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
			}), string(p.Order), owner)...)
	})
	return got, err
}

// Install implements esim.Store.
func (e Esims) Install(ctx context.Context, f job.Fence, p esim.Profile, postings []ledger.Posting) error {
	return e.s.withOwner(ctx, f, ownerOfProfileSQL, p.ID, func(ctx context.Context, tx *ent.Tx, owner string) error {
		now := e.s.stamp()
		n, err := tx.EsimProfile.Update().Where(esimprofile.ID(p.ID), esimprofile.Owner(owner),
			esimprofile.StatusEQ(esimprofile.StatusOrdered)).
			SetStatus(esimprofile.StatusReady).SetAccount(p.Account).SetCostMicros(int64(p.Cost)).
			SetSealedKey(p.ActivationData.Key).SetSealed(p.ActivationData.Box).SetUpdatedAt(now).Save(ctx)
		if err == nil && n > 0 {
			postAs(tx, now, f.Of, postings...)
		}
		return errors.Join(err, faultpoint.Fail("esim.before_commit"))
	})
}

// Fail implements esim.Store.
func (e Esims) Fail(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return e.s.withOwner(ctx, f, ownerOfProfileSQL, id, func(ctx context.Context, tx *ent.Tx, owner string) error {
		return tx.EsimProfile.Update().Where(esimprofile.ID(id), esimprofile.Owner(owner),
			esimprofile.StatusEQ(esimprofile.StatusOrdered)).
			SetStatus(esimprofile.StatusFailed).SetUpdatedAt(e.s.stamp()).Exec(ctx)
	})
}

// Foreign implements esim.Store.
func (e Esims) Foreign(ctx context.Context, key string, limit int) ([]esim.Profile, error) {
	rows, err := e.s.ent.EsimProfile.Query().
		Where(esimprofile.SealedKeyNEQ(key), esimprofile.StatusEQ(esimprofile.StatusReady)).Limit(limit).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make([]esim.Profile, len(rows))
	for i, row := range rows {
		found[i] = profileOf(row)
	}
	return found, nil
}

// Sealed counts the ready profiles by the key that has sealed their activation data, without those of some keys.
func (e Esims) Sealed(ctx context.Context, without []string) (map[string]int, error) {
	var rows []struct {
		Key   string `json:"sealed_key"`
		Count int    `json:"count"`
	}
	err := e.s.ent.EsimProfile.Query().
		Where(esimprofile.SealedKeyNotIn(without...), esimprofile.StatusEQ(esimprofile.StatusReady)).
		GroupBy(esimprofile.FieldSealedKey).Aggregate(ent.Count()).Scan(ctx, &rows)
	if err != nil {
		return nil, mapError(err)
	}
	all := map[string]int{}
	for _, row := range rows {
		all[row.Key] = row.Count
	}
	return all, nil
}

// Reseal implements esim.Store.
func (e Esims) Reseal(ctx context.Context, id uuid.UUID, was, is esim.Sealed) error {
	owner, err := ownerOf(ctx, e.s.pool, ownerOfProfileSQL, id)
	if err != nil {
		return err
	}
	return mapError(e.s.ent.EsimProfile.Update().
		Where(esimprofile.ID(id), esimprofile.Owner(owner), esimprofile.SealedKey(was.Key), esimprofile.Sealed(was.Box)).
		SetSealedKey(is.Key).SetSealed(is.Box).SetUpdatedAt(e.s.stamp()).Exec(ctx))
}

// Token implements esim.Store.
func (e Esims) Token(ctx context.Context, id order.ID) (v esim.TokenVersion, ok bool, err error) {
	row, err := e.s.ent.EsimToken.Get(ctx, string(id))
	if ent.IsNotFound(err) {
		return esim.TokenVersion{}, false, nil
	}
	if err != nil {
		return esim.TokenVersion{}, false, mapError(err)
	}
	return esim.TokenVersion{Version: row.Version, ExpiresAt: row.ExpiresAt.UTC()}, true, nil
}

// Rotate implements esim.Store.
func (e Esims) Rotate(ctx context.Context, id order.ID, expires time.Time) (esim.TokenVersion, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var v esim.TokenVersion
	owner, err := ownerOf(ctx, e.s.pool, ownerOfOrderSQL, id)
	if err != nil {
		return v, err
	}
	if owner == "" {
		return v, mapError(pgx.ErrNoRows)
	}
	err = e.s.pool.QueryRow(ctx, rotateTokenSQL, id, owner, expires.UTC()).Scan(&v.Version, &v.ExpiresAt)
	if err != nil {
		return esim.TokenVersion{}, mapError(err)
	}
	v.ExpiresAt = v.ExpiresAt.UTC()
	return v, nil
}

func planOf(row *ent.EsimPlan) esim.Plan {
	return esim.Plan{
		ID: esim.PlanID(row.ID), Name: row.Name, Type: esim.Type(row.Type), Countries: row.Countries, DataMB: row.DataMB,
		Unlimited: row.Unlimited, FairUse: row.FairUse, ValidityDays: row.ValidityDays, Price: money.Cents(row.PriceUsdCents),
		Provider: row.Provider, Code: row.Code,
		Cost: money.USDC(row.CostMicros), Live: row.Live,
	}
}

func profileOf(row *ent.EsimProfile) esim.Profile {
	return esim.Profile{
		ID: row.ID, Order: order.ID(row.OrderID), Plan: esim.PlanID(row.PlanID), Provider: row.Provider,
		Status: esim.Status(row.Status),
		Ref:    fulfilment.Ref(row.Reference), Account: row.Account, Cost: money.USDC(row.CostMicros),
		ActivationData: esim.Sealed{Key: row.SealedKey, Box: row.Sealed},
		CreatedAt:      row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
	}
}
