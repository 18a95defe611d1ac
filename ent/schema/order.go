package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// Order is one thing asked for by one wallet.
type Order struct{ ent.Schema }

var orderStatuses = []string{
	"payment_required", "settling", "settled", "provisioning", "fulfilled",
	"expired", "refund_pending", "refunded", "operator_review",
}

// Fields of an order.
func (Order) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		operation(),
		// Which product it is for. Each product names its own.
		field.String("kind").Immutable(),
		field.Enum("status").Values(orderStatuses...),
		// The wallet that pays.
		owner(),
		field.String("idempotency_key").Immutable(),
		field.Bytes("fingerprint").Immutable(),
		field.Int64("price_usd_cents").Immutable(),
		field.JSON("item", json.RawMessage{}).Immutable(),
		// What a payer is told the payment is for; empty for the order's own address.
		field.String("resource").Default("").Immutable(),
		field.Int("version"),
		// A provider's confirmed refusal begins the next attempt.
		field.Int("delivery_attempt").Default(1),
		// The reference that providers get: derived from kind, owner and key. Unset for orders without a key.
		field.UUID("reference", uuid.UUID{}).Optional().Nillable().Immutable(),
		// Why the order was claimed only to refund its payment; empty for all others.
		field.Text("refund_reason").Default(""),
		// The provider's reference of goods that were found after data loss and for which the order was made.
		field.UUID("adopted_reference", uuid.UUID{}).Optional().Nillable().Immutable(),
		field.Time("created_at").Immutable(),
		field.Time("updated_at"),
		field.Time("expires_at").Optional().Nillable(),
		// The request that created it unpaid, as its answer names it. One that was paid at once has it in its timeline.
		field.String("request_id").Optional().Nillable().Immutable(),
	}
}

// Indexes of an order.
func (Order) Indexes() []ent.Index {
	return []ent.Index{
		// The identity of a purchase: what makes a repeat a repeat.
		index.Fields("kind", "owner", "idempotency_key").Unique().StorageKey("orders_purchase"),
		index.Fields("owner", "id"),
		// Goods are adopted once over all owners, which the index alone does not ensure: whoever adopts locks the
		// reference first.
		index.Fields("adopted_reference", "owner").Unique().
			StorageKey("orders_adopted").
			Annotations(entsql.IndexWhere("(adopted_reference IS NOT NULL)")),
		index.Fields("status", "updated_at").
			StorageKey("orders_open").
			Annotations(entsql.IndexWhere("((status)::text <> 'fulfilled'::text)")),
		// What a request created, for operators who look for it.
		index.Fields("request_id").StorageKey("orders_request").
			Annotations(entsql.IndexWhere("(request_id IS NOT NULL)")),
		// What changed recently.
		index.Fields("updated_at").StorageKey("orders_changed"),
		// Unpaid orders by their expiry.
		index.Fields("expires_at").
			StorageKey("orders_unpaid").
			Annotations(entsql.IndexWhere("((status)::text = 'payment_required'::text)")),
		// Expired ones by age: what may be pruned. By another index they would be looked for among all orders.
		index.Fields("updated_at").
			StorageKey("orders_expired").
			Annotations(entsql.IndexWhere("((status)::text = 'expired'::text)")),
	}
}

// Annotations of an order.
func (Order) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"orders_kind":   kindOf("kind"),
		"orders_status": oneOf("status", orderStatuses),
		"orders_price":  "price_usd_cents > 0",
	})}
}
