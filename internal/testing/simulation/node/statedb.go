package node

import (
	"github.com/ethereum/go-ethereum/common"
	ethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/stateless"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/types/bal"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

var _ vm.StateDB = (*state)(nil)

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
