// Package store keeps the service's state in PostgreSQL; it is the only importer of the generated client.
//
// A table has one type, ent's, and functions that convert it from and to the domain's. What runs for every purchase,
// takes many rows at once or is beyond ent's builder is SQL. It takes rows by insert or table.Statement and reads them
// by ent's scans, so that the schema alone lists columns.
//
// Every transaction goes through Store.tx, whose closure may run more than once and does only database work.
// wakeOnCommit sends a wake-up after the commit. A transaction inserts the jobs that it makes due, and a transaction of
// a job begins with fence.
package store
