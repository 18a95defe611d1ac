package store

import (
	"context"
	"maps"
	"slices"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
)

const (
	actSwitches = "switches.list"
	actSwitch   = "switch.set"
)

var setSwitchSQL = ent.KillSwitchTable.Insert() + `
	ON CONFLICT (id) DO UPDATE SET paused = excluded.paused, reason = excluded.reason, actor = excluded.actor,
		changed_at = excluded.changed_at`

// Switches implements availability.SwitchStore.
func (d Admin) Switches(ctx context.Context) ([]availability.Switch, error) {
	all, err := d.s.switches(ctx, d.s.ent.KillSwitch)
	return all, mapError(err)
}

// LookAtSwitches implements admin.Switches.
func (d Admin) LookAtSwitches(ctx context.Context, act order.OperatorContext) ([]availability.Switch, error) {
	var all []availability.Switch
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
		if all, err = d.s.switches(ctx, tx.KillSwitch); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actSwitches, "", nil, nil)
	})
	return all, err
}

func (s *Store) switches(ctx context.Context, c *ent.KillSwitchClient) ([]availability.Switch, error) {
	rows, err := c.Query().All(ctx)
	if err != nil {
		return nil, err
	}
	set := map[order.Kind]availability.Switch{}
	for _, row := range rows {
		set[order.Kind(row.ID)] = availability.Switch{
			Paused: row.Paused, Reason: row.Reason, Operator: row.Actor, ChangedAt: row.ChangedAt.UTC(),
		}
	}
	var all []availability.Switch
	for _, p := range s.products {
		one := set[p.Kind]
		one.Product = p.Kind
		all = append(all, one)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := availability.ProviderOf(name); ok {
			one := set[name]
			one.Product = name
			all = append(all, one)
		}
	}
	return all, nil
}

// switched is the audit record of a kill switch.
type switched struct {
	Paused bool `json:"paused"`
}

// SetSwitch implements admin.Switches.
func (d Admin) SetSwitch(
	ctx context.Context, product order.Kind, paused bool, act order.OperatorContext,
) (availability.Switch, error) {
	var now availability.Switch
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "switch/"+string(product))
		repeated, err := d.s.repeats(ctx, tx, act, actSwitch, string(product), switched{paused})
		if err != nil {
			return err
		}
		all, err := d.s.switches(ctx, tx.KillSwitch)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.Product == product {
				now = s
			}
		}
		if repeated {
			return nil
		}
		if err := closing(ctx, tx, product); err != nil {
			return err
		}
		was := switched{now.Paused}
		now = availability.Switch{Product: product, Paused: paused, Reason: act.Reason, Operator: act.Operator,
			ChangedAt: d.s.stamp()}
		later(tx, setSwitchSQL, ent.KillSwitchTable.Values(&ent.KillSwitch{
			ID: string(product), Paused: paused, Reason: now.Reason, Actor: now.Operator, ChangedAt: now.ChangedAt,
		})...)
		return d.s.record(ctx, tx, act, actSwitch, string(product), was, switched{paused})
	})
	return now, err
}
