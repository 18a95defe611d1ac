// Package schema declares the tables.
//
// Conventions. Ids are uuids made by the client (UUIDv7). Times are timestamptz, UTC. Money is int64 in
// its smallest unit. Statuses are enums with a CHECK of the same values, because ent's enum is a plain
// varchar. Predicates of partial indexes are written in the form PostgreSQL prints, or every migration
// would drop and make the index again. Hashes and sealed material are Sensitive.
package schema

import (
	"strings"

	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"github.com/google/uuid"
)

// id is the primary key of every table that people or other tables point to.
func id() ent.Field {
	return field.UUID("id", uuid.UUID{}).Default(newID).Immutable()
}

// newID is time-ordered, so that index inserts stay together.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// oneOf is the CHECK that column holds one of the values.
func oneOf(column string, values []string) string {
	return column + " IN ('" + strings.Join(values, "', '") + "')"
}

// operation names the asynchronous work behind an order to the outside.
func operation() ent.Field {
	return field.UUID("operation_id", uuid.UUID{}).Immutable()
}
