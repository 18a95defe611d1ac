package table_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/roamcard/roamcard/ent/table"
)

type cup struct {
	ID    string
	Size  int
	Notes map[string]string
}

var cups = table.New("cups",
	table.Col("id", "varchar", func(c *cup) string { return c.ID }),
	table.Col("size", "bigint", func(c *cup) int { return c.Size }),
	table.Col("notes", "jsonb", func(c *cup) json.RawMessage { return table.OptionalJSON(c.Notes) }),
)

func TestStatementTakesEachColumnOnce(t *testing.T) {
	lid := table.Columns{{Name: "lid", Type: "bool"}}
	for _, c := range []struct {
		name, text, want string
		sets             []table.Set
	}{
		{"many", `INSERT INTO cups ({cups}) SELECT {m.cups} FROM {m} WHERE m.lid`,
			`INSERT INTO cups (id, size) SELECT m.cups_id, m.cups_size ` +
				`FROM unnest($1::varchar[], $2::bigint[], $3::bool[]) AS m (cups_id, cups_size, lid) WHERE m.lid`,
			[]table.Set{table.Rows("m", cups.But("notes"), lid)}},
		{"one", `UPDATE cups SET size = {n.cups_size} WHERE id = {n.cups_id} AND {n.lid}`,
			`UPDATE cups SET size = $2::bigint WHERE id = $1::varchar AND $3::bool`,
			[]table.Set{table.One("n", cups.Only("id", "size"), lid)}},
		{"two sets", `SELECT {b.lid} FROM {a}`, `SELECT $2::bool FROM unnest($1::varchar[]) AS a (cups_id)`,
			[]table.Set{table.Rows("a", cups.Only("id")), table.One("b", lid)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := table.Statement(c.text, c.sets...); got != c.want {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

func TestWrongStatementPanics(t *testing.T) {
	all := table.Rows("m", cups)
	for text, why := range map[string]string{
		`SELECT 1`:             "does not take {m.cups_id}",
		`SELECT {m.lid}`:       "names no column",
		`SELECT {mugs}`:        "names no set and no table",
		`SELECT * FROM {m} { `: "a brace",
	} {
		panicsWith(t, why, func() { table.Statement(text, all) })
	}
	panicsWith(t, "is one row", func() { table.Statement(`SELECT * FROM {n}`, table.One("n", cups)) })
	panicsWith(t, "has no [lid]", func() { cups.But("lid") })
	panicsWith(t, "has no [lid]", func() { cups.Only("id", "lid") })
}

func panicsWith(t *testing.T, why string, do func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if text, _ := recover().(string); !strings.Contains(text, why) {
			t.Errorf("panic %q, want %q", text, why)
		}
	}()
	do()
}

func TestNilIsNullOfJSONWhereItMayNotBeMissing(t *testing.T) {
	var none []string
	if got := table.JSON(none); string(got) != "null" {
		t.Errorf("JSON: %s", got)
	}
	if got := table.OptionalJSON(none); got != nil {
		t.Errorf("OptionalJSON: %s", got)
	}
	if got := table.JSON(json.RawMessage(`{"a":1}`)); string(got) != `{"a":1}` {
		t.Errorf("raw: %s", got)
	}
}

func TestRowsAreWrittenByColumns(t *testing.T) {
	rows := []*cup{{ID: "a", Size: 2, Notes: map[string]string{"for": "tea"}}, {ID: "b"}}
	values := []any{"a", 2, json.RawMessage(`{"for":"tea"}`)}
	if diff := cmp.Diff(values, cups.Values(rows[0])); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	arrays := []any{
		pgtype.FlatArray[string]{"a", "b"}, pgtype.FlatArray[int]{2, 0},
		pgtype.FlatArray[json.RawMessage]{json.RawMessage(`{"for":"tea"}`), nil},
	}
	if diff := cmp.Diff(arrays, cups.Arrays(rows)); diff != "" {
		t.Errorf("arrays (-want +got):\n%s", diff)
	}
	const want = `INSERT INTO cups (id, size, notes) VALUES ($1::varchar, $2::bigint, $3::jsonb)`
	if got := cups.Insert(); got != want {
		t.Errorf("insert: %s", got)
	}
}
