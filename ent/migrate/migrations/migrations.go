// Package migrations has the files that make and change the database, which internal/store applies.
package migrations

import "embed"

// Files are the migrations, applied in the order of their names.
//
//go:embed *.sql
var Files embed.FS
