//go:build entc

// Command main writes the migration from the last one to ent/schema; new.sh runs it against a throwaway
// database, whose URL is in ROAMCARD_DEV_DATABASE_URL.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"

	atlas "ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/sqltool"
	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql/schema"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/roamcard/roamcard/ent/migrate"
)

func main() {
	dir := flag.String("dir", "ent/migrate/migrations", "folder of the migrations")
	hash := flag.Bool("hash", false, "only write atlas.sum again, after a migration written by hand")
	flag.Parse()
	if err := run(*dir, *hash, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(path string, hash bool, name string) error {
	dir, err := sqltool.NewGooseDir(path)
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	if hash {
		sum, err := dir.Checksum()
		if err != nil {
			return fmt.Errorf("hash migrations: %w", err)
		}
		return atlas.WriteSumFile(dir, sum)
	}
	url := os.Getenv("ROAMCARD_DEV_DATABASE_URL")
	if name == "" || url == "" {
		return fmt.Errorf("need the migration's name as argument and ROAMCARD_DEV_DATABASE_URL")
	}
	// The name under which ent and atlas look for a PostgreSQL driver.
	sql.Register("postgres", stdlib.GetDefaultDriver())
	err = migrate.NamedDiff(context.Background(), url, name,
		schema.WithDir(dir),
		schema.WithMigrationMode(schema.ModeReplay),
		schema.WithDialect(dialect.Postgres),
		schema.WithFormatter(sqltool.GooseFormatter),
		schema.WithDropColumn(true),
		schema.WithDropIndex(true),
	)
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	return nil
}
