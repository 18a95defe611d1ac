// Package table is what the store's SQL needs to know about the tables of the schema: their columns, the values of a
// row, and rows by columns for statements that take many at once. The tables themselves are generated from ent/schema,
// as ent.OrderTable is, so that a column is written by hand once.
//
//	insert(tx, ent.OrderTable, row)              one row
//	ent.OrderColumns, ent.ScanOrder              a row that is read
//	table.Statement(text, table.Rows("m", …))    many rows in one statement
package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Scanner is a row of an answer.
type Scanner interface{ Scan(into ...any) error }

// Column is a column by name, with its type in PostgreSQL.
type Column struct{ Name, Type string }

// Field is a column of rows T.
type Field[T any] struct {
	Column
	value func(*T) any
	array func([]*T) any
}

// Col is a column whose values are V.
func Col[T, V any](name, typ string, value func(*T) V) Field[T] {
	return Field[T]{
		Column: Column{name, typ},
		value:  func(r *T) any { return value(r) },
		array: func(rows []*T) any {
			all := make(pgtype.FlatArray[V], len(rows))
			for i, r := range rows {
				all[i] = value(r)
			}
			return all
		},
	}
}

// Of is a table whose rows are T, or some columns of one.
type Of[T any] struct {
	name   string
	fields []Field[T]
	insert string
}

// New is a table of these columns.
func New[T any](name string, fields ...Field[T]) Of[T] {
	names, values := make([]string, len(fields)), make([]string, len(fields))
	for i, f := range fields {
		names[i], values[i] = f.Name, "$"+strconv.Itoa(i+1)+"::"+f.Type
	}
	return Of[T]{name, fields, fmt.Sprintf(
		"INSERT INTO %s (%s) VALUES (%s)", name, strings.Join(names, ", "), strings.Join(values, ", "))}
}

// Insert inserts one row, whose values are the arguments.
func (t Of[T]) Insert() string { return t.insert }

// Values are the values of a row.
func (t Of[T]) Values(r *T) []any {
	all := make([]any, len(t.fields))
	for i, f := range t.fields {
		all[i] = f.value(r)
	}
	return all
}

// Arrays are rows by columns: an array for each column, as unnest takes it.
func (t Of[T]) Arrays(rows []*T) []any {
	all := make([]any, len(t.fields))
	for i, f := range t.fields {
		all[i] = f.array(rows)
	}
	return all
}

// But is the table without some columns, which the database decides or a statement gives.
func (t Of[T]) But(without ...string) Of[T] { return t.with(false, without) }

// Only is the table with some columns alone.
func (t Of[T]) Only(columns ...string) Of[T] { return t.with(true, columns) }

func (t Of[T]) with(named bool, columns []string) Of[T] {
	left := slices.Clone(columns)
	var kept []Field[T]
	for _, f := range t.fields {
		if slices.Contains(columns, f.Name) == named {
			kept = append(kept, f)
		}
		left = slices.DeleteFunc(left, func(name string) bool { return name == f.Name })
	}
	if len(left) > 0 {
		panic(fmt.Sprintf("table: %s has no %v", t.name, left))
	}
	return New(t.name, kept...)
}

func (t Of[T]) named() (string, []Column) {
	all := make([]Column, len(t.fields))
	for i, f := range t.fields {
		all[i] = f.Column
	}
	return t.name, all
}

// OptionalJSON is a value of a column of JSON that may be missing, as nil is.
func OptionalJSON(v any) json.RawMessage {
	if text := JSON(v); string(text) != "null" {
		return text
	}
	return nil
}

// JSON is a value of a column of JSON.
func JSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	text, err := json.Marshal(v)
	if err != nil { // a schema's own types have nothing that JSON cannot say
		panic(fmt.Sprintf("table: %T as JSON: %v", v, err))
	}
	return text
}
