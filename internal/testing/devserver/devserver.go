// Package devserver starts a development server for tests of programs that buy, makes wallets on its chain, and puts
// the programs of clients/testing in front of it.
package devserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/x402"
)

// shared is the server of all tests of a binary: the one that ROAMCARD_READY names, or one that starts on first use.
var shared struct {
	once  sync.Once
	ready dev.Ready
	err   error
	stop  func() error
}

// Server is the running server, for one test.
type Server struct {
	dev.Ready
	t testing.TB
}

// Start returns the server of this test binary, which starts once. TestMain ends it with Stop.
func Start(t testing.TB) Server {
	t.Helper()
	shared.once.Do(func() { shared.ready, shared.stop, shared.err = start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return Server{shared.ready, t}
}

// StartIssuer starts a server of the test's own, which sells the cards of an issuer.
func StartIssuer(t testing.TB, issuer string) Server {
	t.Helper()
	r, stop, err := dev.Start(context.Background(), dev.Config{
		Addr: "127.0.0.1:0", Issuer: issuer, Log: dev.Logger(io.Discard, ""), Out: io.Discard,
	})
	if err != nil {
		t.Fatalf("start a development server: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the development server: %v", err)
		}
	})
	return Server{r, t}
}

func start() (dev.Ready, func() error, error) {
	if path := os.Getenv("ROAMCARD_READY"); path != "" {
		r, err := dev.ReadReady(path)
		return r, nil, err
	}
	r, stop, err := dev.Start(context.Background(), dev.Config{
		Addr: "127.0.0.1:0", Log: dev.Logger(io.Discard, ""), Out: io.Discard,
	})
	if err != nil {
		return r, nil, fmt.Errorf("start the development server: %w", err)
	}
	return r, stop, nil
}

// Stop ends the server after all tests. It returns 1 when the server failed, else 0.
func Stop() int {
	for _, stop := range programs.stop {
		stop()
	}
	if shared.stop == nil {
		return 0
	}
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the development server:", err)
		return 1
	}
	return 0
}

// Wallet makes an account with a balance in units, and returns its private key and its signer.
func (s Server) Wallet(units uint64) (key string, signer *roamcard.KeySigner) {
	s.t.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key = hex.EncodeToString(secret)
	signer, err := roamcard.NewKeySigner(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fund(signer.Address(), units)
	return key, signer
}

// fund sets the balance of an account: the token of the development chain keeps balances in its third slot.
func (s Server) fund(account string, units uint64) {
	s.t.Helper()
	slot, balance := s.word(account), x402.Hash{}
	binary.BigEndian.PutUint64(balance[24:], units)
	s.RPC("anvil_setStorageAt", nil, s.USDC, x402.Keccak256(slot[:], append(make([]byte, 31), 2)).String(),
		balance.String())
}

// SmartAccount makes a Coinbase Smart Wallet of an owner's with a balance in units, and returns its signer.
func (s Server) SmartAccount(owner roamcard.Signer, units uint64) *roamcard.CoinbaseSmartAccount {
	s.t.Helper()
	a := smartaccounttest.New(uint64(s.ChainID), 0, named{owner: s.word(owner.Address())})
	account, err := roamcard.NewCoinbaseSmartAccount(owner, a.Address.String(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	const ether = "0xde0b6b3a7640000"
	s.RPC("anvil_setBalance", nil, owner.Address(), ether)
	s.RPC("anvil_impersonateAccount", nil, owner.Address())
	s.RPC("eth_sendTransaction", nil, map[string]any{
		"from": owner.Address(), "to": smartaccounttest.Factory.String(), "data": "0x" + hex.EncodeToString(a.CreateCall()),
	})
	apptest.Await(s.t, "the account has code", func() error {
		var code string
		if s.RPC("eth_getCode", &code, account.Address(), "latest"); code == "0x" {
			return errors.New("it has none")
		}
		return nil
	})
	s.fund(account.Address(), units)
	return account
}

// UndeployedAccount is the signer of an account with a balance in units that its first payment makes.
func (s Server) UndeployedAccount(owner roamcard.Signer, units uint64) *roamcard.CoinbaseSmartAccount {
	s.t.Helper()
	account, err := roamcard.NewUndeployedCoinbaseSmartAccount(owner, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fund(account.Address(), units)
	return account
}

// named is an owner by its address, which signs elsewhere.
type named struct {
	smartaccounttest.Owner
	owner x402.Hash
}

// Bytes implements smartaccounttest.Owner.
func (n named) Bytes() []byte { return n.owner[:] }

// Transfers reads from the chain what a wallet has paid the service, in units.
func (s Server) Transfers(wallet string) (all []int64) {
	s.t.Helper()
	var logs []struct{ Data string }
	topics := []string{x402.TopicTransfer.String(), s.word(wallet).String(), s.word(s.PayTo).String()}
	s.RPC("eth_getLogs", &logs, map[string]any{
		"address": s.USDC, "topics": topics, "fromBlock": "0x0", "toBlock": "latest",
	})
	for _, log := range logs {
		units, err := strconv.ParseInt(log.Data, 0, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, units)
	}
	return all
}

// word is an account as the chain indexes it.
func (s Server) word(account string) x402.Hash {
	s.t.Helper()
	address, err := x402.ParseAddress(account)
	if err != nil {
		s.t.Fatal(err)
	}
	return address.Word()
}

// RPC asks the server's chain.
func (s Server) RPC(method string, result any, params ...any) {
	s.t.Helper()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  any             `json:"error"`
	}
	Exchange(s.t, s.RPCURL, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, &answer)
	if answer.Error != nil {
		s.t.Fatalf("%s: %v", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Exchange posts JSON and reads JSON.
func Exchange(t testing.TB, url string, request, answer any) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	read(t, res, err, answer)
}

func read(t testing.TB, res *http.Response, err error, answer any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		t.Fatal(err)
	}
}
