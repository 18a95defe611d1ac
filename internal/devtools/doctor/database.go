package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/store"
)

// openStore opens the database for what one check reads.
func openStore(ctx context.Context, cfg app.Config) (*store.Store, error) {
	return store.Open(ctx, store.Config{
		URL: cfg.DatabaseURL.Reveal(), MaxConns: 1, Now: time.Now, Products: cfg.StoredProducts(),
	})
}

// examineDatabase checks the server, the way to it, and the schema.
func examineDatabase(ctx context.Context, cfg app.Config) []finding {
	const oldest = "check database.url and that PostgreSQL 15 or newer runs there"
	wanted := cfg.StoreConfig()
	c := wanted
	c.MaxConns = 2
	s, err := store.Open(ctx, c)
	if err != nil {
		return append([]finding{verdictOf("database", "", err, oldest)}, skipped("no database",
			"connections", "query mode", "wake-ups", "migrations", "database role")...)
	}
	defer s.Close()
	server, err := s.Examine(ctx)
	if err == nil {
		err = server.Usable()
	}
	if err != nil {
		return append([]finding{verdictOf("database", "", err, oldest)}, skipped("no server that can be used",
			"connections", "query mode", "wake-ups", "migrations", "database role")...)
	}
	found := []finding{
		verdictOf("database", serverText(server), nil, ""), examineConnections(server, wanted.MaxConns),
		examineQueryMode(ctx, s),
	}
	if found[2].Status == statusFail {
		return append(found, skipped("the query mode does not work", "wake-ups", "migrations", "database role")...)
	}
	return append(found, examineWakeUps(ctx, s, server, wanted.ListenURL != ""),
		verdictOf("migrations", "up to date", s.CheckSchema(ctx), "run roamcard migrate"),
		examineRole(ctx, s, cfg.Environment == app.Production))
}

// examineRole checks that who serves cannot take away what protects the records: an owner can.
func examineRole(ctx context.Context, s *store.Store, production bool) finding {
	const name = "database role"
	owned, err := s.Owned(ctx)
	if err == nil && len(owned) > 0 {
		if !production {
			return finding{Name: name, Status: statusSkip, Detail: "the user of database.url owns the tables, as for a trial"}
		}
		err = fmt.Errorf("the user of database.url owns %d tables, and so could change what is only added", len(owned))
	}
	return verdictOf(name, "the user of database.url owns nothing", err,
		"set database.owner_url to the owner's, database.url to another user's, and run roamcard migrate")
}

func skipped(why string, names ...string) (all []finding) {
	for _, name := range names {
		all = append(all, finding{Name: name, Status: statusSkip, Detail: why})
	}
	return all
}

func serverText(server store.Server) string {
	said := "PostgreSQL " + server.VersionText
	if server.Pooled {
		said += " behind a pooler"
	}
	if server.Synchronous {
		return said + ", commits wait for a standby"
	}
	return said + ", commits wait for no standby: the loss of the server may lose the newest orders"
}

// examineConnections compares what a process may take with what the server has.
func examineConnections(server store.Server, mine int) finding {
	const fix = "lower database.max_conns, raise the server's max_connections, or put a pooler in front"
	if server.Pooled {
		return verdictOf("connections", fmt.Sprintf("%d to the pooler and 1 to the server for each process; "+
			"the server has %d, which the pooler has to respect", mine, server.MaxConnections), nil, "")
	}
	each := mine + 1 // which listens
	var err error
	if each > server.MaxConnections {
		err = fmt.Errorf("a process may take %d connections, and the server has %d", each, server.MaxConnections)
	}
	return verdictOf("connections", fmt.Sprintf("%d for each process; the server has %d, enough for %d processes",
		each, server.MaxConnections, server.MaxConnections/each), err, fix)
}

// examineQueryMode checks that prepared statements are where they are looked for.
func examineQueryMode(ctx context.Context, s *store.Store) finding {
	return verdictOf("query mode", s.QueryMode()+" works", s.CheckQueryMode(ctx),
		"set database.query_mode to cache_describe: the pooler shares sessions and does not follow prepared statements")
}

// examineWakeUps checks that what one process says another one hears.
func examineWakeUps(ctx context.Context, s *store.Store, server store.Server, direct bool) finding {
	fix := "see whether database.listen_url is the same database as database.url"
	err := s.CheckWakeUps(ctx)
	if err != nil && server.Pooled && !direct {
		err = fmt.Errorf("there is a pooler, and database.listen_url is not set: %w", err)
		fix = "set database.listen_url to the URL of the server itself: without it buyers wait for the next look"
	}
	return verdictOf("wake-ups", "a notification sent over the pool is heard", err, fix)
}
