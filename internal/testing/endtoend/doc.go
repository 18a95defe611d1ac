// Package endtoend tests the whole program over its API, on a real database, a chain and the sandbox: purchases,
// refunds, races, attacks, outages and what operators do about them. Each test has a service of its own.
package endtoend
