// Package webhook takes what providers send by themselves. An event is verified, stored once and acknowledged; it is
// believed in nothing: it is a reason to read what it is about from its provider. Everything works without events,
// only later.
//
//	POST /api/webhooks/{provider} ─► Verify ─► stored with its job, once ─► 204
//	                                                     │
//	                              the job: read the cards, run the waiting jobs of the owners
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/secret"
)

// MaxBody is the largest body of an event, in bytes: several times what the largest documented one has. Whoever guesses
// the form of a signature makes us hold as much.
const MaxBody = 32 << 10

// Sender is a provider that sends events.
type Sender interface {
	// Signed fails, with ErrForged, unless the headers have the form of a signature of now. It is asked before the body
	// is read.
	Signed(header http.Header, now time.Time) error
	// Verify checks that a request is the provider's, by one of the secrets, and says what it is about. An error that
	// wraps ErrForged says that nothing proves it.
	Verify(header http.Header, body []byte, secrets []secret.Text, now time.Time) (Event, error)
	// CheckSecret says why a text cannot be a secret of the provider's scheme, without quoting it.
	CheckSecret(s secret.Text) error
}

// ErrForged says that nothing proves that a request is its provider's.
var ErrForged = errors.New("the request is not signed by the provider")

// Event is what a provider sent.
type Event struct {
	// ID is the provider's, the same in every delivery of the event.
	ID string
	// Type is the provider's word for what happened; empty when it has none.
	Type  string
	About About
	// Kept is stored in place of a body that says what is not stored in clear; nil stores the body.
	Kept []byte
}

// About is what to read. Both may be empty, and then there is nothing to do.
type About struct {
	// Accounts are the provider's own names of cards or eSIMs.
	Accounts []string `json:"accounts,omitempty"`
	// References are ours.
	References []uuid.UUID `json:"references,omitempty"`
}

// maxAbout bounds what one event is about.
const maxAbout = 100

// Stored is an event as it is kept.
type Stored struct {
	ID         uuid.UUID
	Provider   string
	Event      Event
	Body       []byte
	ReceivedAt time.Time
}

// Store keeps events.
type Store interface {
	// Keep stores an event and queues a job, in one transaction. fresh is false when the provider's event is stored
	// already, and then nothing changes.
	Keep(ctx context.Context, s Stored, then job.New) (fresh bool, err error)
	// WakeJobs makes the jobs due that wait for a provider about these cards and eSIMs.
	WakeJobs(ctx context.Context, a About) (jobs int, err error)
	// Prune deletes at most so many events that were received before a time.
	Prune(ctx context.Context, before time.Time, limit int) (int, error)
}

// Source is a provider whose events are taken. Several secrets are valid while one is replaced.
type Source struct {
	Sender  Sender
	Secrets []secret.Text
}

// Config is what an Inbox is made of.
type Config struct {
	Store Store
	// Sources are the providers, by their names.
	Sources map[string]Source
	// Refresh reads what an event of a provider is about from that provider; nil where there is nothing to read.
	Refresh func(ctx context.Context, provider string, a About) error
	Log     *slog.Logger
	Now     func() time.Time
}

// Inbox takes events.
type Inbox struct{ Config }

// New makes an Inbox.
func New(c Config) *Inbox { return &Inbox{c} }

// Takes is a route_not_found for a provider whose events are not taken, and a webhook_rejected for headers that sign
// nothing. It needs no body.
func (i *Inbox) Takes(ctx context.Context, provider string, header http.Header) error {
	source, known := i.Sources[provider]
	if !known || len(source.Secrets) == 0 {
		return fault.New(fault.RouteNotFound, "No webhooks are taken here.")
	}
	if err := source.Sender.Signed(header, i.Now()); err != nil {
		return i.rejected(ctx, provider, err)
	}
	return nil
}

func (i *Inbox) rejected(ctx context.Context, provider string, why error) error {
	i.Log.WarnContext(ctx, "webhook rejected", slog.String("provider", provider), slog.Any("error", why))
	return fault.New(fault.WebhookRejected, "The request is not signed as an event of the provider.")
}

// Receive takes one request of a provider. It returns once the event is stored; what it is about is read later. A
// provider that is not known, or whose events are not taken, is a route_not_found, and what it did not sign a
// webhook_rejected.
func (i *Inbox) Receive(ctx context.Context, provider string, header http.Header, body []byte) error {
	if err := i.Takes(ctx, provider, header); err != nil {
		return err
	}
	source := i.Sources[provider]
	event, err := source.Sender.Verify(header, body, source.Secrets, i.Now())
	if err != nil {
		return i.rejected(ctx, provider, err)
	}
	if len(event.ID) == 0 || len(event.ID) > 200 {
		return fault.New(fault.WebhookRejected, "The event has no id.")
	}
	if !storable(append([]string{event.ID, event.Type}, event.About.Accounts...)) {
		return fault.New(fault.SchemaInvalid, "The event has characters that no text has, such as U+0000.")
	}
	if event.Kept != nil {
		body = event.Kept
	}
	faultpoint.Reach("webhook.received")
	event.About.Accounts = event.About.Accounts[:min(len(event.About.Accounts), maxAbout)]
	event.About.References = event.About.References[:min(len(event.About.References), maxAbout)]
	stored := Stored{ID: uuid.Must(uuid.NewV7()), Provider: provider, Event: event, Body: body, ReceivedAt: i.Now().UTC()}
	fresh, err := i.Store.Keep(ctx, stored, job.New{
		Args: Args{Provider: provider, About: event.About}, UniqueKey: stored.ID.String(),
	})
	if err != nil {
		i.Log.ErrorContext(ctx, "webhook not stored", slog.String("provider", provider), slog.String("event", event.ID),
			slog.Any("error", err))
		return fmt.Errorf("store the event: %w", err)
	}
	faultpoint.Reach("webhook.stored")
	if fresh {
		i.Log.InfoContext(ctx, "webhook", slog.String("provider", provider), slog.String("type", event.Type))
	}
	return nil
}

// storable reports whether the database takes the texts.
func storable(texts []string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) })
}

// Job is the kind of the jobs that read what events are about.
const Job job.Kind = "webhook"

// Args are the arguments of such a job.
type Args struct {
	Provider string `json:"provider"`
	About    About  `json:"about"`
}

// Kind implements job.Args.
func (Args) Kind() job.Kind { return Job }

// Work handles such a job. It only makes reads happen sooner, so it may run any number of times.
func (i *Inbox) Work(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[Args](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the event: %w", err)
	}
	hurried, err := i.Store.WakeJobs(ctx, a.About)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("hurry the waiting jobs: %w", err)
	}
	if i.Refresh != nil {
		err = i.Refresh(ctx, a.Provider, a.About)
	}
	faultpoint.Reach("webhook.read")
	i.Log.DebugContext(ctx, "webhook read", slog.String("provider", a.Provider), slog.Int("jobs", hurried),
		slog.Any("error", err))
	// A read that failed is made by the periodic job.
	return job.Done(), nil
}
