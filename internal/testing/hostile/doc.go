// Package hostile attacks the real program at its default limits, from outside: as a stranger, a payer, an owner, a
// node, a facilitator, a provider, an operator or a signer would. Each attack is a named test that measures what it
// costs whoever attacks and what it costs us; attacks that go on for a while are measured by how long honest buyers
// wait meanwhile.
//
// Outcomes are read at their source: money in the chain's logs, goods in the sandbox's books. The answers of the
// program under test prove nothing here.
package hostile
