package node

import (
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	ethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/stateless"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/types/bal"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
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

var _ vm.StateDB = (*state)(nil)

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

// Snapshot implements vm.StateDB.
func (s *state) Snapshot() int { return len(s.journal) }

// RevertToSnapshot implements vm.StateDB.
func (s *state) RevertToSnapshot(to int) {
	for i := len(s.journal) - 1; i >= to; i-- {
		c := &s.journal[i]
		switch c.kind {
		case ofTransient:
			s.transient[c.slot] = c.value
		case ofWarmAccount:
			delete(s.warmAccounts, c.address)
		case ofWarmWord:
			delete(s.warmWords, c.slot)
		case ofCreated:
			delete(s.created, c.address)
		case ofDestroyed:
			delete(s.destroyed, c.address)
		case ofRefund:
			s.refund = c.refund
		case ofLogs:
			s.logs = s.logs[:len(s.logs)-1]
		default:
			s.swap(c)
		}
	}
	s.journal = s.journal[:to]
}

// CreateAccount implements vm.StateDB.
func (s *state) CreateAccount(a common.Address) { s.change(a, func(*account) {}) }

// CreateContract implements vm.StateDB.
func (s *state) CreateContract(a common.Address) {
	mark(s, s.created, a, change{kind: ofCreated, slot: slot{address: a}})
}

// IsNewContract implements vm.StateDB.
func (s *state) IsNewContract(a common.Address) bool { return s.created[a] }

// SubBalance implements vm.StateDB.
func (s *state) SubBalance(a common.Address, n *uint256.Int, _ tracing.BalanceChangeReason) (before uint256.Int) {
	s.change(a, func(held *account) {
		before = held.balance
		held.balance.Sub(&before, n)
	})
	return before
}

// AddBalance implements vm.StateDB.
func (s *state) AddBalance(a common.Address, n *uint256.Int, _ tracing.BalanceChangeReason) (before uint256.Int) {
	s.change(a, func(held *account) {
		before = held.balance
		held.balance.Add(&before, n)
	})
	return before
}

// GetBalance implements vm.StateDB.
func (s *state) GetBalance(a common.Address) *uint256.Int {
	held := s.accounts[a].balance
	return &held
}

// GetNonce implements vm.StateDB.
func (s *state) GetNonce(a common.Address) uint64 { return s.accounts[a].nonce }

// SetNonce implements vm.StateDB.
func (s *state) SetNonce(a common.Address, nonce uint64, _ tracing.NonceChangeReason) {
	s.change(a, func(held *account) { held.nonce = nonce })
}

// GetCodeHash implements vm.StateDB.
func (s *state) GetCodeHash(a common.Address) common.Hash {
	switch held, exists := s.accounts[a]; {
	case !exists:
		return common.Hash{}
	case held.code == nil:
		return types.EmptyCodeHash
	default:
		return held.code.hash
	}
}

// GetCode implements vm.StateDB.
func (s *state) GetCode(a common.Address) []byte {
	if held := s.accounts[a].code; held != nil {
		return held.code
	}
	return nil
}

// GetCodeSize implements vm.StateDB.
func (s *state) GetCodeSize(a common.Address) int { return len(s.GetCode(a)) }

// SetCode implements vm.StateDB.
func (s *state) SetCode(a common.Address, code []byte, _ tracing.CodeChangeReason) []byte {
	before := s.GetCode(a)
	s.change(a, func(held *account) { held.code = programOf(code) })
	return before
}

// GetRefund implements vm.StateDB.
func (s *state) GetRefund() uint64 { return s.refund }

// AddRefund implements vm.StateDB.
func (s *state) AddRefund(gas uint64) {
	s.journal = append(s.journal, change{kind: ofRefund, refund: s.refund})
	s.refund += gas
}

// SubRefund implements vm.StateDB.
func (s *state) SubRefund(gas uint64) {
	s.journal = append(s.journal, change{kind: ofRefund, refund: s.refund})
	s.refund -= gas
}

// GetState implements vm.StateDB.
func (s *state) GetState(a common.Address, key common.Hash) common.Hash { return s.words[slot{a, key}] }

// GetStateAndCommittedState implements vm.StateDB.
func (s *state) GetStateAndCommittedState(a common.Address, key common.Hash) (now, committed common.Hash) {
	at := slot{a, key}
	now = s.words[at]
	if before, changed := s.original[at]; changed {
		return now, before
	}
	return now, now
}

// SetState implements vm.StateDB.
func (s *state) SetState(a common.Address, key, value common.Hash) common.Hash {
	return s.setWord(slot{a, key}, value)
}

// GetTransientState implements vm.StateDB.
func (s *state) GetTransientState(a common.Address, key common.Hash) common.Hash {
	return s.transient[slot{a, key}]
}

// SetTransientState implements vm.StateDB.
func (s *state) SetTransientState(a common.Address, key, value common.Hash) {
	at := slot{a, key}
	s.journal = append(s.journal, change{kind: ofTransient, slot: at, value: s.transient[at]})
	s.transient[at] = value
}

// SelfDestruct implements vm.StateDB.
func (s *state) SelfDestruct(a common.Address) {
	mark(s, s.destroyed, a, change{kind: ofDestroyed, slot: slot{address: a}})
}

// HasSelfDestructed implements vm.StateDB.
func (s *state) HasSelfDestructed(a common.Address) bool { return s.destroyed[a] }

// Exist implements vm.StateDB.
func (s *state) Exist(a common.Address) bool {
	_, exists := s.accounts[a]
	return exists
}

// Empty implements vm.StateDB.
func (s *state) Empty(a common.Address) bool { return s.accounts[a].empty() }

// Touch implements vm.StateDB.
func (s *state) Touch(common.Address) {}

// AddressInAccessList implements vm.StateDB.
func (s *state) AddressInAccessList(a common.Address) bool { return s.warmAccounts[a] }

// SlotInAccessList implements vm.StateDB.
func (s *state) SlotInAccessList(a common.Address, key common.Hash) (address, word bool) {
	return s.warmAccounts[a], s.warmWords[slot{a, key}]
}

// AddAddressToAccessList implements vm.StateDB.
func (s *state) AddAddressToAccessList(a common.Address) {
	mark(s, s.warmAccounts, a, change{kind: ofWarmAccount, slot: slot{address: a}})
}

// AddSlotToAccessList implements vm.StateDB.
func (s *state) AddSlotToAccessList(a common.Address, key common.Hash) {
	s.AddAddressToAccessList(a)
	mark(s, s.warmWords, slot{a, key}, change{kind: ofWarmWord, slot: slot{a, key}})
}

// Prepare implements vm.StateDB.
func (s *state) Prepare(
	_ params.Rules, sender, coinbase common.Address, to *common.Address, precompiles []common.Address,
	list types.AccessList,
) {
	s.warmAccounts[sender], s.warmAccounts[coinbase] = true, true
	if to != nil {
		s.warmAccounts[*to] = true
	}
	for _, p := range precompiles {
		s.warmAccounts[p] = true
	}
	for _, entry := range list {
		s.warmAccounts[entry.Address] = true
		for _, key := range entry.StorageKeys {
			s.warmWords[slot{entry.Address, key}] = true
		}
	}
}

// AddLog implements vm.StateDB.
func (s *state) AddLog(l *types.Log) {
	s.journal = append(s.journal, change{kind: ofLogs})
	s.logs = append(s.logs, l)
}

// AddPreimage implements vm.StateDB.
func (s *state) AddPreimage(common.Hash, []byte) {}

// Witness implements vm.StateDB.
func (s *state) Witness() *stateless.Witness { return nil }

// AccessEvents implements vm.StateDB.
func (s *state) AccessEvents() *ethstate.AccessEvents { return nil }

// Finalise implements vm.StateDB. See finish.
func (s *state) Finalise(params.Rules) *bal.ConstructionBlockAccessList { return nil }

// SetTxContext implements vm.StateDB.
func (s *state) SetTxContext(common.Hash, int, uint32) {}
