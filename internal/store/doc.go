// Package store keeps the service's state in PostgreSQL; it is the only importer of the generated client.
//
// Every transaction goes through Store.tx, whose closure may run more than once and does only database work.
// wakeOnCommit sends a wake-up after the commit. A transaction inserts the jobs that it makes due, and a transaction of
// a job begins with fence.
package store
