package node_test

import (
	"context"
	"crypto/ecdsa"
	"log/slog"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

const price = money.USDC(25_000_000)

var (
	token     = common.HexToAddress(devnet.USDCAddress)
	domain    = x402.Domain{Name: "USD Coin", Version: "2", ChainID: devnet.ChainID, Contract: x402.Address(token)}
	signer    = types.LatestSignerForChainID(big.NewInt(devnet.ChainID))
	wallets   = devnet.Wallets()
	buyers    = wallets[:20]
	relayers  = wallets[20:23]
	payee     = wallets[23]
	admin     = wallets[26]
	beginning = time.Unix(946_684_800, 0) // when a bubble's time begins
)

func keyOf(w devnet.Wallet) *ecdsa.PrivateKey {
	key, err := crypto.HexToECDSA(w.PrivateKey[2:])
	if err != nil {
		panic(err) // a constant
	}
	return key
}

func addressOf(w devnet.Wallet) common.Address { return common.HexToAddress(w.Address) }

// pays is a signed authorization of the price, valid for an hour from a time on.
func pays(t testing.TB, from devnet.Wallet, nonce uint64, at time.Time) settler.Member {
	t.Helper()
	a := x402.Authorization{
		From: x402.Address(addressOf(from)), To: x402.Address(addressOf(payee)), Value: price,
		ValidBefore: uint64(at.Add(time.Hour).Unix()), Nonce: x402.Hash(common.BigToHash(new(big.Int).SetUint64(nonce))),
	}
	s, err := curve.Sign(domain, a, keyOf(from))
	if err != nil {
		t.Fatal(err)
	}
	return settler.Member{Authorization: a, Signature: s}
}

// signed is a transaction with its bytes.
func signed(t testing.TB, by devnet.Wallet, data types.TxData) (common.Hash, []byte) {
	t.Helper()
	tx := types.MustSignNewTx(keyOf(by), signer, data)
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return tx.Hash(), raw
}

// calls is a transaction that calls an address.
func calls(nonce uint64, to common.Address, gas uint64, data []byte) *types.DynamicFeeTx {
	return &types.DynamicFeeTx{
		ChainID: big.NewInt(devnet.ChainID), Nonce: nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9), Gas: gas,
		To: &to, Data: data,
	}
}

func dial(t testing.TB, n *node.Node) *rpc.Client {
	t.Helper()
	client, err := rpc.DialOptions(t.Context(), "http://node", rpc.WithHTTPClient(&http.Client{Transport: n}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// shop is a relayer over nodes of a simulated chain, in a bubble's time.
type shop struct {
	*testing.T
	*node.Chain
	usdc         *chain.Chain
	relayer      *chain.Relayer
	transactions *paymenttest.Transactions
	made         uint64
}

// nodes answers for the nodes that are the hosts.
type nodes struct{ *node.Chain }

// RoundTrip implements http.RoundTripper. An answer takes a moment, as over a network.
func (n nodes) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		_ = r.Body.Close()
		return nil, r.Context().Err()
	case <-time.After(10 * time.Millisecond):
	}
	return n.Node(r.URL.Host).RoundTrip(r)
}

func newShop(t *testing.T, hosts ...string) *shop {
	t.Helper()
	s := &shop{T: t, Chain: node.New(node.Config{Start: time.Now(), Now: time.Now})}
	s.usdc = s.over(hosts...)
	var err error
	s.transactions = paymenttest.NewTransactions(time.Now)
	s.relayer, err = chain.NewRelayer(chain.RelayerConfig{
		Chain: s.usdc, Transactions: s.transactions, Settler: settler.Own(domain.Contract), Window: 2,
		Keys: []payment.Signer{curve.NewLocalSigner(keyOf(relayers[0]))}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// over is the chain as these nodes show it.
func (s *shop) over(hosts ...string) *chain.Chain {
	s.Helper()
	var endpoints []chain.Endpoint
	for _, h := range hosts {
		endpoints = append(endpoints, chain.Endpoint{URL: "https://" + h})
	}
	c, err := chain.New(s.Context(), chain.Config{
		Endpoints: endpoints, Domain: domain, Now: time.Now, Through: &http.Client{Transport: nodes{s.Chain}},
		HeadFor: time.Second,
	})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// claim is a payment that is stored and to be settled.
func (s *shop) claim(from devnet.Wallet) payment.Payment {
	s.Helper()
	s.made++
	m := pays(s, from, s.made, time.Now())
	return payment.Payment{
		ID: uuid.New(), Status: payment.Claimed, Network: x402.NetworkID, Asset: domain.Contract,
		Authorization: m.Authorization, Signature: m.Signature, CreatedAt: time.Now(),
	}
}

// verdict is what the chain says of a payment; while nodes disagree, nothing.
func (s *shop) verdict(p payment.Payment) payment.Verdict {
	s.Helper()
	v, err := s.usdc.Verdict(s.Context(), p.Authorization, p.CreatedAt.Add(-time.Minute))
	if err != nil {
		s.Logf("verdict: %v", err)
	}
	return v
}

// settles drives payments, as their jobs do, until all have moved.
func (s *shop) settles(all ...payment.Payment) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	for settled := 0; settled < len(all); {
		settled = 0
		for _, p := range all {
			switch v := s.verdict(p); v.State {
			case payment.Settled:
				settled++
			case payment.Unused:
				if err := s.relayer.Submit(ctx, p); err != nil {
					s.Logf("submit: %v", err)
				}
			}
		}
		if err := s.relayer.Maintain(ctx); err != nil {
			s.Logf("maintain: %v", err)
		}
		s.pass(time.Second)
		if ctx.Err() != nil {
			s.Fatal("the payments do not settle")
		}
	}
}

// pass lets time go by.
func (s *shop) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func (s *shop) wantPayee(want money.USDC) {
	s.Helper()
	if got := s.Balance(addressOf(payee)); got != int64(want) {
		s.Errorf("the payee has %d, want %d", got, want)
	}
}
