package node_test

import (
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// bubble runs a story of a shop over these nodes.
func bubble(t *testing.T, story func(*shop), hosts ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, hosts...)
		defer s.usdc.Close()
		story(s)
	})
}

func TestRelayerSettlesBatch(t *testing.T) {
	bubble(t, func(s *shop) {
		var all []payment.Payment
		for i := range 12 {
			all = append(all, s.claim(buyers[i]))
		}
		s.settles(all...)
		s.wantPayee(12 * price)
		largest := 0
		for _, p := range all {
			for _, tx := range s.transactions.All(p.ID) {
				largest = max(largest, len(tx.Payments))
			}
		}
		if largest < 2 {
			s.Errorf("the largest transaction settles %d payments, want several", largest)
		}
	}, "one")
}

// TestRevertedPaymentSettlesLater drains the payer in front of the relayer's transaction, and gives the money back.
func TestRevertedPaymentSettlesLater(t *testing.T) {
	bubble(t, func(s *shop) {
		p := s.claim(buyers[0])
		if err := s.relayer.Submit(s.Context(), p); err != nil {
			s.Fatal(err)
		}
		payer := addressOf(buyers[0])
		word := x402.Address(addressOf(buyers[1])).Word()
		drain := append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], word[:]...)
		drain = append(drain, common.BigToHash(big.NewInt(s.Balance(payer))).Bytes()...)
		s.Execute(payer, token, drain)
		s.pass(2 * time.Second)
		if got := s.Balance(payer); got != 0 {
			s.Fatalf("the payer has %d left", got)
		}
		first := s.transactions.All(p.ID)[0].Variants[0].Hash
		if r := s.Receipt(common.Hash(first)); r == nil || r.Status != 0 {
			s.Fatalf("receipt %+v, want a reverted one", r)
		}
		if v := s.verdict(p); v.State != payment.Unused {
			s.Fatalf("%+v, want unused", v)
		}
		s.Fund(payer, int64(price), nil)
		s.settles(p)
		s.wantPayee(price)
	}, "one")
}

// TestPaymentSettlesAgainAfterReorganisation replaces the last three blocks, with its transaction or without it.
func TestPaymentSettlesAgainAfterReorganisation(t *testing.T) {
	for name, drop := range map[string]func(common.Hash) bool{
		"kept": nil, "dropped": func(common.Hash) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *shop) {
				s.pass(10 * time.Second)
				p := s.claim(buyers[0])
				s.settles(p)
				before := s.verdict(p).Receipt.BlockHash
				if err := s.Reorganise(3, drop); err != nil {
					s.Fatal(err)
				}
				if drop != nil {
					s.wantPayee(0)
				}
				s.settles(p)
				s.wantPayee(price)
				if after := s.verdict(p).Receipt.BlockHash; after == before {
					s.Error("it settled in the block that was replaced")
				}
			}, "one", "two", "three")
		})
	}
}

// TestPaymentSettlesOverLaggingNode lets the preferred of three nodes lag, and hide the transfer.
func TestPaymentSettlesOverLaggingNode(t *testing.T) {
	bubble(t, func(s *shop) {
		s.Node("one").Lag(5)
		p := s.claim(buyers[0])
		s.settles(p)
		s.wantPayee(price)
		again := s.claim(buyers[1])
		if err := s.relayer.Submit(s.Context(), again); err != nil {
			s.Fatal(err)
		}
		s.Node("one").Lag(0)
		for _, v := range s.transactions.All(again.ID)[0].Variants {
			s.Node("one").Hide(common.Hash(v.Hash), true)
		}
		s.settles(again)
		s.wantPayee(2 * price)
	}, "one", "two", "three")
}

// TestForgedPaymentDoesNotSettle lets one of three nodes show a payment that was never made, or blocks nobody made.
func TestForgedPaymentDoesNotSettle(t *testing.T) {
	bubble(t, func(s *shop) {
		s.pass(10 * time.Second)
		p := s.claim(buyers[0])
		forged := s.Node("one").Forge(p.Authorization)
		if _, err := ethclient.NewClient(dial(s, s.Node("one"))).TransactionReceipt(s.Context(), forged); err != nil {
			s.Fatal(err)
		}
		alone := s.over("one")
		defer alone.Close()
		if v, err := alone.Verdict(s.Context(), p.Authorization, p.CreatedAt.Add(-time.Minute)); err != nil ||
			v.State != payment.Settled {
			s.Errorf("the liar alone shows %+v, %v", v, err)
		}
		for range 10 {
			if v := s.verdict(p); v.State == payment.Settled || v.State == payment.Void {
				s.Fatalf("%+v by one node of three", v)
			}
			s.pass(2 * time.Second)
		}
		s.Node("two").Lag(-50)
		s.settles(p)
		s.wantPayee(price)
	}, "one", "two", "three")
}
