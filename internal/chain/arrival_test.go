package chain_test

import (
	"fmt"
	"testing"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// arrived is a payment as a reading of the chain's events has it: its end is not known.
func (b *bench) arrived(p payment.Payment, r payment.Receipt) payment.Arrived {
	a := payment.Arrived{Network: x402.NetworkID, Asset: domain.Contract, Authorization: p.Authorization, Receipt: r}
	a.Authorization.ValidAfter, a.Authorization.ValidBefore = 0, uint64(b.now().Unix())+3600
	return a
}

// invented is the arrival of a payment that was never made, in a block that there is.
func (b *bench) invented(p payment.Payment, tag string) payment.Arrived {
	b.Helper()
	block := b.header(tag)
	hash, err := x402.ParseHash(block.Hash)
	if err != nil {
		b.Fatal(err)
	}
	return b.arrived(p, payment.Receipt{
		Transaction: x402.Hash{30: 0xf0}, Block: uint64(block.Number), BlockHash: hash, LogIndex: 4, SettledAt: b.now(),
		Payer: p.Authorization.From, PayTo: p.Authorization.To, Amount: p.Authorization.Value,
	})
}

func shown(t *testing.T, c *chain.Chain, a payment.Arrived) payment.State {
	t.Helper()
	v, err := c.VerifyArrived(t.Context(), a)
	if err != nil {
		t.Log(err)
		return payment.Unknown
	}
	if v.State == payment.Unused {
		t.Errorf("%+v", v)
	}
	return v.State
}

// TestShownVoidsInventedTransfer shows both events and the receipt of a payment that was never made at one node. Of
// two nodes the verdict stays undecided while that node lies; of three, and once it stops lying, the transfer is void.
func TestShownVoidsInventedTransfer(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	p := b.claim(buyer(0))
	for _, tag := range []string{"safe", "latest"} {
		a := b.invented(p, tag)
		liar := b.lying(b.forging(p, tag))
		ofTheBooks := a // which know its block's number only
		ofTheBooks.Receipt.BlockHash = x402.Hash{}
		for name, c := range map[string]struct {
			nodes []string
			want  payment.State
		}{
			"first of two":   {[]string{liar, b.url}, payment.Unknown},
			"second of two":  {[]string{b.url, liar}, payment.Unknown},
			"first of three": {[]string{liar, b.url, b.url}, payment.Void},
			"last of three":  {[]string{b.url, b.url, liar}, payment.Void},
			"no more":        {[]string{b.url, b.url}, payment.Void},
			"the only one":   {[]string{b.url}, payment.Void},
		} {
			t.Run(tag+", "+name, func(t *testing.T) {
				on := b.over(c.nodes...)
				for range 3 {
					for _, a := range []payment.Arrived{a, ofTheBooks} {
						var got payment.State
						// While an honest node of three is left out, because it was slow, the liar keeps it undecided.
						eventually(t, "the nodes agree", func() bool {
							got = shown(t, on, a)
							return got != payment.Unknown || c.want == payment.Unknown
						})
						if got != c.want {
							t.Fatalf("state %d, want %d", got, c.want)
						}
					}
				}
			})
		}
	}
}

// TestShownNeverVoidsRealTransfer lets one node deny the transfer, or two nodes lag behind it.
func TestShownNeverVoidsRealTransfer(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	behind, _ := b.frozen()
	other, _ := b.frozen()
	p := b.claim(buyer(0))
	b.submit(p)
	a := b.arrived(p, b.settles(p))
	denies := b.lying(func(q question) string {
		switch {
		case q.Method == "eth_call" && q.has(authorizationState):
			return fmt.Sprintf(`"result":"0x%064x"`, 0)
		case q.Method == "eth_getLogs":
			return `"result":[]`
		}
		return without(q)
	})
	pruned := b.lying(prunes)
	for name, c := range map[string]struct {
		nodes []string
		want  payment.State
	}{
		"shown by the only one":    {[]string{b.url}, payment.Settled},
		"shown by two":             {[]string{b.url, b.url}, payment.Settled},
		"one of two denies it":     {[]string{denies, b.url}, payment.Unknown},
		"one of three denies it":   {[]string{denies, b.url, b.url}, payment.Settled},
		"one of two is behind":     {[]string{behind, b.url}, payment.Unknown},
		"two of three are behind":  {[]string{behind, other, b.url}, payment.Unknown},
		"the logs are dropped":     {[]string{pruned, b.url}, payment.Settled},
		"behind, and one denies":   {[]string{behind, denies, b.url}, payment.Unknown},
		"denied by the only other": {[]string{b.url, denies}, payment.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			on := b.over(c.nodes...)
			for range 3 {
				if got := shown(t, on, a); got != c.want {
					t.Fatalf("state %d, want %d", got, c.want)
				}
			}
		})
	}
}

// TestShownKeepsReorganisedTransferUnknown removes a transfer by a reorganisation. It is void once its authorization
// is void, and settled when another transaction includes it again.
func TestShownKeepsReorganisedTransferUnknown(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	ends, returns := b.claim(buyer(0)), b.claim(buyer(1))
	b.submit(ends)
	first := b.arrived(ends, b.settles(ends))
	b.submit(returns)
	second := b.arrived(returns, b.settles(returns))
	b.control("anvil_reorg", 2, []any{})
	b.control("anvil_dropAllTransactions")
	b.mine(2)
	on := []*chain.Chain{b.over(b.url), b.over(b.url, b.url)}
	for _, c := range on {
		for _, a := range []payment.Arrived{first, second} {
			if got := shown(t, c, a); got != payment.Unknown {
				t.Errorf("undone: state %d, want undecided", got)
			}
		}
	}
	b.stranger(returns.Authorization, returns.Signature)
	b.cancel(buyer(0), ends.Authorization.Nonce)
	b.mine(3)
	for _, c := range on {
		if got := shown(t, c, second); got != payment.Settled {
			t.Errorf("sent again: state %d, want settled", got)
		}
		if got := shown(t, c, first); got != payment.Void {
			t.Errorf("cancelled: state %d, want void", got)
		}
	}
}
