package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/signer/web3signer"
	"github.com/roamcard/roamcard/internal/x402"
)

// Keys are the accounts that the service signs for, by whoever has their keys.
type Keys struct {
	// Relayers send transactions, and SmartAccountRelayers those of payers with code. Retired ones only finish those that
	// they began.
	Relayers, SmartAccountRelayers, Retired []payment.Signer
	// Treasury pays refunds; nil without one. FormerTreasuries pay those that they began.
	Treasury         payment.Signer
	FormerTreasuries []payment.Signer
	// Former are former treasuries whose key is gone.
	Former []x402.Address
}

// senders are all that send transactions.
func (k Keys) senders() []payment.Signer {
	return slices.Concat(k.Relayers, k.SmartAccountRelayers, k.Retired)
}

// Opened says where the keys of Keys are.
type Opened struct {
	// Role is what an account does, and Kind how its key is referred to: "keystore", "web3signer".
	Role, Kind string
	Signer     payment.Signer
}

// The forms of a reference. A text with none of them is a private key in hex.
const (
	byFile       = "file"
	byEnv        = "env"
	byKeystore   = "keystore"
	byWeb3Signer = "web3signer"
	byKMS        = "awskms"
	byText       = "literal"
)

// askedWithin bounds what a reference asks of another machine when it is opened.
const askedWithin = 10 * time.Second

// RoleRetiredRelayer is the role of an account that only finishes the transactions that it began.
const RoleRetiredRelayer = "retired relayer"

// The other roles of accounts.
const (
	roleRelayer             = "relayer"
	roleSmartAccountRelayer = "smart accounts' relayer"
	roleTreasury            = "treasury"
	roleRetiredTreasury     = "retired treasury"
)

// keyRef is a reference to a key, and the setting that has it.
type keyRef struct {
	setting, role string
	text          secret.Text
}

// keyRefs are all references, in the order of the settings.
func (c Config) keyRefs() (all []keyRef) {
	list := func(setting, role string, texts []secret.Text) {
		for i, text := range texts {
			all = append(all, keyRef{fmt.Sprintf("%s, number %d", setting, i+1), role, text})
		}
	}
	list("relayer.keys", roleRelayer, c.RelayerKeys)
	list("relayer.smart_account_keys", roleSmartAccountRelayer, c.RelayerSmartAccountKeys)
	list("relayer.retired", RoleRetiredRelayer, c.RelayerRetired)
	if !c.TreasuryKey.IsZero() {
		all = append(all, keyRef{"treasury.key", roleTreasury, c.TreasuryKey})
	}
	list("treasury.retired", roleRetiredTreasury, c.TreasuryRetired)
	return all
}

// Keys opens all keys. Those on other machines are only asked for their account, where the reference leaves it out. The
// error has every mistake.
func (c Config) Keys(ctx context.Context) (Keys, error) {
	var keys Keys
	opened, wrong := c.openKeys(ctx, true)
	for _, o := range opened {
		switch o.Role {
		case roleRelayer:
			keys.Relayers = append(keys.Relayers, o.Signer)
		case roleSmartAccountRelayer:
			keys.SmartAccountRelayers = append(keys.SmartAccountRelayers, o.Signer)
		case RoleRetiredRelayer:
			keys.Retired = append(keys.Retired, o.Signer)
		case roleTreasury:
			keys.Treasury = o.Signer
		case roleRetiredTreasury:
			keys.FormerTreasuries = append(keys.FormerTreasuries, o.Signer)
		}
	}
	for _, text := range c.TreasuryRetired {
		if account, err := x402.ParseAddress(text.Reveal()); err == nil {
			keys.Former = append(keys.Former, account)
		}
	}
	return keys, errors.Join(wrong...)
}

// OpenedKeys opens all keys and says where they are, and what is wrong with the others.
func (c Config) OpenedKeys(ctx context.Context) ([]Opened, error) {
	opened, wrong := c.openKeys(ctx, true)
	return opened, errors.Join(wrong...)
}

// errPublicKey says that everybody has a key.
var errPublicKey = errors.New("this is a public development key")

// keyMistakes are those that show without asking another machine: of keys that everybody has, or all others.
func (c Config) keyMistakes(public bool) []error {
	_, wrong := c.openKeys(context.Background(), false)
	return slices.DeleteFunc(wrong, func(err error) bool { return errors.Is(err, errPublicKey) != public })
}

// openKeys opens what it can, and tells every mistake. Another machine is asked only if ask is set.
func (c Config) openKeys(ctx context.Context, ask bool) (all []Opened, wrong []error) {
	seen := map[string]string{}
	for _, ref := range c.keyRefs() {
		if _, err := x402.ParseAddress(ref.text.Reveal()); err == nil && ref.role == roleRetiredTreasury {
			continue // its key is gone
		}
		made, err := c.opened.open(ctx, ref.text, c.strictRule(), ask)
		if errors.Is(err, errUnasked) {
			continue
		}
		if err == nil && c.Environment == Production && publicAccounts()[made.Address()] {
			err = errPublicKey
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", ref.setting, err))
			continue
		}
		group, _, _ := strings.Cut(ref.setting, ".")
		account := group + " " + made.Address().String()
		if first, twice := seen[account]; twice {
			wrong = append(wrong, fmt.Errorf("%s: it is of the account %s, as is %s", ref.setting, made.Address(), first))
			continue
		}
		seen[account] = ref.setting
		kind, _ := splitReference(ref.text.Reveal())
		all = append(all, Opened{ref.role, kind, made})
	}
	return all, wrong
}

// publicAccounts are those of the development chain, whose keys everybody knows.
var publicAccounts = sync.OnceValue(func() map[x402.Address]bool {
	all := map[x402.Address]bool{}
	for _, w := range devnet.Wallets() {
		if account, err := x402.ParseAddress(w.Address); err == nil {
			all[account] = true
		}
	}
	return all
})

// openedKeys caches the signers of a configuration that was read: a keystore takes a second of computing.
type openedKeys struct {
	mu sync.Mutex
	by map[string]payment.Signer
}

// open opens a reference. A nil one caches nothing.
func (o *openedKeys) open(
	ctx context.Context, text secret.Text, rule outward.Rule, ask bool,
) (payment.Signer, error) {
	if o == nil {
		return openReference(ctx, text, rule, ask)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if made, ok := o.by[text.Reveal()]; ok {
		return made, nil
	}
	made, err := openReference(ctx, text, rule, ask)
	if err == nil {
		if o.by == nil {
			o.by = map[string]payment.Signer{}
		}
		o.by[text.Reveal()] = made
	}
	return made, err
}

// splitReference is the form of a reference and the rest of it.
func splitReference(text string) (kind, rest string) {
	kind, rest, found := strings.Cut(strings.TrimSpace(text), ":")
	if !found || !slices.Contains([]string{byFile, byEnv, byKeystore, byWeb3Signer, byKMS}, kind) {
		return byText, text
	}
	return kind, rest
}

// errUnasked says that only another machine knows the account.
var errUnasked = errors.New("the account is not known without asking")

// openReference makes the signer that a reference names. Its errors quote paths and names, and nothing secret.
func openReference(
	ctx context.Context, text secret.Text, rule outward.Rule, ask bool,
) (payment.Signer, error) {
	kind, rest := splitReference(text.Reveal())
	switch kind {
	case byWeb3Signer:
		base, account, err := splitAccount(rest)
		if err == nil && account.IsZero() {
			err = errors.New("name the account: web3signer:URL#ADDRESS")
		}
		if err != nil {
			return nil, err
		}
		return web3signer.New(base, account, rule)
	case byKMS:
		key, account, err := splitAccount(rest)
		switch {
		case err != nil:
			return nil, err
		case key == "":
			return nil, errors.New("name the key: awskms:KEY-ID or awskms:KEY-ID#ADDRESS")
		case account.IsZero() && !ask:
			return nil, errUnasked
		}
		ctx, cancel := context.WithTimeout(ctx, askedWithin)
		defer cancel()
		return openKMS(ctx, key, account, rule)
	case byKeystore:
		return openKeystore(rest)
	case byFile, byEnv:
		read, err := readReference(text.Reveal())
		if err != nil {
			return nil, err
		}
		return localSigner(read)
	}
	return localSigner(text)
}

// localSigner makes the signer of a key that this process has.
func localSigner(text secret.Text) (payment.Signer, error) {
	key, err := chain.ParseKey(text.Reveal())
	if err != nil {
		return nil, err
	}
	return curve.NewLocalSigner(key), nil
}

// splitAccount splits a reference that may end with # and an account.
func splitAccount(text string) (where string, account x402.Address, err error) {
	where, named, found := strings.Cut(text, "#")
	if !found {
		return where, x402.Address{}, nil
	}
	if account, err = x402.ParseAddress(named); err != nil {
		err = errors.New("what stands after # is not an account: 0x and 40 hex digits, with the right checksum")
	}
	return where, account, err
}
