package app

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// FairnessConfig keeps one payer from exhausting shared resources. Zero fields take the default, except
// UnsettledPercent.
type FairnessConfig struct {
	// SettleSlots and MaintainSlots are slots in addition to Config.Slots, which are those of deliveries.
	SettleSlots, MaintainSlots int
	// MaxValidity is how far ahead an authorization may expire.
	MaxValidity time.Duration
	// Delegates are contracts that payers may have delegated to by EIP-7702.
	Delegates []x402.Address
	// SmartAccounts are the kinds of accounts with code that may pay and sign in.
	SmartAccounts smartaccount.Kinds
	// UnsettledPercent is the share of a float that an owner's unpaid orders may reserve; zero is unlimited.
	UnsettledPercent int
	// Reverts, PayerGas and HourGas bound the cost of reverted transactions; gas is in gwei.
	Reverts, PayerGas, HourGas int
	// SmartAccountGas bounds what the keys for smart accounts spend within a day, in gwei.
	SmartAccountGas int
	// MaxBatch is the most payments that share a transaction.
	MaxBatch int
	// TransactionRetention is how long ended transactions are kept.
	TransactionRetention time.Duration
}

const (
	// maxValidity is the validity of clients that always sign for an hour, and ten minutes for their clocks.
	maxValidity = 70 * time.Minute
	// keepTransactions is longer than support requests about a payment take.
	keepTransactions = 30 * 24 * time.Hour
	// collectTimeout bounds one Collect: longer than a settler takes.
	collectTimeout = settlerTurn + 2*time.Second
)

// The defaults of the gas budgets, in gwei, and of the share of a float.
const (
	payerGas         = 1_000_000
	hourGas          = 10_000_000
	smartAccountGas  = 10_000_000
	unsettledPercent = 20
)

// delegates is MetaMask's EIP7702StatelessDeleGator 1.3.0. It recovers the signer from the plain digest, compares it
// with the account, and reads no storage: docs/fairness.md says how that was verified.
const delegates = "0x63c0c19a282a1B52b07dD5a65b58948A07DAE32B"

func fairnessSettings() []setting {
	at := func(of func(*FairnessConfig) *int) func(*Config) *int {
		return func(c *Config) *int { return of(&c.Fairness) }
	}
	lasting := func(of func(*FairnessConfig) *time.Duration) func(*Config) *time.Duration {
		return func(c *Config) *time.Duration { return of(&c.Fairness) }
	}
	return []setting{
		{key: "worker.settle_slots", help: "how many payments are settled at once", byDefault: "8",
			set: number(at(func(f *FairnessConfig) *int { return &f.SettleSlots }))},
		{key: "worker.maintain_slots", help: "how many maintenance jobs run at once", byDefault: "8",
			set: number(at(func(f *FairnessConfig) *int { return &f.MaintainSlots }))},
		{key: "payment.max_validity", help: "how far ahead an authorization may end, at least 5m",
			byDefault: maxValidity.String(),
			set:       atLeast(5*time.Minute, lasting(func(f *FairnessConfig) *time.Duration { return &f.MaxValidity }))},
		{key: "payment.delegates", help: "contracts that payers may have delegated to by EIP-7702, separated by commas; " +
			"every other payer with code is refused", byDefault: delegates,
			set: func(c *Config, s string) (err error) { c.Fairness.Delegates, err = addresses(s); return err }},
		{key: "payment.smart_accounts", help: "kinds of smart accounts that may pay and sign in, separated by commas, of " +
			smartaccount.All().String() + ": an experiment, which needs a relayer", byDefault: none,
			set: func(c *Config, s string) (err error) {
				c.Fairness.SmartAccounts, err = smartaccount.Parse(s)
				return err
			}},
		{key: "float.unsettled_percent", help: "the share of a float that a wallet's unpaid orders may reserve, 1 to 100",
			byDefault: strconv.Itoa(unsettledPercent),
			set:       upTo(100, at(func(f *FairnessConfig) *int { return &f.UnsettledPercent }))},
		{key: "relayer.reverts", help: "how many transactions of one authorization may revert before the chain is only " +
			"watched", byDefault: "2", set: number(at(func(f *FairnessConfig) *int { return &f.Reverts }))},
		{key: "relayer.payer_gas", help: "what one payer's transactions that moved nothing may cost within an hour, in " +
			"gwei; beyond it no payment of theirs is taken", byDefault: strconv.Itoa(payerGas),
			set: number(at(func(f *FairnessConfig) *int { return &f.PayerGas }))},
		{key: "relayer.hour_gas", help: "what all of them may cost within an hour, in gwei; beyond it an authorization " +
			"gets one transaction", byDefault: strconv.Itoa(hourGas),
			set: number(at(func(f *FairnessConfig) *int { return &f.HourGas }))},
		{key: "relayer.smart_account_gas", help: "what relayer.smart_account_keys may spend within a day, in gwei; beyond " +
			"it smart accounts cannot pay", byDefault: strconv.Itoa(smartAccountGas),
			set: number(at(func(f *FairnessConfig) *int { return &f.SmartAccountGas }))},
		{key: "relayer.max_batch", help: "the most payments that share a transaction, 1 to 100, where the chain has a " +
			"contract for that; with 1 each has its own", byDefault: strconv.Itoa(settler.MaxMembers),
			set: upTo(settler.MaxMembers, at(func(f *FairnessConfig) *int { return &f.MaxBatch }))},
		{key: "relayer.transaction_retention",
			help:      "how long settlement transactions are kept after their end, at least 24h",
			byDefault: keepTransactions.String(),
			set: atLeast(24*time.Hour,
				lasting(func(f *FairnessConfig) *time.Duration { return &f.TransactionRetention }))},
	}
}

// upTo reads a number from 1 to most.
func upTo(most int, at func(*Config) *int) func(*Config, string) error {
	read := number(at)
	return func(c *Config, s string) error {
		if err := read(c, s); err != nil {
			return err
		}
		if *at(c) > most {
			return fmt.Errorf("%q is more than %d", s, most)
		}
		return nil
	}
}

// classSlots are the slots of the classes that have others than deliveries.
func (c Config) classSlots() map[job.Class]int {
	return map[job.Class]int{
		job.Settle: c.Fairness.SettleSlots, job.Maintain: c.Fairness.MaintainSlots,
	}
}

func (f FairnessConfig) budget() chain.Budget {
	const gwei = 1_000_000_000
	return chain.Budget{
		Reverts: f.Reverts, Payer: int64(f.PayerGas) * gwei, Hour: int64(f.HourGas) * gwei,
		SmartAccounts: int64(f.SmartAccountGas) * gwei,
	}
}

// simulating is the chain on which purchases are verified. If the relayer settles, it simulates the relayer's
// transaction.
func (a *App) simulating() payment.Chain {
	if a.relayer == nil || !a.config.SettlesBy(SettlerRelayer) {
		return a.chain
	}
	return chain.AsRelayer(a.chain, a.relayer)
}

// pruneTransactions deletes transactions that are past their retention.
func (c Config) pruneTransactions(ctx context.Context, transactions store.Transactions) error {
	before := c.now().Add(-cmp.Or(c.Fairness.TransactionRetention, keepTransactions))
	for {
		n, err := transactions.Prune(ctx, before, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
