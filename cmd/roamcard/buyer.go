package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/agent/keys"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// buyer is what the commands of buyers and operators share: where the service is, who signs, what may be
// paid, and how to tell.
type buyer struct {
	url, readyFile, rpcURL string
	wallet                 int
	// account is the smart account that pays, of which the wallet is the owner at ownerIndex; empty for the wallet itself.
	account    string
	safe       bool
	ownerIndex uint64
	// asOperator signs with the ready file's operator wallet, which may see activity.
	asOperator  bool
	asJSON, yes bool
	maxUSD      string
	maxDayUSD   string
	wait        bool
	client      *roamcard.Client
	// signsAlone says that the wallet signs without asking anybody.
	signsAlone bool
	opened     roamcard.Signer
}

// maxKeyFile is more than any key needs.
const maxKeyFile = 64 << 10

const defaultURL = "http://127.0.0.1:8402"

// flags adds the flags that all commands of a group share.
func (b *buyer) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&b.url, "url", "", "the service's origin (ROAMCARD_URL; default "+defaultURL+")")
	f.StringVar(&b.readyFile, "ready-file", "",
		"ready `file` of a running roamcard dev, which names service, chain and wallets (ROAMCARD_READY_FILE)")
	f.BoolVar(&b.asJSON, "json", false, "print JSON")
	complete(cmd, "url", fixed(defaultURL))
}

// paying adds the flags of commands that a wallet signs for.
func (b *buyer) paying(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.IntVar(&b.wallet, "wallet", 0, "which of the ready file's wallets signs, counted from 0")
	b.ofAccount(cmd)
	f.BoolVar(&b.yes, "yes", false, "do not ask before paying; needs --max")
	f.StringVar(&b.maxUSD, "max", "",
		"the most that one payment may come to in US dollars, as in 25.00 (ROAMCARD_MAX_PER_PAYMENT_USD)")
	f.StringVar(&b.maxDayUSD, "max-day", "",
		"the most that may be signed for in 24 hours in US dollars (ROAMCARD_MAX_PER_DAY_USD; default: with --max, the same)")
	f.StringVar(&b.rpcURL, "rpc-url", "",
		"JSON-RPC endpoint of Base that you trust (ROAMCARD_RPC_URL): shows the balance before a payment, and frees what "+
			"the chain voids")
}

// ofAccount adds the flags that name a smart account of the wallet's.
func (b *buyer) ofAccount(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&b.account, "account", "",
		"`address` of a deployed Coinbase Smart Wallet that pays in place of the wallet, which signs as its owner")
	f.BoolVar(&b.safe, "safe", false, "the account is a Safe, of which the wallet is an owner whose signature is enough")
	f.Uint64Var(&b.ownerIndex, "owner-index", 0, "which of the account's owners the wallet is, counted from 0")
}

// open makes the client. The ready file fills in what is not said otherwise.
func (b *buyer) open(cmd *cobra.Command) (*roamcard.Client, error) {
	if err := givenEmpty(cmd); err != nil {
		return nil, err
	}
	r, err := b.ready()
	if err != nil {
		return nil, err
	}
	signer, err := b.signer(cmd, r)
	if err != nil {
		return nil, err
	}
	policy, err := b.policy(cmd)
	if err != nil {
		return nil, err
	}
	path, err := roamcard.DefaultJournal()
	if err != nil {
		return nil, err
	}
	store, err := roamcard.NewFileStore(path)
	if err != nil {
		return nil, err
	}
	token, err := app.Env("ROAMCARD_OPERATOR_TOKEN")
	if err != nil {
		return nil, err
	}
	client, err := roamcard.New(roamcard.Config{
		BaseURL: first(b.url, os.Getenv("ROAMCARD_URL"), r.BaseURL, defaultURL), Signer: signer, Policy: policy, Store: store,
		OperatorToken: roamcard.NewSecret(first(token, r.OperatorToken)), Poll: time.Second,
		Events: b.events(cmd.ErrOrStderr()),
		RPCURL: b.node(r),
	})
	b.client = client
	return client, err
}

// node is the node of the chain that is asked, or none.
func (b *buyer) node(r dev.Ready) string {
	return first(b.rpcURL, os.Getenv("ROAMCARD_RPC_URL"), r.RPCURL)
}

// identities are the flags that name what is meant. Given and empty, as by --key "$UNSET", they would mean something
// else than they say.
var identities = []string{"key", "reason", "order", "owner", "wallet", "account", "token", "transaction", "name"}

// givenEmpty refuses empty arguments, and flags of identities that are given and empty.
func givenEmpty(cmd *cobra.Command) error {
	for i, arg := range cmd.Flags().Args() {
		if strings.TrimSpace(arg) == "" {
			return fmt.Errorf("%w: argument %d is empty", errUsage, i+1)
		}
	}
	for _, name := range identities {
		if cmd.Flags().Changed(name) && strings.TrimSpace(cmd.Flags().Lookup(name).Value.String()) == "" {
			if cmd.Flags().Lookup(name).Annotations[cobra.BashCompOneRequiredFlag] != nil {
				return fmt.Errorf("%w: --%s is given and empty", errUsage, name)
			}
			return fmt.Errorf("%w: --%s is given and empty; leave it out or name one", errUsage, name)
		}
	}
	return nil
}

// keyed adds --key to a command that buys.
func (b *buyer) keyed(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "key", "", "idempotency key; the same key never pays twice (default: a new one)")
	complete(cmd, "key", b.completePending)
	mayPay(cmd)
}

// waiting adds --wait to a command that shows an order.
func (b *buyer) waiting(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&b.wait, "wait", false, "wait until the order is final")
	return cmd
}

// undelivered is a purchase that ended without the goods, as far as anybody can tell.
type undelivered struct {
	key   string
	order *roamcardv1.Order
}

func (u undelivered) Error() string {
	return fmt.Sprintf("the order %s, bought under the key %q, is %s", u.order.GetOrderId(), u.key, u.order.GetStatus())
}

// bought shows a purchase, once its order is final when that was asked for. One that is final without the goods is an
// error all the same.
func (b *buyer) bought(cmd *cobra.Command, p roamcard.Purchase) error {
	o, err := b.final(cmd, p.Order)
	if err != nil {
		return fmt.Errorf("wait for the order, which is paid under the key %q: %w", p.IdempotencyKey, err)
	}
	err = b.showPurchase(cmd, p, o)
	if status := roamcard.StatusOf(o); err == nil && status.Final() && status != roamcard.OrderFulfilled {
		return undelivered{p.IdempotencyKey, o}
	}
	return err
}

func (b *buyer) showPurchase(cmd *cobra.Command, p roamcard.Purchase, o *roamcardv1.Order) error {
	if !b.asJSON {
		err := b.show(cmd, o, func(w io.Writer) {
			orderText(w, o)
			fmt.Fprintf(w, "key\t%s\n", line(p.IdempotencyKey))
			if p.RequestID != "" {
				fmt.Fprintf(w, "request\t%s\n", line(p.RequestID))
			}
		})
		if err == nil && o.GetKind() == "esim" && o.GetStatus() == "fulfilled" {
			// Only `esim install` shows the activation data.
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Install it with: roamcard esim install %s\n", line(o.GetOrderId()))
		}
		return err
	}
	document, err := json.Marshal(o)
	members := map[string]any{}
	if err := errors.Join(err, json.Unmarshal(document, &members)); err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	members["idempotencyKey"], members["requestId"] = p.IdempotencyKey, p.RequestID
	return b.showJSON(cmd, members)
}

// showFinal shows an order, once it is final when that was asked for.
func (b *buyer) showFinal(cmd *cobra.Command, o *roamcardv1.Order) error {
	o, err := b.final(cmd, o)
	if err != nil {
		return err
	}
	return b.showOrder(cmd, o)
}

// final returns an order at once, or with --wait when it is final.
func (b *buyer) final(cmd *cobra.Command, o *roamcardv1.Order) (*roamcardv1.Order, error) {
	if !b.wait || roamcard.StatusOf(o).Final() {
		return o, nil
	}
	id := o.GetOrderId()
	err := b.client.Orders.Watch(cmd.Context(), id, func(seen *roamcardv1.Order) bool {
		seen.Replayed, o = o.Replayed, seen // only the answer to a payment says it
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("wait for order %s: %w", id, err)
	}
	return o, nil
}

// run gives a command its client.
func (b *buyer) run(
	act func(cmd *cobra.Command, client *roamcard.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := b.open(cmd)
		if err != nil {
			return err
		}
		return act(cmd, client, args)
	}
}

// ready is what the ready file tells, or nothing when none is named.
func (b *buyer) ready() (dev.Ready, error) {
	path := first(b.readyFile, os.Getenv("ROAMCARD_READY_FILE"))
	if path == "" {
		return dev.Ready{}, nil
	}
	return dev.ReadReady(path)
}

// signer is the first of: the external signer, keystore, keychain entry or key of the environment, a wallet of the
// ready file, the wallet that `wallet new` made. It is nil when there is none: many commands only read. It is opened
// once: a passphrase is asked for once.
func (b *buyer) signer(cmd *cobra.Command, r dev.Ready) (roamcard.Signer, error) {
	if b.opened != nil {
		return b.opened, nil
	}
	signer, err := b.openSigner(cmd, r)
	if err != nil {
		return nil, err
	}
	_, b.signsAlone = signer.(*roamcard.KeySigner)
	if signer, err = b.forAccount(signer); err != nil {
		return nil, err
	}
	b.opened = signer
	return signer, nil
}

// forAccount makes the wallet the owner of the account that is named.
func (b *buyer) forAccount(owner roamcard.Signer) (roamcard.Signer, error) {
	switch {
	case b.account == "" && b.ownerIndex != 0:
		return nil, fmt.Errorf("%w: --owner-index needs --account", errUsage)
	case b.account == "" && b.safe:
		return nil, fmt.Errorf("%w: --safe needs --account", errUsage)
	case b.safe && b.ownerIndex != 0:
		return nil, fmt.Errorf("%w: --owner-index is of a Coinbase Smart Wallet; a Safe's owners have none", errUsage)
	case b.account == "" || owner == nil:
		return owner, nil
	}
	var account roamcard.Signer
	var err error
	if b.safe {
		account, err = roamcard.NewSafeAccount(b.account, owner)
	} else {
		account, err = roamcard.NewCoinbaseSmartAccount(owner, b.account, b.ownerIndex)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: --account: %w", errUsage, err)
	}
	return account, nil
}

func (b *buyer) openSigner(cmd *cobra.Command, r dev.Ready) (roamcard.Signer, error) {
	if command := os.Getenv("ROAMCARD_SIGNER"); command != "" {
		address := os.Getenv("ROAMCARD_SIGNER_ADDRESS")
		if address == "" {
			return nil, fmt.Errorf("%w: ROAMCARD_SIGNER needs ROAMCARD_SIGNER_ADDRESS, too", errUsage)
		}
		return roamcard.CommandSigner{
			Account: address, Command: strings.Fields(command), Environment: namedVariables(),
		}, nil
	}
	if kept, named := keptKey(cmd); named {
		return keys.Open(cmd.Context(), kept)
	}
	key, err := app.Env("ROAMCARD_WALLET_KEY")
	if err != nil {
		return nil, err
	}
	if key == "" && b.asOperator {
		key = r.OperatorWallet.PrivateKey
	}
	if key == "" && len(r.Wallets) > 0 {
		if b.wallet < 0 || b.wallet >= len(r.Wallets) {
			return nil, fmt.Errorf("%w: the ready file has %d wallets, counted from 0", errUsage, len(r.Wallets))
		}
		key = r.Wallets[b.wallet].PrivateKey
	}
	if key == "" {
		path, err := walletFile()
		if err != nil {
			return nil, err
		}
		data, err := custody.Read(path, custody.NoReaders, maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the wallet: %w", err)
		}
		key = string(data)
	}
	return roamcard.NewKeySigner(key)
}

// namedVariables are those that programs of the wallet's owner get in addition to what programs need.
func namedVariables() []string { return strings.Fields(os.Getenv("ROAMCARD_SIGNER_ENV")) }

// policy asks before each payment, unless --yes and a cap say that it need not.
func (b *buyer) policy(cmd *cobra.Command) (roamcard.Policy, error) {
	one, err := capOf("--max", b.maxUSD, "ROAMCARD_MAX_PER_PAYMENT_USD")
	if err != nil {
		return roamcard.Policy{}, err
	}
	day, err := capOf("--max-day", b.maxDayUSD, "ROAMCARD_MAX_PER_DAY_USD")
	if err != nil {
		return roamcard.Policy{}, err
	}
	if day == 0 {
		day = one
	}
	p := roamcard.Policy{Mode: roamcard.HumanApproval, MaxPerPayment: one, MaxPerDay: day, Approve: b.approve(cmd)}
	if b.yes && cmd.Annotations[pays] != "" { // what pays nothing asks nothing
		if one == 0 {
			return p, fmt.Errorf("%w: --yes needs --max", errUsage)
		}
		p.Mode = roamcard.Autonomous
	}
	return p, nil
}

// capOf reads a cap of the command line, or else of the environment; zero is none.
func capOf(name, text, variable string) (roamcard.Cents, error) {
	if text == "" {
		name, text = variable, strings.TrimSpace(os.Getenv(variable))
	}
	if text == "" {
		return 0, nil
	}
	limit, err := parseUSD(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errUsage, name, err)
	}
	return limit, nil
}

// errNobodyToAsk is a refusal: nothing is signed.
var errNobodyToAsk = fmt.Errorf("%w: standard input is no terminal, so nobody can be asked; to pay without "+
	"being asked, add --yes --max DOLLARS", roamcard.ErrPolicyDenied)

// approve asks the person at the terminal; without one nothing is approved. Giving up at the prompt is a no.
func (b *buyer) approve(cmd *cobra.Command) func(context.Context, roamcard.Quote) (bool, error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal(in) {
		return func(context.Context, roamcard.Quote) (bool, error) { return false, errNobodyToAsk }
	}
	return func(ctx context.Context, q roamcard.Quote) (bool, error) {
		w := printable{cmd.ErrOrStderr()}
		fmt.Fprintf(w, "Pay %s USDC to %s\nfor %s (%s)\n", q.Amount, q.PayTo, first(line(q.Description), q.Operation),
			line(q.Resource))
		fmt.Fprint(w, b.means(ctx, cmd), "Pay? [y/N] ")
		answer, err := readLine(ctx, in)
		if err != nil {
			fmt.Fprintln(w)
			return false, err
		}
		return isYes(answer), nil
	}
}

// means says what the wallet holds, and what is left of the day's cap after this payment, which is already counted.
func (b *buyer) means(ctx context.Context, cmd *cobra.Command) string {
	text := "What the wallet holds is not known; name a node of Base with --rpc-url.\n"
	if r, err := b.ready(); err == nil && b.node(r) != "" {
		text = b.balance(ctx, cmd, r)
	}
	budget, err := b.client.Budget(ctx)
	if err != nil {
		return text
	}
	if budget.Cap == 0 {
		return text + fmt.Sprintf("With it, %s USD are signed for in 24 hours; --max-day would cap that.\n", budget.Spent)
	}
	return text + fmt.Sprintf("With it, %s of %s USD are signed for in 24 hours; %s are left.\n", budget.Spent,
		budget.Cap, budget.Left())
}

func (b *buyer) balance(ctx context.Context, cmd *cobra.Command, r dev.Ready) string {
	const deadline = 5 * time.Second // a person waits for it
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	signer, err := b.signer(cmd, r)
	if err != nil {
		return "What the wallet holds is not known: " + line(err.Error()) + "\n"
	}
	usdc, err := roamcard.USDCBalance(ctx, b.node(r), signer.Address())
	if err != nil {
		return "What the wallet holds is not known: " + line(err.Error()) + "\n"
	}
	return "The wallet holds " + usdc.Dollars() + " USDC.\n"
}

// readLine reads a line, unless the context ends before there is one.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type answered struct {
		line string
		err  error
	}
	read := make(chan answered, 1)
	go func() { // ends with the line, or with the program
		line, err := bufio.NewReader(in).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		read <- answered{line, err}
	}()
	select {
	case a := <-read:
		return a.line, errors.Join(a.err, ctx.Err())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// isYes says that a person answered a question with yes.
func isYes(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// events tells of a payment on its way, on stderr.
func (b *buyer) events(w io.Writer) *roamcard.Events {
	if b.asJSON {
		return nil
	}
	w = printable{w}
	return &roamcard.Events{
		Unkept: func(key string, err error) {
			fmt.Fprintf(w, "The answer stands, but the journal was not written (%v). Keep the key %s.\n", err, key)
		},
		Signed: func(q roamcard.Quote) {
			fmt.Fprintf(w, "Signed %s USDC under the key %s; sending.\n", q.Amount, q.IdempotencyKey)
		},
		Replay: func(_ string, _ int, after time.Duration, _ error) {
			fmt.Fprintf(w, "No clear answer; the same bytes again in %s.\n", after)
		},
		Settled: func(_, transaction string) { fmt.Fprintf(w, "Settled in %s.\n", line(transaction)) },
	}
}

// parseUSD reads dollars with at most two decimals.
func parseUSD(text string) (roamcard.Cents, error) {
	whole, part, dotted := strings.Cut(text, ".")
	if dotted && (len(part) == 0 || len(part) > 2) {
		return 0, fmt.Errorf("%q is not an amount of dollars like 25.00", text)
	}
	part += "00"[:2-len(part)]
	cents, err := strconv.ParseUint(whole+part, 10, 32)
	if err != nil || whole == "" || cents == 0 {
		return 0, fmt.Errorf("%q is not an amount of dollars like 25.00", text)
	}
	return roamcard.Cents(cents), nil
}

// stateFile is the path of a file of the user: what the environment names, or the default.
func stateFile(env, name string) (string, error) {
	if path := os.Getenv(env); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find a place for %s (or set %s): %w", name, env, err)
	}
	return filepath.Join(dir, "roamcard", name), nil
}

func keystoreFile() (string, error) { return stateFile("ROAMCARD_KEYSTORE", "keystore.json") }

func walletFile() (string, error) { return stateFile("ROAMCARD_WALLET_FILE", "wallet") }

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
