package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// check is something that has to hold after all losses.
type check struct {
	what string
	look func(context.Context) (string, error)
}

func (w *walk) checks() []check {
	return []check{
		{"what arrived is what was bought", w.arrived},
		{"each payment has one order", w.books},
		{"roamcard reconcile", w.reconciled},
	}
}

// arrived compares what the chain has paid to the service with what buyers were told, to the cent.
func (w *walk) arrived(ctx context.Context) (string, error) {
	has, err := roamcard.USDCBalance(ctx, w.RPCURL(), w.PayTo())
	if err != nil {
		return "", fmt.Errorf("read the balance: %w", err)
	}
	return compare(has, w.bought)
}

// compare finds purchases that share an order, and money that is not theirs.
func compare(has roamcard.USDC, all []bought) (string, error) {
	const unit = 10_000 // of USDC in a cent
	orders, sum := map[string]int{}, roamcard.USDC(0)
	var errs []error
	for _, b := range all {
		if orders[b.Order]++; orders[b.Order] == 2 {
			errs = append(errs, fmt.Errorf("two purchases were told of order %s", b.Order))
		}
		sum += roamcard.USDC(b.Amount) * unit
	}
	if has != sum {
		errs = append(errs, fmt.Errorf("%d purchases cost %s USDC, and %s arrived", len(all), sum.Dollars(), has.Dollars()))
	}
	if len(all) == 0 {
		errs = append(errs, errors.New("nothing was bought"))
	}
	return fmt.Sprintf("%d purchases, %s USDC", len(all), has.Dollars()), errors.Join(errs...)
}

// books compares the database, the chain's transfers one by one, and the providers' own books.
func (w *walk) books(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lossTimeout)
	defer cancel()
	all := invariants.Books{
		DatabaseURL: w.DirectURL(), RPCURL: w.RPCURL(), USDC: devnet.USDCAddress, PayTo: w.PayTo(),
		Treasury: devnet.WalletsOf(devnet.RoleTreasury)[0].Address, SandboxURL: w.SandboxURL,
	}
	for _, relayer := range devnet.WalletsOf(devnet.RoleRelayer) {
		all.Relayers = append(all.Relayers, relayer.Address)
	}
	for _, b := range w.bought {
		all.Answers = append(all.Answers, invariants.Answer{
			Payer: b.Payer, Key: b.Key, Paid: true, Status: 200, OrderID: b.Order, Transaction: b.Transaction,
			Amount: b.Amount.String(), At: b.At,
		})
	}
	if err := invariants.Await(ctx, all); err != nil {
		return "", err
	}
	found, err := invariants.Check(ctx, all)
	errs := []error{err}
	for _, v := range found {
		errs = append(errs, errors.New(v.String()))
	}
	const how = "and each order is delivered once, by the chain's, the database's and the providers' books"
	return how, errors.Join(errs...)
}

// reconciled lets the program compare its books by itself. What a comparison needs to be final has to be old enough.
func (w *walk) reconciled(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out []byte
	err := until(ctx, nil, func(context.Context) (err error) {
		cmd := exec.CommandContext(ctx, w.roamcard, "reconcile", "--config", w.conf("roamcard.yaml"))
		cmd.Env = withoutSettings(cmd.Environ())
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return "the books agree", nil
}
