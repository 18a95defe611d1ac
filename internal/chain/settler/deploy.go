package settler

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNoFactory says that a chain does not have Factory.
var ErrNoFactory = errors.New("the chain does not have the factory for deterministic deployments")

// lookEvery is the time between two looks whether the transaction is included.
const lookEvery = 250 * time.Millisecond

// Deploy deploys our Settler through a node of the chain, and returns once the chain has it. The transaction is zero
// when it was there before. Any account with gas may deploy it, once; a relayer's must not, because its nonces belong
// to the service. When ctx ends first, the transaction may be included later: a second call finds it.
func Deploy(
	ctx context.Context, url string, rule outward.Rule, chainID uint64, key *ecdsa.PrivateKey,
) (tx x402.Hash, err error) {
	node, err := rpc.DialOptions(ctx, url, rpc.WithHTTPClient(outward.New(outward.Config{Rule: rule})))
	if err != nil {
		return x402.Hash{}, errors.New("deploy settler: the node's URL cannot be read") // which may have a key
	}
	defer node.Close()
	tx, err = deploy(ctx, ethclient.NewClient(node), new(big.Int).SetUint64(chainID), key)
	if err != nil {
		return tx, fmt.Errorf("deploy settler: %w", outward.Cause(err))
	}
	return tx, nil
}

func deploy(ctx context.Context, client *ethclient.Client, chain *big.Int, key *ecdsa.PrivateKey) (x402.Hash, error) {
	id, err := client.ChainID(ctx)
	if err != nil {
		return x402.Hash{}, fmt.Errorf("read chain id: %w", err)
	}
	if id.Cmp(chain) != 0 {
		return x402.Hash{}, fmt.Errorf("the node is of chain %s, want %s", id, chain)
	}
	own := Own(x402.Address{})
	if err := own.Check(ctx, client.Client()); !errors.Is(err, ErrNotDeployed) {
		return x402.Hash{}, err
	}
	signed, err := deployment(ctx, client, chain, key)
	if err != nil {
		return x402.Hash{}, err
	}
	if err := client.SendTransaction(ctx, signed); err != nil {
		return x402.Hash{}, fmt.Errorf("send: %w", err)
	}
	return x402.Hash(signed.Hash()), included(ctx, client, own, signed.Hash())
}

// deployment is the signed transaction. What the factory would do is tried first: an account without code takes any
// call, and does nothing.
func deployment(
	ctx context.Context, client *ethclient.Client, chain *big.Int, key *ecdsa.PrivateKey,
) (*types.Transaction, error) {
	to := common.Address(Factory)
	call := ethereum.CallMsg{From: crypto.PubkeyToAddress(key.PublicKey), To: &to, Data: factoryCall()}
	answer, err := client.CallContract(ctx, call, nil)
	if err != nil {
		return nil, fmt.Errorf("try: %w", err)
	}
	if !bytes.Equal(answer, Address[:]) {
		return nil, ErrNoFactory
	}
	gas, err := client.EstimateGas(ctx, call)
	if err != nil {
		return nil, fmt.Errorf("estimate gas: %w", err)
	}
	head, err := client.HeaderByNumber(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read the latest block: %w", err)
	}
	tip, err := client.SuggestGasTipCap(ctx)
	if err != nil {
		return nil, fmt.Errorf("suggest a fee: %w", err)
	}
	nonce, err := client.PendingNonceAt(ctx, call.From)
	if err != nil {
		return nil, fmt.Errorf("read nonce: %w", err)
	}
	fee := new(big.Int).Set(tip)
	if head.BaseFee != nil {
		fee.Add(fee, new(big.Int).Lsh(head.BaseFee, 1))
	}
	return types.SignNewTx(key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: nonce, GasTipCap: tip, GasFeeCap: fee, Gas: gas + gas/5, To: &to, Data: call.Data,
	})
}

// included waits until the chain has the contract. Somebody else's deployment serves as well as ours.
func included(ctx context.Context, client *ethclient.Client, c Contract, tx common.Hash) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := c.Check(ctx, client.Client()); !errors.Is(err, ErrNotDeployed) {
			return err
		}
		if receipt, err := client.TransactionReceipt(ctx, tx); err == nil && receipt.Status == types.ReceiptStatusFailed {
			return fmt.Errorf("transaction %s reverted", tx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("transaction %s is sent, and not included yet: %w", tx, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
