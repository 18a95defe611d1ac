package roamcard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret/custody"
	"github.com/roamcard/roamcard/internal/x402"
)

// FromEnv makes a client of what the environment names, by the same names in all languages:
//
//	ROAMCARD_URL                   the service's origin; it is needed
//	ROAMCARD_SIGNER                a program and its arguments that sign for ROAMCARD_SIGNER_ADDRESS; it gets the
//	                               variables that ROAMCARD_SIGNER_ENV names, see CommandSigner; or else
//	ROAMCARD_WALLET_KEY            a private key, or ROAMCARD_WALLET_KEY_FILE, the file that holds it
//	ROAMCARD_MODE                  autonomous, policy_gated or human_approval, which is the default
//	ROAMCARD_MAX_PER_PAYMENT_USD   the cap of one payment in dollars, as in 25.00
//	ROAMCARD_MAX_PER_DAY_USD       the cap of 24 hours
//	ROAMCARD_APPROVE_ABOVE_USD     what policy_gated pays without asking
//	ROAMCARD_JOURNAL               the journal, see DefaultJournal
//	ROAMCARD_RPC_URL               a node of Base that the caller trusts
//	ROAMCARD_OPERATOR_TOKEN        the token of operators, or ROAMCARD_OPERATOR_TOKEN_FILE
//
// What is empty is not set, and what given sets goes before the environment: given.Policy.Approve is who can be asked.
// Without a signer the client only reads; with one its store is a file. All mistakes are in the one error. No call is
// made.
func FromEnv(given Config) (*Client, error) {
	e, c := &environment{}, given
	if c.BaseURL == "" {
		if c.BaseURL = e.text("ROAMCARD_URL"); c.BaseURL == "" {
			e.wrong("ROAMCARD_URL", "is not set")
		}
	}
	if c.Signer == nil {
		c.Signer = e.signer()
	}
	if c.OperatorToken.IsZero() {
		c.OperatorToken = NewSecret(e.secret("ROAMCARD_OPERATOR_TOKEN"))
	}
	p := &c.Policy
	p.Mode = cmp.Or(p.Mode, e.mode())
	p.MaxPerPayment = cmp.Or(p.MaxPerPayment, e.dollars("ROAMCARD_MAX_PER_PAYMENT_USD", 1))
	p.MaxPerDay = cmp.Or(p.MaxPerDay, e.dollars("ROAMCARD_MAX_PER_DAY_USD", 1))
	p.ApproveAbove = cmp.Or(p.ApproveAbove, e.dollars("ROAMCARD_APPROVE_ABOVE_USD", 0))
	c.RPCURL = cmp.Or(c.RPCURL, e.text("ROAMCARD_RPC_URL"))
	if c.Signer != nil && c.Store == nil {
		path, err := DefaultJournal()
		if err == nil {
			c.Store, err = NewFileStore(path)
		}
		if err != nil {
			e.mistakes = append(e.mistakes, fmt.Errorf("ROAMCARD_JOURNAL: %w", err))
		}
	}
	if err := errors.Join(e.mistakes...); err != nil {
		return nil, err
	}
	return New(c)
}

// environment is read variable by variable; what is wrong is collected.
type environment struct{ mistakes []error }

func (e *environment) wrong(name, what string) {
	e.mistakes = append(e.mistakes, errors.New(name+" "+what))
}

func (e *environment) text(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// maxSecret is more than any key or token needs.
const maxSecret = 64 << 10

// secret is what a variable holds, or the file that the variable with _FILE names, which nobody else may write, and
// nobody outside its group may read.
func (e *environment) secret(name string) string {
	value, path := e.text(name), e.text(name+"_FILE")
	switch {
	case value != "" && path != "":
		e.wrong(name, "and "+name+"_FILE are both set")
	case path != "":
		data, err := custody.Read(path, custody.GroupReaders, maxSecret)
		if err != nil {
			e.mistakes = append(e.mistakes, fmt.Errorf("%s_FILE: %w", name, err))
		}
		return strings.TrimSpace(string(data))
	}
	return value
}

func (e *environment) mode() Mode {
	m := cmp.Or(Mode(e.text("ROAMCARD_MODE")), HumanApproval)
	switch m {
	case Autonomous, PolicyGated, HumanApproval:
	default:
		e.wrong("ROAMCARD_MODE", "is not autonomous, policy_gated or human_approval")
	}
	return m
}

// dollars reads an amount of at least so many cents; zero when there is none.
func (e *environment) dollars(name string, least Cents) Cents {
	text := e.text(name)
	if text == "" {
		return 0
	}
	amount, err := money.ParseDollars(text)
	if err != nil || Cents(amount) < least {
		e.wrong(name, "is not an amount of dollars like 25.00")
	}
	return Cents(amount)
}

// signer is the wallet, or nil.
func (e *environment) signer() Signer {
	command, account := strings.Fields(e.text("ROAMCARD_SIGNER")), e.text("ROAMCARD_SIGNER_ADDRESS")
	_, malformed := x402.ParseAddress(account)
	switch {
	case len(command) > 0 && account == "":
		e.wrong("ROAMCARD_SIGNER_ADDRESS", "is not set, and ROAMCARD_SIGNER is")
	case len(command) == 0 && account != "":
		e.wrong("ROAMCARD_SIGNER", "is not set, and ROAMCARD_SIGNER_ADDRESS is")
	case account != "" && malformed != nil:
		e.wrong("ROAMCARD_SIGNER_ADDRESS", "is not an address of 0x and 40 hex digits")
	case account != "":
		return CommandSigner{
			Account: account, Command: command, Environment: strings.Fields(e.text("ROAMCARD_SIGNER_ENV")),
		}
	}
	key := e.secret("ROAMCARD_WALLET_KEY")
	if key == "" {
		return nil
	}
	signer, err := NewKeySigner(key)
	if err != nil {
		e.mistakes = append(e.mistakes, fmt.Errorf("ROAMCARD_WALLET_KEY: %w", err))
		return nil
	}
	return signer
}
