package payment_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// machine is a signer whose key is elsewhere. It answers with the two numbers of a signature, as many such services do.
type machine struct {
	address x402.Address
	ask     func(ctx context.Context, digest x402.Hash) (r, s *big.Int, err error)
}

var _ payment.Signer = machine{}

func (m machine) Address() x402.Address { return m.address }

func (m machine) Sign(ctx context.Context, message []byte) (x402.Signature, error) {
	digest := x402.Hash(crypto.Keccak256(message))
	r, s, err := m.ask(ctx, digest)
	if err != nil {
		return "", fmt.Errorf("ask the machine: %w", err)
	}
	return curve.Complete(digest, r, s, m.address)
}

func (m machine) IsLocal() bool { return false }

// signsWith is what the machine does with its key.
func signsWith(key *ecdsa.PrivateKey) func(context.Context, x402.Hash) (r, s *big.Int, err error) {
	return func(_ context.Context, digest x402.Hash) (*big.Int, *big.Int, error) {
		signature, err := crypto.Sign(digest[:], key)
		if err != nil {
			return nil, nil, err
		}
		return new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64]), nil
	}
}

// A signer is asked through an account, which gives nobody what is not the account's signature.
func ExampleSigner() {
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	other, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	address := curve.AddressOf(key)
	const base = 8453
	for _, s := range []payment.Signer{machine{address, signsWith(key)}, machine{address, signsWith(other)}} {
		account := payment.NewAccount(s, base, time.Now)
		signature, err := account.SignTransaction(context.Background(), base, []byte("a transaction"))
		by, _ := curve.Recover(x402.Hash(crypto.Keccak256([]byte("a transaction"))), signature)
		fmt.Println("the account's:", by == address, "refused:", err != nil)
	}
	_, err = payment.NewAccount(machine{address, signsWith(key)}, base, time.Now).
		SignTransaction(context.Background(), base+1, []byte("a transaction"))
	fmt.Println("of another chain:", errors.Is(err, payment.ErrOtherChain))
	// Output:
	// the account's: true refused: false
	// the account's: false refused: true
	// of another chain: true
}
