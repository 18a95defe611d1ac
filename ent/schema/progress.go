package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// Progress is how far a walk of the maintenance through a table has come, so that the next one begins there.
type Progress struct{ ent.Schema }

// Fields of a progress. The id names the walk.
func (Progress) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		// Everything before this time is done; of rows with this time, those up to the place.
		field.Time("at"),
		field.String("place").Default(""),
	}
}

// Annotations of a progress.
func (Progress) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("progress")}
}
