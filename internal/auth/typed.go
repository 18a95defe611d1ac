package auth

import (
	"encoding/binary"
	"strings"

	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// TypedData is an EIP-712 document in the JSON form that eth_signTypedData_v4 takes. It holds only
// plain JSON kinds: objects, lists, strings and whole numbers as int64.
type TypedData map[string]any

const (
	typedDomainName    = "roamcard"
	typedDomainVersion = "1"
	primarySignIn      = "SignIn"
	primaryReveal      = "RevealCard"
	domainType         = "EIP712Domain"
)

// member is one member of an EIP-712 struct. The JSON and the digest are made from the same list, so a wallet shows
// what is verified.
type member struct {
	name string
	// value is a string, an x402.Address or a uint64 (as uint256).
	value any
}

type typedStruct struct {
	name    string
	members []member
}

// typedMessage is a message as EIP-712: its domain and the struct that is signed.
type typedMessage struct {
	domain  typedStruct
	primary typedStruct
}

func typedSignIn(m handshake.Message) typedMessage {
	return typedMessage{typedDomain(m.ChainID), typedStruct{primarySignIn, commonMembers(m)}}
}

func typedReveal(m handshake.Message, b revealBinding) typedMessage {
	members := append(commonMembers(m),
		member{"cardId", b.cardID}, member{"sessionId", b.sessionID}, member{"recipientKey", b.recipientKey})
	return typedMessage{typedDomain(m.ChainID), typedStruct{primaryReveal, members}}
}

func typedDomain(chainID uint64) typedStruct {
	return typedStruct{domainType, []member{
		{"name", typedDomainName}, {"version", typedDomainVersion}, {"chainId", chainID},
	}}
}

// commonMembers are the fields of the EIP-4361 text, under the standard's names.
func commonMembers(m handshake.Message) []member {
	return []member{
		{"domain", m.Domain}, {"address", m.Address}, {"statement", m.Statement}, {"uri", m.URI},
		{"version", handshake.MessageVersion}, {"chainId", m.ChainID}, {"nonce", m.Nonce}, {"issuedAt", m.IssuedAt},
		{"expirationTime", m.ExpirationTime}, {"requestId", m.RequestID},
	}
}

// data is the document for the wallet.
func (t typedMessage) data() TypedData {
	return TypedData{
		"types": map[string]any{
			t.domain.name:  t.domain.typeList(),
			t.primary.name: t.primary.typeList(),
		},
		"primaryType": t.primary.name,
		"domain":      t.domain.object(),
		"message":     t.primary.object(),
	}
}

// digest is what the wallet signs: keccak(0x1901, domain, struct).
func (t typedMessage) digest() [32]byte {
	domain, primary := t.domain.hash(), t.primary.hash()
	return x402.Keccak256([]byte("\x19\x01"), domain[:], primary[:])
}

func (s typedStruct) typeList() []any {
	list := make([]any, 0, len(s.members))
	for _, m := range s.members {
		list = append(list, map[string]any{"name": m.name, "type": m.kind()})
	}
	return list
}

func (s typedStruct) object() map[string]any {
	object := make(map[string]any, len(s.members))
	for _, m := range s.members {
		switch v := m.value.(type) {
		case x402.Address:
			object[m.name] = v.String()
		case uint64:
			object[m.name] = int64(v) // chain ids are far below 2^53; New checks it
		default:
			object[m.name] = v
		}
	}
	return object
}

func (s typedStruct) hash() [32]byte {
	declared := make([]string, 0, len(s.members))
	for _, m := range s.members {
		declared = append(declared, m.kind()+" "+m.name)
	}
	kind := x402.Keccak256([]byte(s.name + "(" + strings.Join(declared, ",") + ")"))
	words := kind[:]
	for _, m := range s.members {
		word := m.word()
		words = append(words, word[:]...)
	}
	return x402.Keccak256(words)
}

func (m member) kind() string {
	switch m.value.(type) {
	case x402.Address:
		return "address"
	case uint64:
		return "uint256"
	default:
		return "string"
	}
}

// word is the member's encodeData: numbers and addresses padded on the left, strings hashed.
func (m member) word() (word [32]byte) {
	switch v := m.value.(type) {
	case x402.Address:
		copy(word[12:], v[:])
	case uint64:
		binary.BigEndian.PutUint64(word[24:], v)
	case string:
		word = x402.Keccak256([]byte(v))
	}
	return word
}
