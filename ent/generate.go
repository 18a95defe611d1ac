// Package ent is the generated client of the database; only internal/store imports it.
//
// To change a table: edit or add a file in ent/schema, run "go generate ./ent", then
// "ent/migrate/new.sh NAME" for the migration. The script writes ent/migrate/migrations/*_NAME.sql and
// atlas.sum; with nothing to change it writes nothing. Read the SQL before committing it. What ent cannot
// express (triggers, functions) is a migration written by hand: make the file, then run
// "ent/migrate/new.sh --hash".
package ent

//go:generate go run entc.go
