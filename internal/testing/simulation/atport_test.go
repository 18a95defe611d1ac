package simulation_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// token is the chain of a world at the ports that the domain asks it by: without nodes, and with a relayer that sends
// one transaction for each payment.
type token struct {
	chain *node.Chain
	// account sends.
	account common.Address

	mu sync.Mutex
	// sent are the transactions of an authorization, whoever sent them.
	sent map[authorization][]*sending
	// checked are the signatures that were looked at, by whether they are right. No two authorizations share one.
	checked map[x402.Signature]bool
}

type authorization struct {
	payer x402.Address
	nonce x402.Hash
}

// sending is a transaction, and when it was sent. Ours have the payment's call, to be sent again.
type sending struct {
	hash common.Hash
	at   time.Time
	call []byte
}

const (
	// resendAfter is how long a transaction that is in no block is waited for until it is sent again.
	resendAfter = 10 * time.Second
	// mostReverts is after how many that moved nothing no other one is sent.
	mostReverts = 2
	// finalAfter is how many blocks stay in any case only before the latest ones.
	finalAfter = 8
)

func newToken(chain *node.Chain) *token {
	return &token{
		chain: chain, account: common.Address{19: 0xab}, sent: map[authorization][]*sending{},
		checked: map[x402.Signature]bool{},
	}
}

// note says that a transaction uses an authorization.
func (k *token) note(a x402.Authorization, hash common.Hash) {
	k.add(authorization{a.From, a.Nonce}, &sending{hash: hash})
}

func (k *token) add(of authorization, s *sending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.at = time.Now()
	k.sent[of] = append(k.sent[of], s)
}

// send sends a payment.
func (k *token) send(of authorization, call []byte) {
	k.add(of, &sending{hash: k.chain.Execute(k.account, common.Address(domain().Contract), call), call: call})
}

// maintain sends ours again that a reorganisation has lost, as the relayer's maintenance does, until it is over.
func (k *token) maintain(over <-chan struct{}) {
	for pause(resendAfter, over) {
		k.mu.Lock()
		lost := map[authorization][]byte{}
		for of, all := range k.sent {
			last := all[len(all)-1]
			if last.call != nil && time.Since(last.at) >= resendAfter && k.chain.Receipt(last.hash) == nil {
				lost[of] = last.call
			}
		}
		k.mu.Unlock()
		for _, of := range slices.SortedFunc(maps.Keys(lost), authorization.compare) {
			k.send(of, lost[of])
		}
	}
}

func (a authorization) compare(b authorization) int {
	return cmp.Or(bytes.Compare(a.payer[:], b.payer[:]), bytes.Compare(a.nonce[:], b.nonce[:]))
}

// receipts are what is in a block of the transactions of an authorization. waiting says that one may still come.
func (k *token) receipts(a x402.Authorization) (all []*types.Receipt, waiting bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sent[authorization{a.From, a.Nonce}] {
		if r := k.chain.Receipt(s.hash); r != nil {
			all = append(all, r)
		} else if time.Since(s.at) < resendAfter {
			waiting = true
		}
	}
	return all, waiting
}

// submit sends a payment, unless a transaction of it may still be included.
func (k *token) submit(p payment.Payment) error {
	seen, waiting := k.receipts(p.Authorization)
	for _, r := range seen {
		if r.Status == types.ReceiptStatusSuccessful {
			return nil
		}
	}
	switch {
	case waiting:
		return nil
	case len(seen) >= mostReverts:
		return fmt.Errorf("it moved nothing: %w", payment.ErrMissed)
	}
	k.send(authorization{p.Authorization.From, p.Authorization.Nonce}, x402.TransferCall(p.Authorization, p.Signature))
	return nil
}

// verdict is the state of an authorization as a block shows it which is so many before the latest one.
func (k *token) verdict(a x402.Authorization, before uint64) payment.Verdict {
	head, at := k.chain.Head()
	seen, _ := k.receipts(a)
	for _, r := range seen {
		if r.Status != types.ReceiptStatusSuccessful {
			continue
		}
		if r.BlockNumber.Uint64()+before > head {
			return payment.Verdict{}
		}
		if v := k.settled(a, r, at.Add(-2*time.Second*time.Duration(head-r.BlockNumber.Uint64()))); v != nil {
			return payment.Verdict{State: payment.Settled, Receipt: v}
		}
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonUsedElsewhere}
	}
	final := at.Add(-2 * time.Second * finalAfter)
	switch end := time.Unix(int64(a.ValidBefore), 0); {
	case !final.Before(end):
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}
	case !at.Before(end):
		return payment.Verdict{}
	}
	return payment.Verdict{State: payment.Unused}
}

// settled is the proof that a transaction has made exactly the transfer of an authorization, or nil.
func (k *token) settled(a x402.Authorization, r *types.Receipt, at time.Time) *payment.Receipt {
	for _, l := range r.Logs {
		if len(l.Topics) != 3 || x402.Hash(l.Topics[0]) != x402.TopicTransfer {
			continue
		}
		from, to := common.BytesToAddress(l.Topics[1][12:]), common.BytesToAddress(l.Topics[2][12:])
		value := common.BytesToHash(l.Data).Big().Int64()
		if from == common.Address(a.From) && to == common.Address(a.To) && value == int64(a.Value) {
			return &payment.Receipt{
				Transaction: x402.Hash(r.TxHash), Block: r.BlockNumber.Uint64(), BlockHash: x402.Hash(r.BlockHash),
				LogIndex: l.Index, Payer: a.From, PayTo: a.To, Amount: a.Value, SettledAt: at.UTC(),
			}
		}
	}
	return nil
}

// signed reports whether the payer has signed an authorization. It is remembered, as checking it takes long.
func (k *token) signed(a x402.Authorization, s x402.Signature) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	is, known := k.checked[s]
	if !known {
		is = curve.Verify(domain(), a, s) == nil
		k.checked[s] = is
	}
	return is
}

// simulate is the token's refusal of a transfer now, or nil.
func (k *token) simulate(a x402.Authorization, s x402.Signature) error {
	no := func(reason string) error {
		return &payment.Rejection{Reason: reason, Detail: "the token refuses the transfer"}
	}
	if !k.signed(a, s) {
		return no(x402.ReasonSignature)
	}
	seen, _ := k.receipts(a)
	for _, r := range seen {
		if r.Status == types.ReceiptStatusSuccessful {
			return no(x402.ReasonNonceUsed)
		}
	}
	_, at := k.chain.Head()
	switch now := uint64(at.Unix()); {
	case now <= a.ValidAfter:
		return no(x402.ReasonValidAfter)
	case now >= a.ValidBefore:
		return no(x402.ReasonValidBefore)
	case k.chain.Balance(common.Address(a.From)) < int64(a.Value):
		return no(x402.ReasonBalance)
	}
	return nil
}

// atPort is a token as a process asks it, over the bus. before is how many blocks before the latest one it looks.
type atPort struct {
	*token
	of     *process
	bus    *bus
	before uint64
}

var (
	_ payment.Chain   = atPort{}
	_ payment.Settler = atPort{}
)

// call lets something happen when it is the process's turn.
func (c atPort) call(ctx context.Context, name string, a x402.Authorization, do func()) error {
	g, err := c.bus.ask(c.of, fmt.Sprintf("chain %s %x", name, a.Nonce[:4]), ctx.Done())
	if err == nil {
		err = g.before(c.of)
	}
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	do()
	return errors.Join(g.after(c.of, ctx.Done()), ctx.Err())
}

// Simulate implements payment.Chain.
func (c atPort) Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) (no error) {
	if err := c.call(ctx, "simulate", a, func() { no = c.simulate(a, s) }); err != nil {
		return err
	}
	return no
}

// Verdict implements payment.Chain.
func (c atPort) Verdict(ctx context.Context, a x402.Authorization, _ time.Time) (v payment.Verdict, err error) {
	if err := c.call(ctx, "verdict", a, func() { v = c.verdict(a, c.before) }); err != nil {
		return payment.Verdict{}, err
	}
	return v, nil
}

// Funds implements payment.Chain.
func (c atPort) Funds(ctx context.Context, payer x402.Address) (has money.USDC, err error) {
	err = c.call(ctx, "funds", x402.Authorization{From: payer},
		func() { has = money.USDC(c.chain.Balance(common.Address(payer))) })
	if err != nil {
		return 0, err
	}
	return has, nil
}

// Submit implements payment.Settler.
func (c atPort) Submit(ctx context.Context, p payment.Payment) (missed error) {
	if err := c.call(ctx, "submit", p.Authorization, func() { missed = c.submit(p) }); err != nil {
		return err
	}
	return missed
}

// Time is that of the block at which verdicts are read.
func (c atPort) Time(context.Context) (time.Time, error) {
	_, at := c.chain.Head()
	return at.Add(-2 * time.Second * time.Duration(c.before)), nil
}
