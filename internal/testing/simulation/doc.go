// Package simulation runs whole deployments in virtual time, from one seed, and looks for what breaks a promise.
//
//	seed ─► weather, traffic ─► buyers ── HTTP ──► processes: the program as it is sold, wired by app.New
//	                                                 │ database, nodes, issuer, supplier
//	                                                 ▼
//	                                                bus: one call at a time, in the seed's order, and with its fate
//	                                                 ▼
//	                             PostgreSQL          chain          sandbox        outlive every crash
//	                                                 ▼
//	                     at rest: invariants over all books, and the history that buyers saw
//
// A process can only be seen by what it asks for outside of itself. So the bus is the one place where order is made:
// it waits until nothing in the world can go on by itself, and then lets one call happen. A call may be refused, may
// happen without an answer, and may be the last thing that its process does, before or after its effect. kill -9 at any
// instruction looks the same from outside as one of these.
//
// What is not covered: two transactions that overlap within the database. One is over before the next begins here; the
// tests of the store and the races of whole programs look there.
package simulation
