package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"github.com/google/uuid"
)

// ChainWatermark records that one process has compared the database with the chain, and up to which block. A process
// that does not find its watermark as it left it is connected to another database, or to an older state of the same.
type ChainWatermark struct{ ent.Schema }

// Fields of a watermark.
func (ChainWatermark) Fields() []ent.Field {
	return []ent.Field{
		field.UUID("id", uuid.UUID{}).Immutable(),
		// The server's system identifier, its timeline and the database, as far as the server tells them.
		field.String("server").Immutable(),
		// Counts up while the process lives.
		field.Int64("heartbeat").Default(0),
		// The block up to which transfers have been read.
		field.Int64("last_block").Default(0),
		field.Time("created_at").Immutable(),
		field.Time("seen_at"),
	}
}
