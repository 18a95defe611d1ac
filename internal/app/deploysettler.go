package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// DeployerKey is the variable with the key that pays for a deployment.
const DeployerKey = "ROAMCARD_DEPLOYER_KEY"

// deployWithin bounds a deployment. One that is still waiting then is found by the next call.
const deployWithin = 2 * time.Minute

// DeploySettlerConfig says where to deploy the settler contract.
type DeploySettlerConfig struct {
	// File is the configuration of the service; empty reads only the environment.
	File string
	Out  io.Writer
}

// DeploySettler deploys the settler contract on the chain of the first node, unless it is there, and prints where.
func DeploySettler(ctx context.Context, c DeploySettlerConfig) error {
	cfg, err := LoadFile(c.File)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	text, err := Env(DeployerKey)
	if err != nil {
		return err
	}
	key, err := chain.ParseKey(text)
	if err != nil {
		return fmt.Errorf("%s: %w", DeployerKey, err)
	}
	keys, err := cfg.Keys(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(keys.senders(), func(s payment.Signer) bool {
		return s.Address() == curve.AddressOf(key)
	}) {
		return errors.New(DeployerKey + " is a relayer's, whose transactions the service numbers: use another account")
	}
	ctx, cancel := context.WithTimeout(ctx, deployWithin)
	defer cancel()
	tx, err := settler.Deploy(ctx, cfg.RPCURLs[0], cfg.rule(), x402.ChainID, key)
	switch {
	case err != nil:
		return err
	case tx.IsZero():
		_, err = fmt.Fprintf(c.Out, "%s was deployed before\n", settler.Address)
	default:
		_, err = fmt.Fprintf(c.Out, "%s is deployed by %s in %s\n", settler.Address, curve.AddressOf(key), tx)
	}
	return err
}
