// Package provider is what an adapter of a card issuer or of an eSIM supplier provides to the program: the ports of
// the products as one client, and a registration that says what the adapter is called and how it is configured.
//
// An adapter is a folder below this one, with a client, a function that returns its registration, and a test that
// runs the kit of its port (cardtest.Run or esimtest.Run). The table in internal/app/providers.go names the function,
// in one line. Nothing else in the program knows the adapter.
package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Issuer registers a card issuer.
type Issuer struct {
	Registration
	// ProgrammeKey is the own setting that identifies the programme that cards are opened in; empty where there is none.
	// Cards are stored with its text.
	ProgrammeKey string
	// Dial makes a client of the issuer, and asks it nothing yet. It may be called several times in a process.
	Dial func(Config) (IssuerClient, error)
}

// IssuerClient is a card issuer, as cards and top-ups are sold over it. It is safe for concurrent use.
type IssuerClient interface {
	// Issuer opens cards and moves money, under our references.
	card.Issuer
	// Vault reads balances and credentials.
	card.Vault
	// Stock tells the float and the open ranges.
	card.Stock
	// Lister lists the cards, for those that the issuer locked or terminated.
	card.CardLister
	// Book is all that the issuer opened and moved, which the books are compared with.
	card.Book
	// Traits say what may be done after a call whose outcome is unknown.
	Traits() fulfilment.Traits
	Capabilities() card.Capabilities
}

// Prober is a client that can be tried out.
type Prober interface {
	// Probe makes every call that changes nothing and costs nothing, and says in a few words what it saw.
	Probe(context.Context) (string, error)
}

// Supplier registers an eSIM supplier.
type Supplier struct {
	Registration
	// CallTimeout bounds one call; the program's own if zero.
	CallTimeout time.Duration
	// Dial makes a client of the supplier, and asks it nothing yet. It may be called several times in a process.
	Dial func(Config) (SupplierClient, error)
}

// SupplierClient is an eSIM supplier, as eSIMs are sold over it. It is safe for concurrent use.
type SupplierClient interface {
	// Supplier lists plans and takes orders, under our references.
	esim.Supplier
	// Book is all that was ordered.
	esim.Book
	// Traits say what may be done after a call whose outcome is unknown.
	Traits() fulfilment.Traits
	// Capabilities say what it offers to owners of profiles; where it offers something, it is an esim.Controls.
	Capabilities() esim.Capabilities
	// Probe makes the calls that change nothing and cost nothing, for the doctor, and says in a few words what it saw.
	Probe(ctx context.Context) (string, error)
}

// Registration is what is known of a provider before it is dialled.
type Registration struct {
	// Name chooses the provider in issuer.provider or supplier.provider, and is stored with what it sells: it never
	// changes. With underscores for hyphens, it begins the keys of its own settings.
	Name string
	// Real says that what the provider makes can be used. Any other is refused in production.
	Real bool
	// Settings are its own; nil when there are none. Its URL and key are not among them: they are issuer.url and
	// issuer.key, or supplier.url and supplier.key, or for each of several providers url and key after its name.
	Settings []Setting
	// Validate are those that show only when several settings are seen together; nil when there are none. It is asked
	// only where the provider is chosen.
	Validate func(Config) []error
}

// Setting is one of a provider's own settings.
type Setting struct {
	// Key is its name in the file: "acme.webhook_secret". In the environment it is ROAMCARD_ACME__WEBHOOK_SECRET.
	Key, Help string
	// Default is its text where it is not set. A setting without one has to be set where the provider is chosen, unless
	// it is Optional.
	Default  string
	Optional bool
	// Secret keeps the text out of what is shown.
	Secret bool
	// Check says what is wrong with a text, without quoting a secret. Nil takes any.
	Check func(text string) error
}

// Values are the texts of a provider's own settings, by their keys.
type Values map[string]secret.Text

// Text is the text of a setting; empty when it is not set.
func (v Values) Text(key string) string { return v[key].Reveal() }

// Duration is a setting that CheckDuration has taken; zero when it is not set.
func (v Values) Duration(key string) time.Duration {
	d, err := time.ParseDuration(v.Text(key))
	if err != nil {
		return 0
	}
	return d
}

// Int is a setting that PerSecond has taken; zero when it is not set.
func (v Values) Int(key string) int {
	n, err := strconv.Atoi(v.Text(key))
	if err != nil {
		return 0
	}
	return n
}

// PerSecond is the setting of how many calls a process makes to a vendor in any second, see limit.Quota: most at most.
// Without a default the adapter knows what the account has.
func PerSecond(key, vendor string, usual, most int) Setting {
	s := Setting{
		Key: key, Help: "how many calls one process makes in any second to " + vendor, Optional: usual == 0,
		Check: func(text string) error {
			if n, err := strconv.Atoi(text); err != nil || n < 1 || n > most {
				return fmt.Errorf("must be 1 to %d", most)
			}
			return nil
		},
	}
	if usual != 0 {
		s.Default = strconv.Itoa(usual)
	}
	return s
}

// CheckDuration takes durations above zero, as Setting.Check.
func CheckDuration(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		return errors.New("must be a duration above zero, such as 10m")
	}
	return nil
}

// Config is what a provider is dialled with.
type Config struct {
	// URL is an origin without a slash at the end; that of a supplier may have a path.
	URL string
	Key secret.Text
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// VisibilityDelay is how long after CallTimeout the provider may still take up a call that it did not answer. A
	// provider that has a delay of its own ignores it.
	VisibilityDelay time.Duration
	// Journal keeps what is sent to a supplier that takes no reference of ours. An issuer has none.
	Journal esim.Journal
	// SpendLimits says that cards are to be opened with limits, if the issuer is capable of it.
	SpendLimits bool
	// Production says that the money is real.
	Production bool
	// Own are the provider's own settings.
	Own Values
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	Log  *slog.Logger
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}
