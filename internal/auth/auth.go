package auth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// The lifetimes when the configuration names none.
const (
	DefaultSessionTTL = time.Hour
	DefaultSignInTTL  = 5 * time.Minute
	DefaultRevealTTL  = 300 * time.Second
)

// Config is everything Auth needs.
type Config struct {
	Challenges Challenges
	Sessions   Sessions
	// Domain is the host of the base URL, with its port when it names one.
	Domain string
	// URI is the base URL.
	URI     string
	ChainID uint64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ActivityWallets also get ScopeActivity.
	ActivityWallets []x402.Address
	Operators       []Operator
	// Minted are the operators' tokens that were minted, and Issuer verifies those who signed in somewhere else; nil
	// knows none.
	Minted MintedTokens
	Issuer Issuers
	// Lifetimes; zero means the default.
	SessionTTL time.Duration
	SignInTTL  time.Duration
	RevealTTL  time.Duration
	// RevealOnPage says that the issuer shows cards on a page only: a reveal is signed as such, and seals nothing.
	RevealOnPage bool
	// SmartAccounts tells what wallets with code have signed; nil takes signatures of keys only.
	SmartAccounts SmartAccounts
	// NonceKey signs the nonces of sign-ins for one request, and FormerNonceKeys verify them, too; every process of a
	// deployment has the same. Nil offers and takes none.
	NonceKey        []byte
	FormerNonceKeys [][]byte
	// Limits counts the challenges that are stored, by address, and the reveals, by owner; nil does not limit.
	Limits *limit.Limiter
}

// Auth signs wallets in and authenticates callers. It is safe for concurrent use.
type Auth struct {
	challenges      Challenges
	sessions        Sessions
	site            site
	now             func() time.Time
	activityWallets []x402.Address
	operators       []Operator
	minted          MintedTokens
	issuer          Issuers
	sessionTTL      time.Duration
	signInTTL       time.Duration
	revealTTL       time.Duration
	limits          *limit.Limiter
	smartAccounts   SmartAccounts
	// nonceKeys begin with the one that signs.
	nonceKeys [][]byte
}

// New checks the configuration, all of it, and builds an Auth.
func New(cfg Config) (*Auth, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configure auth: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Auth{
		challenges: cfg.Challenges, sessions: cfg.Sessions,
		site:            site{cfg.Domain, cfg.URI, cfg.ChainID, cfg.RevealOnPage},
		now:             cfg.Now,
		activityWallets: slices.Clone(cfg.ActivityWallets),
		operators:       slices.Clone(cfg.Operators),
		minted:          cfg.Minted,
		issuer:          cfg.Issuer,
		sessionTTL:      orDefault(cfg.SessionTTL, DefaultSessionTTL),
		signInTTL:       orDefault(cfg.SignInTTL, DefaultSignInTTL),
		revealTTL:       orDefault(cfg.RevealTTL, DefaultRevealTTL),
		limits:          cfg.Limits,
		smartAccounts:   cfg.SmartAccounts,
	}
	if cfg.NonceKey != nil {
		a.nonceKeys = append([][]byte{cfg.NonceKey}, cfg.FormerNonceKeys...)
	}
	return a, nil
}

func (cfg Config) check() error {
	var errs []error
	if cfg.Challenges == nil || cfg.Sessions == nil {
		errs = append(errs, errors.New("a store is missing"))
	}
	if !handshake.IsAuthority(cfg.Domain) {
		errs = append(errs, fmt.Errorf("domain %q is not a host", cfg.Domain))
	}
	if !handshake.IsURI(cfg.URI) {
		errs = append(errs, fmt.Errorf("URI %q is not absolute", cfg.URI))
	}
	const exactInJSON = 1 << 53
	if cfg.ChainID == 0 || cfg.ChainID >= exactInJSON {
		errs = append(errs, fmt.Errorf("chain id %d is out of range", cfg.ChainID))
	}
	if cfg.SessionTTL < 0 || cfg.SignInTTL < 0 || cfg.RevealTTL < 0 {
		errs = append(errs, errors.New("a lifetime is negative"))
	}
	return errors.Join(append(errs, CheckOperators(cfg.Operators)...)...)
}

// CheckOperators requires that a token is one operator's, and that an operator has one role: the audit trail must
// distinguish them. An operator may have several tokens.
func CheckOperators(operators []Operator) []error {
	var errs []error
	roles, hashes := map[string]Role{}, map[[32]byte]bool{}
	for _, o := range operators {
		if o.Name == "" || o.Hash == [32]byte{} {
			errs = append(errs, errors.New("an operator has no name or no token hash"))
		}
		if strings.Contains(o.Name, NameMark) {
			errs = append(errs, fmt.Errorf("operator %q has %s in the name, as those of an issuer have", o.Name, NameMark))
		}
		if hashes[o.Hash] {
			errs = append(errs, fmt.Errorf("operator %q has a token that was named", o.Name))
		}
		role := cmp.Or(o.Role, RoleAdmin)
		if known, again := roles[o.Name]; again && known != role {
			errs = append(errs, fmt.Errorf("operator %q has two roles, %s and %s", o.Name, known, role))
		}
		if o.Role != "" && !o.Role.Known() {
			errs = append(errs, fmt.Errorf("operator %q has the unknown role %q", o.Name, o.Role))
		}
		roles[o.Name], hashes[o.Hash] = role, true
	}
	return errs
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
