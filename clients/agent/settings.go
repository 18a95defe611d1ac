package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// Settings are what a person allows an agent to do. They come from a file that only this user may read or write, and no
// tool changes them.
type Settings struct {
	// Origin is the service's, as in https://api.example.com.
	Origin string `json:"origin"`
	// PayTo and Asset pin the payee and the token, 0x and 40 hex digits; without both nothing is paid.
	PayTo string `json:"payTo,omitempty"`
	Asset string `json:"asset,omitempty"`
	// Mode is human_approval when empty.
	Mode roamcard.Mode `json:"mode,omitempty"`
	// The caps, in US dollar cents; without both nothing is paid.
	MaxPerPaymentUSDCents roamcard.Cents `json:"maxPerPaymentUsdCents,omitempty"`
	MaxPerDayUSDCents     roamcard.Cents `json:"maxPerDayUsdCents,omitempty"`
	// ApproveAboveUSDCents is what policy_gated pays without asking.
	ApproveAboveUSDCents roamcard.Cents `json:"approveAboveUsdCents,omitempty"`
	// Operations are the tools that may pay, as in "buy_esim"; empty is all of them.
	Operations []string `json:"operations,omitempty"`
	// Signer says where the key is; absent is the wallet that the other commands use.
	Signer json.RawMessage `json:"signer,omitempty"`
	// Presenter is "browser", which is the default, or "terminal".
	Presenter string `json:"presenter,omitempty"`
	// Browser is a program that opens a page, with its arguments; empty is the desktop's own.
	Browser []string `json:"browser,omitempty"`
	// Journal is the folder of the journal; empty is the one that all clients share.
	Journal string `json:"journal,omitempty"`
	// RPCURL is a node of Base that the user trusts; it shows the balance, and frees what the chain voids.
	RPCURL string `json:"rpcUrl,omitempty"`
}

// The presenters.
const (
	Browser  = "browser"
	Terminal = "terminal"
)

// operations are the paid tools, by what a policy calls them.
var operations = map[string]string{
	"buy_card": roamcard.OpCard, "top_up_card": roamcard.OpTopup, "buy_esim": roamcard.OpESIM,
}

// maxSettings bounds the settings' file.
const maxSettings = 64 << 10

// ReadSettings reads the settings' file. One that others may read or write, or put another one in the place of, is
// refused: whoever writes it decides what is paid.
func ReadSettings(path string) (Settings, error) {
	data, err := custody.Read(path, custody.NoReaders, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return Settings{}, fmt.Errorf("there are no settings in %s; docs/agents tells what goes into them", path)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read the settings: %w", err)
	}
	var s Settings
	from := json.NewDecoder(bytes.NewReader(data))
	from.DisallowUnknownFields() // a misspelled cap would be no cap
	if err := from.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("read the settings %s: %w", path, err)
	}
	if from.More() {
		return Settings{}, fmt.Errorf("read the settings %s: there is something behind them", path)
	}
	if err := s.check(); err != nil {
		return Settings{}, fmt.Errorf("the settings %s: %w", path, err)
	}
	return s, nil
}

var address = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// check finds what is wrong with the settings; that something is missing to pay is not wrong, see refusal.
func (s Settings) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	u, err := url.Parse(s.Origin)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
		wrong("origin %q is not an origin like https://api.example.com", s.Origin)
	}
	for name, value := range map[string]string{"payTo": s.PayTo, "asset": s.Asset} {
		if value != "" && !address.MatchString(value) {
			wrong("%s %q is not 0x and 40 hex digits", name, value)
		}
	}
	switch s.Mode {
	case "", roamcard.HumanApproval, roamcard.PolicyGated, roamcard.Autonomous:
	default:
		wrong("mode %q is not human_approval, policy_gated or autonomous", s.Mode)
	}
	if min(s.MaxPerPaymentUSDCents, s.MaxPerDayUSDCents, s.ApproveAboveUSDCents) < 0 {
		wrong("a cap is below zero")
	}
	for _, name := range s.Operations {
		if operations[name] == "" {
			wrong("operation %q is not buy_card, top_up_card or buy_esim", name)
		}
	}
	if s.Presenter != "" && s.Presenter != Browser && s.Presenter != Terminal {
		wrong("presenter %q is not browser or terminal", s.Presenter)
	}
	return errors.Join(errs...)
}

// refusal says why nothing is paid under these settings; empty when something is.
func (s Settings) refusal() string {
	var missing []string
	for name, there := range map[string]bool{
		"payTo": s.PayTo != "", "asset": s.Asset != "", "maxPerPaymentUsdCents": s.MaxPerPaymentUSDCents > 0,
		"maxPerDayUsdCents": s.MaxPerDayUSDCents > 0,
	} {
		if !there {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	slices.Sort(missing)
	return "the settings lack " + strings.Join(missing, ", ") +
		", so nothing is paid; only the user can add them, in their file"
}

// policy is what the client pays by. Without pins and caps it is the zero policy, which denies everything.
func (s Settings) policy() roamcard.Policy {
	if s.refusal() != "" {
		return roamcard.Policy{PayTo: s.PayTo, Asset: s.Asset}
	}
	p := roamcard.Policy{
		Mode: s.Mode, MaxPerPayment: s.MaxPerPaymentUSDCents, MaxPerDay: s.MaxPerDayUSDCents,
		ApproveAbove: s.ApproveAboveUSDCents,
		PayTo:        s.PayTo, Asset: s.Asset,
	}
	if p.Mode == "" {
		p.Mode = roamcard.HumanApproval
	}
	for _, name := range s.Operations {
		p.Operations = append(p.Operations, operations[name])
	}
	return p
}
