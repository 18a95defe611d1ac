// Package chain is USDC on an EVM chain: it reads the chain over several nodes, decides the status of authorizations,
// and settles them with our own keys.
package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what a Chain needs. Zero durations and counts take the defaults named.
type Config struct {
	Endpoints []Endpoint
	// Rule says which nodes may be asked without TLS.
	Rule outward.Rule
	// Domain names the token and its chain. The token must agree with it.
	Domain   x402.Domain
	Finality Finality
	// CallTimeout bounds one call to one node: 2 s.
	CallTimeout time.Duration
	// CallGas bounds a simulation, so that a payer's contract cannot make us pay for its gas: 200,000. A relayer sends
	// with the same limit.
	CallGas uint64
	// LogRange is the widest range of blocks that the nodes accept in one log query: 2,000.
	LogRange uint64
	// Delegates are the contracts that payers may have delegated to by EIP-7702, and SmartAccounts the kinds of accounts
	// that may pay. Every other payer with code is refused: its code may allow a simulation and revert the transaction.
	Delegates     []x402.Address
	SmartAccounts smartaccount.Kinds
	// WitnessFrom is the amount from which a second node must show a transfer before it counts as settled, where there
	// are several: 0 is every amount. Final and void always need two nodes.
	WitnessFrom money.USDC
	// ReorgDepth is how many blocks must be replaced between two surveys for the chain to count as unsettled, and
	// ReorgCalm for how long it does: 3 blocks, 30 s.
	ReorgDepth uint64
	ReorgCalm  time.Duration
	// HeadFor is how long a head, once read, is used for all payments that wait; zero reads it for each.
	HeadFor time.Duration
	Now     func() time.Time
	// Metrics counts the answers of each node; nil disables that.
	Metrics *telemetry.Metrics
	// Through is another way to the nodes than the network; nil is the network.
	Through *http.Client
}

// Finality is how deep a block must lie, as a block tag: latest, safe or finalized.
type Finality struct {
	// Paid is the head that proves a transfer. Base's sealed blocks are latest.
	Paid string
	// Dead is the head that proves that there will be no transfer; use safe, except where nothing reorganises.
	Dead string
}

// Chain reads USDC. It is payment.Chain.
type Chain struct {
	config Config
	pool   *pool
	recent *headLog
	// following says that heads are shared.
	following bool
	// began is when the nodes were first asked.
	began time.Time
}

// New connects, and refuses nodes of another chain and a token with another domain.
func New(ctx context.Context, config Config) (*Chain, error) {
	config.CallTimeout = orDefault(config.CallTimeout, 2*time.Second)
	config.CallGas = orDefault(config.CallGas, 200_000)
	config.LogRange = orDefault(config.LogRange, 2_000)
	config.ReorgDepth = orDefault(config.ReorgDepth, 3)
	config.ReorgCalm = orDefault(config.ReorgCalm, 30*time.Second)
	config.Finality.Paid = orDefault(config.Finality.Paid, "latest")
	config.Finality.Dead = orDefault(config.Finality.Dead, "safe")
	pool, err := newPool(ctx, config.Endpoints, config.client(), config.Domain.ChainID, config.CallTimeout, config.Now)
	if err != nil {
		return nil, fmt.Errorf("connect to chain: %w", err)
	}
	// Before the first call: probes of other nodes may outlive it.
	pool.metrics = config.Metrics
	for _, e := range pool.endpoints {
		config.Metrics.BeginNode(e.name, nodeOtherChain, nodeForked, nodeContradicted)
	}
	c := &Chain{config: config, pool: pool, recent: newHeadLog(), began: config.Now()}
	if err := c.checkDomain(ctx); err != nil {
		pool.close()
		return nil, err
	}
	return c, nil
}

// client asks the nodes.
func (c Config) client() *http.Client {
	return outward.New(outward.Config{Rule: c.Rule, Timeout: c.CallTimeout, Most: maxResponse, Through: c.Through})
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Close drops the connections.
func (c *Chain) Close() { c.pool.close() }

// checkDomain detects a wrong name, version or address before the first payer signs for it.
func (c *Chain) checkDomain(ctx context.Context) error {
	answer, err := c.ethCall(ctx, x402.SeparatorCall(), "latest")
	if err != nil {
		return fmt.Errorf("read the token's domain: %w", err)
	}
	if want := c.config.Domain.Separator(); len(answer) != 32 || x402.Hash(answer) != want {
		return fmt.Errorf(
			"the token %s has the domain separator %s, want %s", c.config.Domain.Contract, hexutil.Encode(answer), want,
		)
	}
	return nil
}

// Balance is what an account holds at the latest block.
func (c *Chain) Balance(ctx context.Context, account x402.Address) (money.USDC, error) {
	answer, err := c.ethCall(ctx, x402.BalanceCall(account), "latest")
	if err != nil {
		return 0, fmt.Errorf("read balance: %w", err)
	}
	balance := new(big.Int).SetBytes(answer)
	if !balance.IsInt64() {
		return 0, errors.New("read balance: more than there is")
	}
	return money.USDC(balance.Int64()), nil
}

// Funds implements payment.Chain. A node that lags shows less than there is, or one that lies: the most counts, because
// too much lets a payment be claimed that will not move, and too little refuses a sale.
func (c *Chain) Funds(ctx context.Context, payer x402.Address) (money.USDC, error) {
	if len(c.pool.endpoints) == 1 {
		return c.Balance(ctx, payer)
	}
	ask := func(ctx context.Context, one *Chain) (money.USDC, error) { return one.Balance(ctx, payer) }
	var most money.USDC
	var errs error
	answered := false
	for _, w := range consult(ctx, c, 1, ask, equal) {
		if errs = errors.Join(errs, w.err); w.err == nil {
			most, answered = max(most, w.value), true
		}
	}
	if !answered {
		return 0, fmt.Errorf("read the payer's balance: %w", errs)
	}
	return most, nil
}

// refusals map the token's revert texts to reasons. The texts are the contract's return data, not a node's message.
var refusals = map[string]payment.Rejection{
	"FiatTokenV2: authorization is not yet valid": {
		Reason: x402.ReasonValidAfter, Detail: "the authorization is not valid yet",
	},
	"FiatTokenV2: authorization is expired": {
		Reason: x402.ReasonValidBefore, Detail: "the authorization has expired",
	},
	"FiatTokenV2: authorization is used or canceled": {
		Reason: x402.ReasonNonceUsed, Detail: "the authorization was used or cancelled",
	},
	"FiatTokenV2: invalid signature": {
		Reason: x402.ReasonSignature, Detail: "the token, or the code of the payer, refuses the signature",
	},
	"ECRecover: invalid signature": {
		Reason: x402.ReasonSignature, Detail: "the token refuses the signature",
	},
	"ERC20: transfer amount exceeds balance": {
		Reason: x402.ReasonBalance, Detail: "the payer's balance is too small",
	},
	"Pausable: paused": {
		Reason: payment.ReasonTokenPaused, Detail: "the token's issuer has paused it",
	},
	"Blacklistable: account is blacklisted": {
		Reason: payment.ReasonAccountBlocked, Detail: "the token's issuer blocks an account of ours",
	},
}

// rejectionOf is the token's reason to refuse a transfer, or nil when err is not the token's answer.
func rejectionOf(err error) *payment.Rejection {
	if err == nil || !isAnswer(err) {
		return nil
	}
	var revert string
	if data, ok := errors.AsType[rpc.DataError](err); ok {
		revert, _ = data.ErrorData().(string)
	}
	return refusalOf(common.FromHex(revert))
}

// refusalOf is the reason of a revert.
func refusalOf(revert []byte) *payment.Rejection {
	rejection := payment.Rejection{Reason: x402.ReasonSimulation, Detail: "the transfer would fail"}
	if reason, err := abi.UnpackRevert(revert); err == nil {
		if known, ok := refusals[reason]; ok {
			rejection = known
		}
	}
	return &rejection
}

// ethCall calls the token at a block: a tag, or atHash.
func (c *Chain) ethCall(ctx context.Context, data []byte, block any) ([]byte, error) {
	return c.ethCallAs(ctx, nil, transfer{c.config.Domain.Contract, data, c.config.CallGas}, block)
}

// ethCallAs makes a call by a sender, with its fee; nil means no sender and a gas price of zero.
func (c *Chain) ethCallAs(ctx context.Context, as *simulated, of transfer, block any) ([]byte, error) {
	call := map[string]any{"to": of.to.String(), "gas": hexutil.Uint64(of.gas), "data": hexutil.Bytes(of.data)}
	if as != nil {
		call["from"] = as.address.String()
		call["maxFeePerGas"] = (*hexutil.Big)(as.fee.cap)
		call["maxPriorityFeePerGas"] = (*hexutil.Big)(as.fee.tip)
	}
	var answer hexutil.Bytes
	err := c.pool.call(ctx, &answer, "eth_call", call, block)
	return answer, err
}

// atHash names a block by its hash (EIP-1898).
func atHash(hash x402.Hash) any { return map[string]string{"blockHash": hash.String()} }

// header is the part of a block's header that is used here.
type header struct {
	Number  uint64
	Hash    x402.Hash
	Parent  x402.Hash
	Time    uint64
	BaseFee *big.Int
}

// header reads a block's header by tag.
func (c *Chain) header(ctx context.Context, tag string) (header, error) {
	h, err := c.readHeader(ctx, "eth_getBlockByNumber", tag)
	if err != nil || tag != "latest" || len(c.pool.endpoints) == 1 || c.config.Now().Sub(h.time()) < oldHead {
		return h, err
	}
	return c.newest(ctx, h), nil
}

// alone is the chain as one node shows it.
func (c *Chain) alone(e *endpoint) *Chain {
	one := *c
	one.pool = c.pool.alone(e)
	return &one
}

func (c *Chain) headerAt(ctx context.Context, number uint64) (header, error) {
	return c.readHeader(ctx, "eth_getBlockByNumber", hexutil.EncodeUint64(number))
}

func (c *Chain) headerOf(ctx context.Context, hash x402.Hash) (header, error) {
	return c.readHeader(ctx, "eth_getBlockByHash", hash.String())
}

func (c *Chain) readHeader(ctx context.Context, method, block string) (header, error) {
	var wire struct {
		Number    hexutil.Uint64 `json:"number"`
		Hash      common.Hash    `json:"hash"`
		Parent    common.Hash    `json:"parentHash"`
		Timestamp hexutil.Uint64 `json:"timestamp"`
		BaseFee   *hexutil.Big   `json:"baseFeePerGas"`
	}
	if err := c.pool.call(ctx, &wire, method, block, false); err != nil {
		return header{}, fmt.Errorf("read block %s: %w", block, err)
	}
	base := new(big.Int)
	if wire.BaseFee != nil {
		base = wire.BaseFee.ToInt()
	}
	return header{
		Number: uint64(wire.Number), Hash: x402.Hash(wire.Hash), Parent: x402.Hash(wire.Parent),
		Time: uint64(wire.Timestamp), BaseFee: base,
	}, nil
}

// time is the block's time in UTC.
func (h header) time() time.Time { return time.Unix(int64(h.Time), 0).UTC() }
