package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// Card is a card sold to a wallet. Its number and code are never here.
type Card struct{ ent.Schema }

var cardStatuses = []string{"PENDING", "ACTIVE", "FROZEN", "CLOSED", "FAILED"}

// Fields of a card.
func (Card) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		owner(),
		field.Enum("status").Values(cardStatuses...),
		// Its issuer by the name in the settings, the issuer's programme that it is made in, and whose name it is in: all
		// of them fixed before the issuer is first called.
		field.String("provider").Immutable(),
		field.String("programme").Default("").Immutable(),
		field.String("holder").Default("").Immutable(),
		// Our reference for opening it, stored before the issuer is first called.
		field.UUID("reference", uuid.UUID{}).Immutable(),
		// What the issuer opens it with, fixed before the issuer is first called.
		field.Int64("load_usd_cents").Default(2500).Immutable(),
		field.String("account").Default(""),
		field.String("last4").Default(""),
		// The owner has asked to freeze it, and may unfreeze it.
		field.Bool("owner_frozen").Default(false),
		// Whose movement has the card: an order's or a fee job's, under which reference, and what it brings the card to.
		field.String("moving_order").Default(""),
		field.UUID("moving_job", uuid.UUID{}).Optional().Nillable(),
		field.UUID("moving_reference", uuid.UUID{}).Optional().Nillable(),
		field.Int64("moving_target_usd_cents").Default(0),
		// A change of the owner's that has the card, and until when it has it at most.
		field.UUID("changing", uuid.UUID{}).Optional().Nillable(),
		field.Time("changing_until").Optional().Nillable(),
		field.Time("created_at").Immutable(),
		field.Time("updated_at"),
	}
}

// Indexes of a card.
func (Card) Indexes() []ent.Index {
	return []ent.Index{
		// An order makes one card; those that the issuer refused stay, under their references.
		index.Fields("order_id", "owner").Unique().
			StorageKey("cards_order").
			Annotations(entsql.IndexWhere("((status)::text <> 'FAILED'::text)")),
		index.Fields("order_id", "owner", "created_at"),
		// Derived from the order, which has one owner: so it is unique over all owners too.
		index.Fields("reference", "owner").Unique().StorageKey("cards_reference"),
		// One live card per owner.
		index.Fields("owner").Unique().
			StorageKey("cards_live").
			Annotations(entsql.IndexWhere(
				"(((status)::text <> 'CLOSED'::text) AND ((status)::text <> 'FAILED'::text))")),
		index.Fields("owner", "created_at"),
		index.Fields("account", "provider").StorageKey("cards_account").
			Annotations(entsql.IndexWhere("((account)::text <> ''::text)")),
	}
}

// Annotations of a card.
func (Card) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"cards_status": oneOf("status", cardStatuses)})}
}
