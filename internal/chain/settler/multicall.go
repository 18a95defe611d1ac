package settler

import (
	"bytes"
	"encoding/binary"

	"github.com/roamcard/roamcard/internal/x402"
)

// The form of aggregate3((address target, bool allowFailure, bytes callData)[]), each a transfer.
const (
	// transferSize is the size of a transfer's call data.
	transferSize = 4 + 9*word
	// aggregateHead is selector, offset and number of calls.
	aggregateHead = 4 + 2*word
	// callSize is target, allowFailure, offset and length of the call data, and the call data.
	callSize = 4*word + (transferSize+word-1)/word*word
)

// Gas of Multicall3, as for our Settler, but nothing bounds a member.
const (
	multicallBaseGas   = 60_000
	multicallMemberGas = 110_000
)

var selectorAggregate = selector("aggregate3((address,bool,bytes)[])")

func aggregateCall(token x402.Address, members []Member) []byte {
	b := make([]byte, aggregateHead+len(members)*(word+callSize))
	copy(b, selectorAggregate[:])
	putWord(b[4:], word)
	putWord(b[4+word:], uint64(len(members)))
	for i, m := range members {
		offset := len(members)*word + i*callSize
		putWord(b[aggregateHead+i*word:], uint64(offset))
		c := b[aggregateHead+offset:]
		copy(c[12:], token[:])
		putWord(c[word:], 1)
		putWord(c[2*word:], 3*word)
		putWord(c[3*word:], transferSize)
		copy(c[4*word:], x402.TransferCall(m.Authorization, m.Signature))
	}
	return b
}

// parseAggregate reads the members and makes the call again: only the one form of a batch is accepted.
func parseAggregate(token x402.Address, data []byte) ([]Member, error) {
	if len(data) < aggregateHead || (len(data)-aggregateHead)%(word+callSize) != 0 {
		return nil, ErrCall
	}
	var members []Member
	calls := (len(data) - aggregateHead) / (word + callSize)
	for i := range calls {
		authorization, signature, _ := x402.TransferOf(data[aggregateHead+calls*word+i*callSize+4*word:][:transferSize])
		members = append(members, Member{authorization, signature})
	}
	return members, madeOf(members, data, aggregateCall(token, members))
}

// aggregateResults reads (bool success, bytes returnData)[].
func aggregateResults(answer []byte, members int) ([]Outcome, error) {
	list, ok := after(answer, 0)
	if !ok {
		return nil, ErrAnswer
	}
	if n, ok := number(list, 0); !ok || n != uint64(members) {
		return nil, ErrAnswer
	}
	list = list[word:]
	outcomes := make([]Outcome, members)
	for i := range outcomes {
		result, ok := after(list, i)
		if !ok {
			return nil, ErrAnswer
		}
		switch success, ok := number(result, 0); {
		case ok && success == 1:
			outcomes[i] = Transferred
		case ok && success == 0:
			outcomes[i] = Refused
		default:
			return nil, ErrAnswer
		}
	}
	return outcomes, nil
}

// number is the nth word of b; ok is false when there is none, or it is too large.
func number(b []byte, n int) (value uint64, ok bool) {
	if len(b)/word <= n {
		return 0, false
	}
	w := b[n*word:][:word]
	return binary.BigEndian.Uint64(w[word-8:]), bytes.Equal(w[:word-8], make([]byte, word-8))
}

// after is what begins at the offset that is the nth word of b.
func after(b []byte, n int) ([]byte, bool) {
	offset, ok := number(b, n)
	if !ok || offset > uint64(len(b)) {
		return nil, false
	}
	return b[offset:], true
}
