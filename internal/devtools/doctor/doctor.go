// Package doctor checks what the service needs, one thing at a time, and says how to fix what fails.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config says what to check and how to tell.
type Config struct {
	File string
	JSON bool
	// Probe tries the providers out, too, by calls that take effect in their sandboxes. Spend is what an eSIM may cost
	// that is bought for it, in dollars; empty and "0" buy none.
	Probe bool
	Spend string
	Out   io.Writer
}

// probeWithin bounds the trials of all providers.
const probeWithin = 15 * time.Minute

// finding is the result of one check.
type finding struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// The statuses of a finding.
const (
	statusOK   = "ok"
	statusFail = "fail"
	statusSkip = "skip"
)

// Run checks what the service needs and prints one line for each check, and how to fix what fails. It is
// app.ErrNotReady when a check fails.
func Run(ctx context.Context, c Config) error {
	spend, err := money.ParseDollars(cmp.Or(c.Spend, "0"))
	if err != nil {
		return fmt.Errorf("what a probe may spend: %w", err)
	}
	checks, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var found []finding
	if c.File == "" && !app.Configured() {
		found = append(examineTools(), finding{
			Name: "configuration", Status: statusSkip, Detail: "nothing is configured; roamcard dev needs nothing",
		})
	} else {
		found = examineService(checks, c.File)
	}
	if c.Probe {
		found = append(found, probe(ctx, c.File, spend.USDC())...)
	}
	ok := true
	for _, f := range found {
		ok = ok && f.Status != statusFail
	}
	if err := printFindings(c, ok, found); err != nil {
		return err
	}
	if !ok {
		return app.ErrNotReady
	}
	return nil
}

// probe tells what the trials of the providers found.
func probe(ctx context.Context, file string, spend money.USDC) (all []finding) {
	const name = "probe"
	cfg, err := app.LoadFile(file)
	if err != nil {
		return []finding{{Name: name, Status: statusSkip, Detail: "nothing is configured, or not rightly"}}
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	trials, err := cfg.TryProviders(ctx, spend)
	if err != nil {
		all = append(all, verdictOf(name, "", err, "probe with the settings of the vendors' sandboxes"))
	}
	for _, of := range trials {
		for _, o := range of.Found {
			name := of.Provider + " " + o.Step
			if o.Skipped {
				all = append(all, finding{Name: name, Status: statusSkip, Detail: o.Detail})
				continue
			}
			all = append(all, verdictOf(name, o.Detail, o.Err,
				"do not sell over it: it does not do what its adapter takes for granted, or could not be asked"))
		}
	}
	return all
}

// examineTools looks for what `roamcard dev` runs; production needs none of it.
func examineTools() []finding {
	path, err := devnet.FindAnvil()
	anvil := verdictOf("anvil (for dev)", path, err, "run make setup")
	dir, err := devnet.FindPostgres()
	return []finding{anvil, verdictOf("postgresql (for dev)", dir, err, "run make setup")}
}

// examineService checks the configured service in steps; checks that need a failed step are skipped.
func examineService(ctx context.Context, file string) []finding {
	cfg, err := app.LoadFile(file)
	if err != nil {
		wrong := errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		return []finding{verdictOf("configuration", "", wrong, "set what is named, in the environment or in --config FILE")}
	}
	out := []finding{verdictOf("configuration", cfg.Environment+" at "+cfg.BaseURL, nil, "")}
	out = append(out, examineKeys(ctx, cfg)...)
	out = append(out, examineDatabase(ctx, cfg)...)
	out = append(out, examineChain(ctx, cfg)...)
	if cfg.SettlesBy(app.SettlerFacilitator) {
		out = append(out, examineFacilitator(ctx, cfg))
	}
	out = append(out, verdictOf("routing", strings.Join(cfg.RoutingInEffect(), "; "), nil, ""))
	for _, e := range append(cfg.ExamineProviders(ctx), cfg.ExamineScreening(ctx)...) {
		out = append(out, verdictOf(e.Name, e.Detail, e.Err, e.Fix))
	}
	out = append(out, examineOperators(ctx, cfg)...)
	return append(out, examineListeners(ctx, cfg)...)
}

func examineChain(ctx context.Context, cfg app.Config) []finding {
	ch, err := cfg.DialChain(ctx)
	if err != nil {
		return []finding{verdictOf("chain", "", err, "check chain.rpc_url, payment.asset and payment.asset_name")}
	}
	defer ch.Close()
	out := []finding{
		verdictOf("chain", fmt.Sprintf("id %d, %s at %s", x402.ChainID, cfg.AssetName, cfg.Asset), nil, ""),
		examineNodes(ctx, cfg, ch), examineToken(ctx, cfg, ch), examineClock(ctx, ch), examinePayee(ctx, cfg, ch),
	}
	if cfg.SettlesBy(app.SettlerRelayer) {
		out = append(out, examineRelayer(ctx, cfg, ch), examineSettler(ctx, cfg, ch))
	}
	if !cfg.TreasuryKey.IsZero() {
		out = append(out, examineTreasury(ctx, cfg, ch))
	}
	return append(out, examineRefunds(ctx, cfg, ch)...)
}

// examineRefunds fails for each treasury, also a former one, that has signed more refunds than it holds.
func examineRefunds(ctx context.Context, cfg app.Config, on *chain.Chain) (all []finding) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil // which is said elsewhere
	}
	defer s.Close()
	due, err := s.Orders().SignedRefunds(ctx)
	if err != nil {
		return nil
	}
	for treasury, sum := range due {
		holds, err := on.Balance(ctx, treasury)
		all = append(all, refundsOf(treasury, sum, holds, err))
	}
	slices.SortFunc(all, func(a, b finding) int { return cmp.Compare(a.Detail, b.Detail) })
	return all
}

// refundsOf says whether what a treasury holds is enough for what it has signed.
func refundsOf(treasury x402.Address, due, holds money.USDC, err error) finding {
	said := fmt.Sprintf("%s has signed refunds of %s USDC and holds %s", treasury, due.Dollars(), holds.Dollars())
	if err == nil && holds < due {
		err = errors.New(said)
	}
	return verdictOf("refunds", said, err, "send USDC to it; what is signed waits for it until the signature's hour is "+
		"over, and is then signed by the treasury of now")
}

func examineTreasury(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	keys, err := cfg.Keys(ctx)
	if err != nil || keys.Treasury == nil {
		return verdictOf("treasury", "", err, "set treasury.key to a private key in hex, or to a reference to one")
	}
	holds, err := on.Balance(ctx, keys.Treasury.Address())
	if err == nil && len(keys.Relayers)+len(keys.Retired) == 0 {
		err = errors.New("there is no relayer to send refunds")
	}
	detail := fmt.Sprintf("%s holds %s USDC", keys.Treasury.Address(), holds.Dollars())
	if holds == 0 {
		detail += ": refunds wait until it holds what they need"
	}
	return verdictOf("treasury", detail, err, "set relayer.keys too; a facilitator is not asked to refund")
}

func examineRelayer(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	relayer, err := cfg.NewRelayer(ctx, on)
	if err != nil {
		return verdictOf("relayer", "", err, "set relayer.keys to private keys in hex, or to references to them")
	}
	if err := on.Ready(ctx, app.MaxHeadAge); err != nil {
		return verdictOf("relayer", "", err, "see what is said of the nodes, which know its balances")
	}
	balances, err := relayer.GasBalances(ctx)
	if err == nil {
		err = relayer.Ready(ctx)
	}
	var held []string
	for address, wei := range balances {
		ether, _ := new(big.Float).Quo(new(big.Float).SetInt(wei), big.NewFloat(1e18)).Float64()
		held = append(held, fmt.Sprintf("%s has %.6f ether", address, ether))
	}
	slices.Sort(held)
	return verdictOf("relayer", strings.Join(held, ", "), err,
		"send ether for gas to the address, or start its signer again")
}

// examineSettler says in what transactions payments are settled. A chain without the contract is no failure, because
// there are other ways; the contract's address with other code is one.
func examineSettler(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	const name = "settler contract"
	if cfg.Fairness.MaxBatch == 1 {
		return finding{
			Name: name, Status: statusSkip, Detail: "relayer.max_batch is 1: each payment has a transaction of its own",
		}
	}
	found, err := on.FindSettler(ctx)
	said := found.Address().String() + " has the expected code"
	switch {
	case err != nil:
	case found.IsZero():
		said = "the chain has none, and no Multicall3: each payment has a transaction of its own; to share them, " +
			"roamcard deploy-settler"
	case !found.IsOwn():
		said = "the chain has none: batches use Multicall3 at " + found.Address().String() +
			", which bounds no member's gas; for that, roamcard deploy-settler"
	}
	return verdictOf(name, said, err,
		"see whether chain.rpc_url names the right chain; with relayer.max_batch 1 the contract is not used")
}

func examineFacilitator(ctx context.Context, cfg app.Config) finding {
	f, err := cfg.NewFacilitator()
	if err == nil {
		err = f.Supported(ctx)
	}
	by, fix := "without authentication", "check facilitator.url"
	switch {
	case cfg.FacilitatorKeyID != "":
		by = "by the key " + cfg.FacilitatorKeyID
		fix = "check facilitator.url, facilitator.key_id and facilitator.key_secret"
	case !cfg.FacilitatorToken.IsZero():
		by, fix = "by facilitator.token", "check facilitator.url and facilitator.token"
	}
	if facilitator.IsDenied(err) {
		fix = fixDenied(cfg)
	}
	return verdictOf("facilitator", "settles our kind at "+cfg.FacilitatorURL+", asked "+by, err, fix)
}

// fixDenied says what to do about a facilitator that refuses who asks.
func fixDenied(cfg app.Config) string {
	switch {
	case cfg.FacilitatorKeyID != "":
		return "it refuses the key: see at the Coinbase Developer Platform that the key exists, that " +
			"facilitator.key_secret is its secret and that its list of addresses, if it has one, has this machine's; and set " +
			"this machine's clock, because a token lives two minutes"
	case !cfg.FacilitatorToken.IsZero():
		return "it refuses facilitator.token: set the one that it gave you; Coinbase's takes none, set facilitator.key_id " +
			"and facilitator.key_secret instead"
	}
	return "it asks who calls: set facilitator.token, or, for Coinbase's, facilitator.key_id and facilitator.key_secret"
}

func verdictOf(name, detail string, err error, fix string) finding {
	if err != nil {
		return finding{Name: name, Status: statusFail, Detail: secret.Mask(err.Error()), Fix: fix}
	}
	return finding{Name: name, Status: statusOK, Detail: secret.Mask(detail)}
}

func printFindings(c Config, ok bool, found []finding) error {
	if c.JSON {
		enc := json.NewEncoder(c.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			OK     bool      `json:"ok"`
			Checks []finding `json:"checks"`
		}{ok, found})
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(c.Out, "%-4s  %-22s %s\n", f.Status, f.Name, f.Detail); err != nil {
			return err
		}
		if f.Fix != "" {
			if _, err := fmt.Fprintf(c.Out, "      fix: %s\n", f.Fix); err != nil {
				return err
			}
		}
	}
	return nil
}
