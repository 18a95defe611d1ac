package node

import (
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// account is what an address has. Its storage lies next to it.
type account struct {
	balance uint256.Int
	nonce   uint64
	code    *program // nil without code
}

type program struct {
	code []byte
	hash common.Hash
}

func programOf(code []byte) *program {
	if len(code) == 0 {
		return nil
	}
	return &program{code, crypto.Keccak256Hash(code)}
}

func (a account) empty() bool { return a.balance.IsZero() && a.nonce == 0 && a.code == nil }

// slot is a word of an account's storage.
type slot struct {
	address common.Address
	key     common.Hash
}

type kind byte

// What a change changed. Accounts and words outlast their transaction; the rest is its own.
const (
	ofAccount kind = iota
	ofWord
	ofTransient
	ofWarmAccount
	ofWarmWord
	ofCreated
	ofDestroyed
	ofRefund
	ofLogs
)

// change is one entry of the journal: what was there before.
type change struct {
	kind kind
	slot
	value   common.Hash
	account account
	exists  bool
	refund  uint64
}

// state is what all accounts have: one flat table that is changed in place. The journal takes changes back. It is
// vm.StateDB.
type state struct {
	accounts map[common.Address]account
	words    map[slot]common.Hash
	journal  []change

	// What follows is of the transaction under way.
	original     map[slot]common.Hash
	transient    map[slot]common.Hash
	warmAccounts map[common.Address]bool
	warmWords    map[slot]bool
	created      map[common.Address]bool
	destroyed    map[common.Address]bool
	refund       uint64
	logs         []*types.Log
}

// genesis is the state of the first block, from which each chain begins with a copy.
var genesis = sync.OnceValue(func() *state {
	s := &state{accounts: map[common.Address]account{}, words: map[slot]common.Hash{}}
	for _, a := range devnet.Genesis() {
		held := account{code: programOf(a.Code)}
		if a.Wei != nil {
			held.balance.SetFromBig(a.Wei)
		}
		if !held.empty() {
			s.accounts[a.Address] = held
		}
		for _, w := range a.Storage {
			s.put(slot{a.Address, w.Slot}, w.Value)
		}
	}
	return s
})

func newState() *state {
	first := genesis()
	s := &state{accounts: maps.Clone(first.accounts), words: maps.Clone(first.words)}
	s.original, s.transient = map[slot]common.Hash{}, map[slot]common.Hash{}
	s.warmAccounts, s.warmWords = map[common.Address]bool{}, map[slot]bool{}
	s.created, s.destroyed = map[common.Address]bool{}, map[common.Address]bool{}
	return s
}

func (s *state) put(at slot, value common.Hash) {
	if value == (common.Hash{}) {
		delete(s.words, at)
		return
	}
	s.words[at] = value
}

// swap exchanges what an account or a word is with what a change has: it takes the change back, and a second time makes
// it again.
func (s *state) swap(c *change) {
	switch c.kind {
	case ofAccount:
		now, exists := s.accounts[c.address]
		if c.exists {
			s.accounts[c.address] = c.account
		} else {
			delete(s.accounts, c.address)
		}
		c.account, c.exists = now, exists
	case ofWord:
		now := s.words[c.slot]
		s.put(c.slot, c.value)
		c.value = now
	}
}

// undo takes changes back, and redo makes them again.
func (s *state) undo(changes []change) {
	for i := range slices.Backward(changes) {
		s.swap(&changes[i])
	}
}

func (s *state) redo(changes []change) {
	for i := range changes {
		s.swap(&changes[i])
	}
}

// take ends a block: it empties the journal, and returns what was changed for good.
func (s *state) take() []change {
	kept := slices.Collect(func(yield func(change) bool) {
		for _, c := range s.journal {
			if c.kind <= ofWord && !yield(c) {
				return
			}
		}
	})
	s.journal = s.journal[:0]
	return kept
}

// begin forgets the transaction before.
func (s *state) begin() {
	clear(s.original)
	clear(s.transient)
	clear(s.warmAccounts)
	clear(s.warmWords)
	clear(s.created)
	clear(s.destroyed)
	s.refund, s.logs = 0, nil
}

// finish ends a transaction whose changes begin at from: accounts that it emptied or destroyed are removed.
func (s *state) finish(from int) {
	for _, c := range s.journal[from:] { // what is appended meanwhile needs no second look
		switch now, exists := s.accounts[c.address]; {
		case c.kind == ofAccount && exists && (now.empty() || s.destroyed[c.address]):
			s.journal = append(s.journal, change{kind: ofAccount, slot: c.slot, account: now, exists: true})
			delete(s.accounts, c.address)
		case c.kind == ofWord && s.destroyed[c.address]:
			s.setWord(c.slot, common.Hash{})
		}
	}
}

// change notes what an account was, and changes it.
func (s *state) change(address common.Address, edit func(*account)) {
	before, exists := s.accounts[address]
	s.journal = append(s.journal, change{
		kind: ofAccount, slot: slot{address: address}, account: before, exists: exists,
	})
	edit(&before)
	s.accounts[address] = before
}

func (s *state) setWord(at slot, value common.Hash) (before common.Hash) {
	before = s.words[at]
	if before == value {
		return before
	}
	if _, known := s.original[at]; !known {
		s.original[at] = before
	}
	s.journal = append(s.journal, change{kind: ofWord, slot: at, value: before})
	s.put(at, value)
	return before
}

// mark adds to one of the transaction's sets.
func mark[K comparable](s *state, set map[K]bool, of K, c change) {
	if !set[of] {
		set[of] = true
		s.journal = append(s.journal, c)
	}
}
