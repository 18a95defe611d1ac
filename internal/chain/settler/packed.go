package settler

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// The form of Settler.sol.
const (
	word       = 32
	runSize    = 21
	memberSize = 141
	// signatureSize is what a key signs with. A smart account's payment is never a member.
	signatureSize = 65
	// packedHead is selector, token, offset and length.
	packedHead = 4 + 3*word
)

// Gas of our Settler: what a call costs without its members, and what a member may at most. The latter is the
// contract's bound of 100,000, call data without a zero byte, a run of its own, and the loop; the former the
// transaction itself, and what the contract wants left before it tries a member.
const (
	ownBaseGas   = 45_000
	ownMemberGas = 104_000
)

var selectorSettle = selector("settle(address,bytes)")

func selector(signature string) [4]byte {
	hash := x402.Keccak256([]byte(signature))
	return [4]byte(hash[:4])
}

// packedCall is settle(token, batch).
func packedCall(token x402.Address, members []Member) []byte {
	b := make([]byte, packedHead, packedHead+padded(len(members)*(memberSize+runSize)))
	copy(b, selectorSettle[:])
	copy(b[4+12:], token[:])
	putWord(b[4+word:], 2*word)
	for len(members) > 0 {
		run := runOf(members)
		payee := members[0].Authorization.To
		b = append(append(b, payee[:]...), byte(run))
		for _, m := range members[:run] {
			b = appendMember(b, m)
		}
		members = members[run:]
	}
	size := len(b) - packedHead
	putWord(b[4+2*word:], uint64(size))
	return append(b, make([]byte, padded(size)-size)...)
}

// runOf is how many members from the first on have its payee.
func runOf(members []Member) int {
	n := 1
	for n < len(members) && n < math.MaxUint8 && members[n].Authorization.To == members[0].Authorization.To {
		n++
	}
	return n
}

func appendMember(b []byte, m Member) []byte {
	a := m.Authorization
	b = append(b, a.From[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(a.Value))
	b = binary.BigEndian.AppendUint64(b, a.ValidAfter)
	b = binary.BigEndian.AppendUint64(b, a.ValidBefore)
	b = append(b, a.Nonce[:]...)
	var signature [signatureSize]byte // r, s, v
	copy(signature[:], m.Signature)
	return append(b, signature[:]...)
}

// parsePacked reads the members and makes the call again: only the one form of a batch is accepted.
func parsePacked(token x402.Address, data []byte) ([]Member, error) {
	if len(data) < packedHead {
		return nil, ErrCall
	}
	size := binary.BigEndian.Uint64(data[packedHead-8:])
	if size > uint64(len(data)-packedHead) {
		return nil, ErrCall
	}
	var members []Member
	for rest := data[packedHead:][:size]; len(rest) > 0; {
		if len(rest) < runSize {
			return nil, ErrCall
		}
		payee, run := x402.Address(rest[:20]), int(rest[20])
		if rest = rest[runSize:]; len(rest) < run*memberSize {
			return nil, ErrCall
		}
		for range run {
			members, rest = append(members, memberOf(payee, rest[:memberSize])), rest[memberSize:]
		}
	}
	return members, madeOf(members, data, packedCall(token, members))
}

func memberOf(payee x402.Address, b []byte) Member {
	return Member{
		x402.Authorization{
			From: x402.Address(b[:20]), To: payee, Value: money.USDC(binary.BigEndian.Uint64(b[20:])),
			ValidAfter: binary.BigEndian.Uint64(b[28:]), ValidBefore: binary.BigEndian.Uint64(b[36:]),
			Nonce: x402.Hash(b[44:76]),
		},
		x402.Signature(b[76:memberSize]),
	}
}

// madeOf is ErrCall unless the data is what is made of the members, and their values are amounts.
func madeOf(members []Member, data, made []byte) error {
	if !bytes.Equal(data, made) {
		return ErrCall
	}
	for _, m := range members {
		if m.Authorization.Value < 0 {
			return ErrCall
		}
	}
	return nil
}

// packedResults reads bytes.
func packedResults(answer []byte, members int) ([]Outcome, error) {
	if len(answer) != 2*word+padded(members) {
		return nil, ErrAnswer
	}
	want := make([]byte, 2*word)
	putWord(want, word)
	putWord(want[word:], uint64(members))
	if !bytes.Equal(answer[:2*word], want) {
		return nil, ErrAnswer
	}
	outcomes := make([]Outcome, members)
	for i := range outcomes {
		outcomes[i] = Outcome(answer[2*word+i])
		if outcomes[i] > Refused {
			return nil, ErrAnswer
		}
	}
	return outcomes, nil
}

// padded is the size of whole words.
func padded(size int) int { return (size + word - 1) / word * word }

// putWord writes a number into the first word of b, which is zero.
func putWord(b []byte, n uint64) { binary.BigEndian.PutUint64(b[word-8:], n) }
