package store

import (
	"context"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
)

const (
	actSwitches = "switches.list"
	actSwitch   = "switch.set"
)

const setSwitchSQL = `
	INSERT INTO switches (id, paused, reason, actor, changed_at) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (id) DO UPDATE SET paused = excluded.paused, reason = excluded.reason, actor = excluded.actor,
		changed_at = excluded.changed_at`

// Switches implements checkout.Switches.
func (d Desk) Switches(ctx context.Context) ([]checkout.Switch, error) {
	all, err := switches(ctx, d.s.ent.KillSwitch)
	return all, mapError(err)
}

// LookAtSwitches implements checkout.Switches.
func (d Desk) LookAtSwitches(ctx context.Context, act order.Act) ([]checkout.Switch, error) {
	var all []checkout.Switch
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
		if all, err = switches(ctx, tx.KillSwitch); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actSwitches, "", nil, nil)
	})
	return all, err
}

func switches(ctx context.Context, c *ent.KillSwitchClient) ([]checkout.Switch, error) {
	rows, err := c.Query().All(ctx)
	if err != nil {
		return nil, err
	}
	set := map[order.Kind]checkout.Switch{}
	for _, row := range rows {
		set[order.Kind(row.ID)] = checkout.Switch{
			Paused: row.Paused, Reason: row.Reason, Operator: row.Actor, ChangedAt: row.ChangedAt.UTC(),
		}
	}
	var all []checkout.Switch
	for _, product := range order.Kinds() {
		s := set[product]
		s.Product = product
		all = append(all, s)
	}
	return all, nil
}

// switched is what the audit trail keeps of a switch.
type switched struct {
	Paused bool `json:"paused"`
}

// SetSwitch implements checkout.Switches.
func (d Desk) SetSwitch(ctx context.Context, product order.Kind, paused bool, act order.Act) (checkout.Switch, error) {
	var now checkout.Switch
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "switch/"+string(product))
		repeated, err := d.s.repeats(ctx, tx, act, actSwitch, string(product), switched{paused})
		if err != nil {
			return err
		}
		all, err := switches(ctx, tx.KillSwitch)
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
		now = checkout.Switch{Product: product, Paused: paused, Reason: act.Reason, Operator: act.Operator, ChangedAt: d.s.stamp()}
		later(tx, setSwitchSQL, product, paused, now.Reason, now.Operator, now.ChangedAt)
		return d.s.record(ctx, tx, act, actSwitch, string(product), was, switched{paused})
	})
	return now, err
}
