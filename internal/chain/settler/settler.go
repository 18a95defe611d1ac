// Package settler settles several payments in one transaction: it makes and reads the calls of the contract that does
// so, which is our own Settler or, where that is not deployed, Multicall3.
//
// The caller signs and sends one transaction with Call and Gas, to Address. Its status says nothing about a member: an
// eth_call of the same bytes answers the outcomes as they would be, and the token's logs show what has moved.
package settler

import (
	"errors"

	"github.com/roamcard/roamcard/internal/x402"
)

// MaxMembers is the most that a batch is made of: it stays below the 2^24 gas that a transaction may have (EIP-7825),
// even if each member uses all that it may.
const MaxMembers = 100

// ErrCall says that data is no call that Call makes.
var ErrCall = errors.New("not the call of a batch")

// ErrAnswer says that a node's answer is not what the contract returns.
var ErrAnswer = errors.New("not the outcomes of the batch")

// Member is an authorization and its payer's signature.
type Member struct {
	Authorization x402.Authorization
	Signature     x402.Signature
}

// Outcome is what became of a member.
type Outcome byte

// The outcomes, as the contract returns them.
const (
	// NotTried members came when too little gas was left, and nothing is known about them. Multicall3 does not tell them
	// from refused ones.
	NotTried Outcome = iota
	// Transferred members have moved their value.
	Transferred
	// Refused members are those whose transfer reverted: the token refuses it, or the payer's code has used up its gas.
	Refused
)

// String is for logs.
func (o Outcome) String() string {
	switch o {
	case NotTried:
		return "not tried"
	case Transferred:
		return "transferred"
	case Refused:
		return "refused"
	}
	return "unknown"
}

// Contract settles batches of one token's authorizations. The zero value is no contract. It compares by ==.
type Contract struct {
	address, token x402.Address
}

// Own is our Settler. A member that the token refuses costs only itself, and so does a payer whose code uses up its
// gas. When the gas of a transaction ends, the members so far have moved and the others are not tried.
func Own(token x402.Address) Contract { return Contract{Address, token} }

// Multicall3 is the fallback. A member that the token refuses costs only itself, but no member's gas is bounded: a
// payer with code can use up all of it, then nothing moves and the whole limit is paid for. So it is for payers without
// code; and since a payer may get code between a look at the account and the block (EIP-7702), a batch that reverts
// has to be settled in smaller ones, in the end one by one.
func Multicall3(token x402.Address) Contract { return Contract{MulticallAddress, token} }

// At is the contract at an address, such as the target of a stored transaction; ok is false when it is neither.
func At(address, token x402.Address) (c Contract, ok bool) {
	if address != Address && address != MulticallAddress {
		return Contract{}, false
	}
	return Contract{address, token}, true
}

// Address is where a transaction is sent.
func (c Contract) Address() x402.Address { return c.address }

// IsZero reports no contract.
func (c Contract) IsZero() bool { return c == Contract{} }

// IsOwn reports our Settler, which bounds the gas of each member.
func (c Contract) IsOwn() bool { return c.address == Address }

// Call is the call data that settles the members, in their order.
func (c Contract) Call(members []Member) []byte {
	if c.IsOwn() {
		return packedCall(c.token, members)
	}
	return aggregateCall(c.token, members)
}

// ParseCall reads the members of a call that Call has made for the same token. Anything else is ErrCall.
func (c Contract) ParseCall(data []byte) ([]Member, error) {
	if c.IsOwn() {
		return parsePacked(c.token, data)
	}
	return parseAggregate(c.token, data)
}

// Gas is the gas limit for a batch. With it, our Settler tries every member, whatever the others use; what is not used
// is not paid for.
func (c Contract) Gas(members int) uint64 {
	if c.IsOwn() {
		return ownBaseGas + ownMemberGas*uint64(members)
	}
	return multicallBaseGas + multicallMemberGas*uint64(members)
}

// Results reads what an eth_call of a batch has answered: an outcome for each member. Anything else is ErrAnswer.
func (c Contract) Results(answer []byte, members int) ([]Outcome, error) {
	if c.IsOwn() {
		return packedResults(answer, members)
	}
	return aggregateResults(answer, members)
}
