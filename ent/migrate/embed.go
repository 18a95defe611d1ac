package migrate

import "embed"

// Files are the migrations, applied by internal/store in the order of their names.
//
//go:embed migrations/*.sql
var Files embed.FS

// Citus distributes a migrated database by owner.
//
//go:embed citus.sql
var Citus string
