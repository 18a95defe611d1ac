package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

// lossy is a network that loses an answer on purpose, after the service has acted. It counts paid requests.
type lossy struct {
	next http.RoundTripper
	mu   sync.Mutex
	lose bool
	paid int
}

var errLost = errors.New("the answer was thrown away on purpose")

// RoundTrip implements http.RoundTripper.
func (l *lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(req)
	if req.Header.Get(x402.HeaderSignature) == "" {
		return res, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paid++
	if err != nil || !l.lose {
		return res, err
	}
	l.lose = false
	return nil, errors.Join(errLost, res.Body.Close())
}

// askPrice asks for the card without paying. The client checks every term of the challenge.
func (s *story) askPrice(ctx context.Context) error {
	s.begin("Ask for the card without paying")
	if len(s.Wallets) == 0 {
		return fmt.Errorf("%w. Next: name one", ErrNoWallet)
	}
	signer, err := roamcard.NewKeySigner(s.Wallets[0].Reveal())
	if err != nil {
		return fmt.Errorf("open a wallet: %w", err)
	}
	client, err := s.open(signer)
	if err != nil {
		return err
	}
	verdict, err := client.Quote.Card(ctx)
	if err != nil {
		return err
	}
	q := verdict.Quote
	s.say("The answer is 402, with the terms of %s in PAYMENT-REQUIRED:", q.Operation)
	s.say("  amount    %s units = %s USDC", q.AmountUSDC, q.Amount)
	s.say("  asset     %s", q.Asset)
	s.say("  network   %s", q.Network)
	s.say("  payee     %s", q.PayTo)
	s.say("  resource  %s", q.Resource)
	s.say("All of it is what the service publishes. Nothing is signed yet.")
	return nil
}

// buy pays with the first wallet that can.
func (s *story) buy(ctx context.Context) error {
	s.begin("Choose a wallet")
	var tried []string
	for _, secret := range s.Wallets {
		signer, err := roamcard.NewKeySigner(secret.Reveal())
		if err != nil {
			return fmt.Errorf("open a wallet: %w", err)
		}
		if s.client, err = s.open(signer); err != nil {
			return err
		}
		s.summary.Wallet = signer.Address()
		reason, err := s.unfit(ctx)
		if err != nil {
			return err
		}
		if reason == "" {
			err = s.pay(ctx, signer)
			if !errors.Is(err, &roamcard.APIError{Code: "card_already_exists"}) {
				return err
			}
			s.begin("Choose another wallet")
			reason = "has bought a card meanwhile; nothing moved"
		}
		s.say("%s %s.", signer.Address(), reason)
		tried = append(tried, signer.Address()+" "+reason)
	}
	s.summary.Wallet = ""
	return fmt.Errorf("%w (%s). Next: use another wallet, or start roamcard dev on a new folder", ErrNoWallet,
		strings.Join(tried, "; "))
}

// unfit says why the wallet cannot buy; empty when it can. It signs in, because only the owner may list cards. Paying
// needs no sign-in.
func (s *story) unfit(ctx context.Context) (reason string, err error) {
	if s.before, err = s.balance(ctx); err != nil {
		return "", err
	}
	if s.before < units(s.price) {
		return fmt.Sprintf("has %s USDC, too little for %s", s.before.Dollars(), s.price), nil
	}
	cards, err := s.client.Cards.List(ctx)
	if err != nil {
		return "", err
	}
	if len(cards) > 0 {
		return "owns a card already, and one wallet owns one card", nil
	}
	s.say("%s holds %s USDC, says the chain.", s.summary.Wallet, s.before.Dollars())
	s.say("Signed in with it (EIP-4361, personal_sign): it owns no card yet.")
	return "", nil
}

// pay buys the card over a network that loses the first answer.
func (s *story) pay(ctx context.Context, signer roamcard.Signer) error {
	s.begin("Pay, and lose the answer on purpose")
	s.network.paid, s.network.lose = 0, true
	first, err := s.client.Cards.Purchase(ctx, s.key)
	if err != nil {
		return err
	}
	s.summary.OrderID, s.summary.Transaction = first.Order.GetOrderId(), first.Transaction
	s.say("The lost request had bought it: the order comes from the record (replayed: %v).", first.Order.GetReplayed())
	s.say("Order        %s", s.summary.OrderID)
	s.say("Transaction  %s", s.summary.Transaction)
	return s.prove(ctx, signer)
}

// prove repeats the purchase from a client that knows only the key, and reads on chain that the money moved once.
func (s *story) prove(ctx context.Context, signer roamcard.Signer) error {
	s.begin("Buy it again, as a program that lost its journal would")
	forgetful, err := s.open(signer)
	if err != nil {
		return err
	}
	again, err := forgetful.Cards.Purchase(ctx, s.key)
	if err != nil {
		return err
	}
	if !again.Order.GetReplayed() || again.Order.GetOrderId() != s.summary.OrderID ||
		again.Transaction != s.summary.Transaction {
		return fmt.Errorf("%w: the repeat is order %s by transaction %s, replayed %v; expected a replay of order %s",
			ErrOutcome, again.Order.GetOrderId(), again.Transaction, again.Order.GetReplayed(), s.summary.OrderID)
	}
	after, err := s.balance(ctx)
	if err != nil {
		return err
	}
	if s.before-after != units(s.price) {
		return fmt.Errorf("%w: the wallet went from %s to %s USDC; expected to pay %s once", ErrOutcome, s.before.Dollars(),
			after.Dollars(), s.price)
	}
	s.summary.Replayed, s.summary.Transfers, s.summary.PaidRequests = true, 1, s.network.paid
	s.say("The nonce was the same, and so are order and transaction (replayed: true).")
	s.say("Balance on chain: %s, before %s. Payments went out %d times; %s USDC moved once.", after.Dollars(),
		s.before.Dollars(), s.network.paid, s.price)
	return nil
}
