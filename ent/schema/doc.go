// Package schema declares the tables.
//
// Conventions. Ids are uuids made by the client (UUIDv7). Times are timestamptz, UTC. Money is int64 in
// its smallest unit. Statuses are enums with a CHECK of the same values, because ent's enum is a plain
// varchar. Predicates of partial indexes are written in the form PostgreSQL prints, or every migration
// would drop and make the index again. Hashes and sealed data are Sensitive.
//
// Rows of an order. An order and every row that belongs to one have its owner in the column owner, and each of their
// unique keys includes it, so that these tables can be distributed by owner: orders, payments, refunds, reservations,
// cards, esim_profiles, esim_tokens, receipts, timeline, ledger_postings, ledger_entries and jobs. A key begins with
// what it is looked up by, because an order's id is often all that is known. Where uniqueness has to hold over all
// owners, the index says why it does. Primary keys of two columns are made in ent/migrate/keys.go: ent knows those of
// one only. A posting or a job that belongs to no order has the empty owner. The other tables belong to no owner, or
// copy what is kept elsewhere. Of these, supplier_orders tell the owner, too, but belong to an account at a supplier:
// their keys are without it.
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

// kindOf is the check of a column that names a product. The products are no list here: a new one is no migration.
func kindOf(column string) string { return column + " ~ '^[a-z][a-z_]{0,31}$'" }

// operation names the asynchronous work behind an order to the outside.
func operation() ent.Field {
	return field.UUID("operation_id", uuid.UUID{}).Immutable()
}

// owner is the wallet whose order the row belongs to, in lower-case hex.
func owner() ent.Field { return field.String("owner").Immutable() }
