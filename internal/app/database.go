package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// DatabaseConfig says how the database is used.
type DatabaseConfig struct {
	// ListenURL reaches the server itself where the database's URL goes through a pooler; empty is that URL.
	ListenURL secret.Text
	// OwnerURL is of the owner of the tables, who migrates; empty is who serves.
	OwnerURL secret.Text
	// MaxConns bounds a process's pool; zero takes the default.
	MaxConns int
	// QueryMode is one of store.QueryModes; empty is what the URL says.
	QueryMode string
}

const (
	defaultMaxConns = 16
	// A worker's runners and its maintenance, and a server's batches, each have work for a connection at the same time.
	leastMaxConns = 4
	// More than the cores of any server can use, and than it takes from several processes.
	mostMaxConns = 500
)

// StoreConfig is what the configured store is opened with.
func (c Config) StoreConfig() store.Config {
	return store.Config{
		URL: c.DatabaseURL.Reveal(), ListenURL: c.Database.ListenURL.Reveal(), QueryMode: c.Database.QueryMode,
		MaxConns: cmp.Or(c.Database.MaxConns, defaultMaxConns), Now: c.now, Products: c.StoredProducts(),
		SecondOperator: c.SecondOperator, Dial: c.Outside.Dial, Tracer: telemetry.SQL(otel.GetTracerProvider()),
	}
}

// migrateURL is the owner's, and reaches the server itself: migrations hold a lock of their session, which a pooler
// would share.
func (c Config) migrateURL() string {
	return cmp.Or(c.Database.OwnerURL.Reveal(), c.Database.ListenURL.Reveal(), c.DatabaseURL.Reveal())
}

// migrate brings the database up to date, as its owner, and grants who serves what that takes.
func (c Config) migrate(ctx context.Context, log *slog.Logger) (applied int, err error) {
	owner := c.Database.OwnerURL.Reveal()
	if owner == "" {
		return store.Migrate(ctx, c.migrateURL(), log)
	}
	role, err := store.UserOf(c.DatabaseURL.Reveal())
	if err == nil {
		err = store.CheckRole(ctx, owner, role)
	}
	if err != nil {
		return 0, err
	}
	if applied, err = store.Migrate(ctx, c.migrateURL(), log); err != nil {
		return applied, err
	}
	return applied, store.Grant(ctx, owner, role)
}

// databaseMistakes are those of settings that can be read.
func (c Config) databaseMistakes() (wrong []error) {
	for _, of := range c.databaseURLs() {
		// The parser's own words may quote the password.
		if store.CheckURL(of.url.Reveal()) != nil {
			wrong = append(wrong, errors.New(of.key+": is not a URL like postgres://user@host:5432/database"))
			continue
		}
		mode := store.QueryModeOf(of.url.Reveal())
		if mode != "" && !slices.Contains(store.QueryModes(), mode) {
			wrong = append(wrong, fmt.Errorf("%s: default_query_exec_mode=%s does not work, %s do", of.key, mode,
				strings.Join(store.QueryModes(), " and ")))
		}
	}
	if serves, err := store.UserOf(c.DatabaseURL.Reveal()); err == nil && !c.Database.OwnerURL.IsZero() {
		if owner, err := store.UserOf(c.Database.OwnerURL.Reveal()); err == nil && owner == serves {
			wrong = append(wrong, fmt.Errorf("database.owner_url: has the user of database.url, %q, who then owns the tables; "+
				"name another there, or leave this out", owner))
		}
	}
	named := store.QueryModeOf(c.DatabaseURL.Reveal())
	if c.Database.QueryMode != "" && named != "" && named != c.Database.QueryMode {
		wrong = append(wrong, fmt.Errorf("database.query_mode: is %s, but database.url says %s; leave one of them out",
			c.Database.QueryMode, named))
	}
	return wrong
}
