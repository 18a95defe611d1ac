// Package store keeps the service's state in PostgreSQL; it is the only importer of the generated client.
//
// Every transaction goes through Store.tx, whose closure may run more than once and does nothing but
// database work. What happens after a commit, a wake-up, is announced with wakeOnCommit. A job that a
// transaction makes due is inserted in it, and a transaction done for a job begins with fence.
package store
