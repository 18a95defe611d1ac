package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// EsimPlan is a plan of the catalogue. Plans are never deleted: orders name them.
type EsimPlan struct{ ent.Schema }

var (
	planTypes       = []string{"country", "region"}
	profileStatuses = []string{"ordered", "ready", "failed", "cancelled"}
	topupStatuses   = []string{"ordered", "ready", "failed"}
)

// Fields of a plan.
func (EsimPlan) Fields() []ent.Field {
	return []ent.Field{
		// Opaque: "pln_" and random hex.
		field.String("id").Immutable(),
		// The supplier by the name in the settings, and its name for the plan; neither leaves the service, nor does the cost.
		field.String("provider").Immutable(),
		field.String("code").Immutable(),
		field.String("name"),
		field.Enum("type").Values(planTypes...),
		field.Strings("countries"),
		// 0 when the data is unlimited.
		field.Int("data_mb"),
		field.Bool("unlimited").Default(false),
		field.String("fair_use").Default(""),
		field.Int("validity_days"),
		field.Int64("cost_micros"),
		field.Int64("price_usd_cents"),
		field.Bool("live"),
		field.Time("created_at").Immutable(),
		field.Time("updated_at"),
	}
}

// Indexes of a plan.
func (EsimPlan) Indexes() []ent.Index {
	return []ent.Index{index.Fields("provider", "code").Unique().StorageKey("esim_plans_code")}
}

// Annotations of a plan.
func (EsimPlan) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"esim_plans_type":  oneOf("type", planTypes),
		"esim_plans_price": "price_usd_cents BETWEEN 1 AND 25000",
		"esim_plans_terms": "data_mb >= 0 AND (data_mb > 0) <> unlimited AND validity_days > 0 AND cost_micros > 0",
	})}
}

// EsimSync is when the plans of a supplier were last synchronised with it; the id is the supplier's name.
type EsimSync struct{ ent.Schema }

// Fields of a sync.
func (EsimSync) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		field.Time("synced_at"),
	}
}

// EsimProfile is the eSIM of one order.
type EsimProfile struct{ ent.Schema }

// Fields of a profile.
func (EsimProfile) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		owner(),
		field.String("plan_id").Immutable(),
		// The supplier by the name in the settings: the plan's.
		field.String("provider").Immutable(),
		field.Enum("status").Values(profileStatuses...),
		// Our reference for the supplier's order, stored before the supplier is first called.
		field.UUID("reference", uuid.UUID{}).Immutable(),
		field.String("account").Default(""),
		// What the supplier charged, in millionths of a dollar; 0 while that is not known.
		field.Int64("cost_micros").Default(0),
		// The activation data: AES-256-GCM under the named key.
		field.String("sealed_key").Default(""),
		field.Bytes("sealed").Optional().Sensitive(),
		field.Time("created_at").Immutable(),
		field.Time("updated_at"),
	}
}

// Indexes of a profile.
func (EsimProfile) Indexes() []ent.Index {
	return []ent.Index{
		// An order has one for each attempt at its delivery.
		index.Fields("order_id", "owner", "created_at"),
		// Derived from the order, which has one owner: so it is unique over all owners too.
		index.Fields("reference", "owner").Unique().StorageKey("esim_profiles_reference"),
		// Read when profiles are sealed again with a new key.
		index.Fields("sealed_key"),
	}
}

// Annotations of a profile.
func (EsimProfile) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"esim_profiles_status": oneOf("status", profileStatuses),
		"esim_profiles_cost":   "cost_micros >= 0",
		"esim_profiles_sealed": "(status = 'ready') = (sealed IS NOT NULL AND sealed_key <> '')",
	})}
}

// EsimTopup is the data that one order adds to a profile.
type EsimTopup struct{ ent.Schema }

// Fields of a top-up.
func (EsimTopup) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		owner(),
		field.UUID("profile_id", uuid.UUID{}).Immutable(),
		field.String("plan_id").Immutable(),
		// The supplier by the name in the settings: the profile's.
		field.String("provider").Immutable(),
		field.Enum("status").Values(topupStatuses...),
		// Our reference for the supplier's order, stored before the supplier is first called.
		field.UUID("reference", uuid.UUID{}).Immutable(),
		field.String("account").Default(""),
		// What the supplier charged, in millionths of a dollar; 0 while that is not known.
		field.Int64("cost_micros").Default(0),
		field.Time("created_at").Immutable(),
		field.Time("updated_at"),
	}
}

// Indexes of a top-up.
func (EsimTopup) Indexes() []ent.Index {
	return []ent.Index{
		// An order has one for each attempt at its delivery.
		index.Fields("order_id", "owner", "created_at"),
		// Derived from the order, which has one owner: so it is unique over all owners too.
		index.Fields("reference", "owner").Unique().StorageKey("esim_topups_reference"),
		// Read when a profile is given back.
		index.Fields("profile_id", "owner"),
	}
}

// Annotations of a top-up.
func (EsimTopup) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"esim_topups_status": oneOf("status", topupStatuses),
		"esim_topups_cost":   "cost_micros >= 0",
	})}
}

// EsimToken is the live version of a delivery token that was rotated; the first version has no row.
type EsimToken struct{ ent.Schema }

// Fields of a token. Its id is the order's.
func (EsimToken) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		owner(),
		field.Int("version"),
		field.Time("expires_at"),
	}
}
