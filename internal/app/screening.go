package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/provider/chainalysis"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// ScreeningConfig is who says which payers are not served. Without lists and key nobody does.
type ScreeningConfig struct {
	// Lists are where lists of addresses are read from.
	Lists []screening.Source
	// RefreshEvery is how often they are read, and MaxAge for how long one may go unread.
	RefreshEvery, MaxAge time.Duration
	// URL and Key reach the screening service.
	URL string
	Key secret.Text
	// Strict serves nobody who cannot be screened, as production always does.
	Strict bool
}

const (
	defaultScreeningRefresh = time.Hour
	defaultScreeningMaxAge  = 24 * time.Hour
)

func screeningSettings() []setting {
	at := func(c *Config) *ScreeningConfig { return &c.Screening }
	return []setting{
		{key: "screening.lists", help: "files or https URLs of addresses that are not served, separated by commas: text, " +
			"JSON or the SDN list of OFAC", byDefault: none, set: sources},
		{key: "screening.refresh_every", help: "how often these lists are read, at least 1s",
			byDefault: defaultScreeningRefresh.String(),
			set:       atLeast(time.Second, func(c *Config) *time.Duration { return &at(c).RefreshEvery })},
		{key: "screening.max_age", help: "for how long a list may go unread before nothing is sold in production",
			byDefault: defaultScreeningMaxAge.String(),
			set:       duration(func(c *Config) *time.Duration { return &at(c).MaxAge })},
		{key: "screening.url", help: "the sanctions screening API of Chainalysis", byDefault: chainalysis.DefaultURL,
			set: func(c *Config, s string) (err error) { at(c).URL, err = origin(s); return err }},
		{key: "screening.key", help: "its API key; every payer is asked for, when it is set", secret: true, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &at(c).Key })},
	}
}

func sources(c *Config, s string) error {
	names := map[string]bool{}
	var wrong []error
	n := 0
	for location := range strings.SplitSeq(s, ",") {
		n++
		source, err := screening.ParseSource(strings.TrimSpace(location), c.strictRule())
		if err != nil {
			wrong = append(wrong, fmt.Errorf("number %d: %w", n, err))
			continue
		}
		if names[source.Name()] {
			wrong = append(wrong, fmt.Errorf("number %d: %s is there twice", n, source.Name()))
		}
		names[source.Name()] = true
		c.Screening.Lists = append(c.Screening.Lists, source)
	}
	return errors.Join(wrong...)
}

func (c Config) screeningMistakes() []error {
	var wrong []error
	if s := c.Screening; s.MaxAge > 0 && s.MaxAge <= s.RefreshEvery {
		wrong = append(wrong, errors.New("screening.max_age: must be longer than screening.refresh_every"))
	}
	return wrong
}

// newScreening says which payers are not served; nil when nobody does.
func (a *App) newScreening() (*screening.Screening, error) {
	c := a.config.Screening
	if len(c.Lists) == 0 && c.Key.IsZero() {
		return nil, nil
	}
	s := screening.Config{
		Store: a.store.Screening(), Lists: c.Lists, MaxAge: cmp.Or(c.MaxAge, defaultScreeningMaxAge),
		Strict: c.Strict || a.config.Environment == Production, Log: a.log, Now: a.config.now,
	}
	if !c.Key.IsZero() {
		service, err := chainalysis.New(chainalysis.Config{
			URL: c.URL, Rule: a.config.rule(), Key: c.Key, HTTP: a.config.Outside.HTTP,
		})
		if err != nil {
			return nil, fmt.Errorf("make the client of the screening service: %w", err)
		}
		s.Service = service
	}
	return screening.New(s), nil
}

// screeningArgs reads the lists of addresses that are not served.
type screeningArgs struct{}

// Kind implements job.Args.
func (screeningArgs) Kind() job.Kind { return "screening_refresh" }

// registerScreening adds the periodic job that reads the lists. One that cannot be read is read again in the next
// period; the ready route tells when it is stale.
func (a *App) registerScreening(s *screening.Screening) {
	if s == nil || len(s.Lists) == 0 {
		return
	}
	a.runner.Register(screeningArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		if err := s.Refresh(ctx); err != nil {
			a.log.WarnContext(ctx, "screening lists not read", slog.Any("error", err))
		}
		return job.Done(), nil
	})
	a.runner.Every(cmp.Or(a.config.Screening.RefreshEvery, defaultScreeningRefresh), screeningArgs{})
}

// ExamineScreening reads the lists, and asks the screening service about an address that nobody has.
func (c Config) ExamineScreening(ctx context.Context) (all []Examination) {
	for _, source := range c.Screening.Lists {
		addresses, err := source.Read(ctx)
		all = append(all, Examination{
			Name: "screening list", Detail: fmt.Sprintf("%s, %d addresses", source.Name(), len(addresses)), Err: err,
			Fix: "check screening.lists",
		})
	}
	if c.Screening.Key.IsZero() {
		return all
	}
	service, err := chainalysis.New(chainalysis.Config{URL: c.Screening.URL, Rule: c.rule(), Key: c.Screening.Key})
	if err == nil {
		_, err = service.Sanctioned(ctx, x402.Address{})
	}
	return append(all, Examination{
		Name: "screening service", Detail: "answers", Err: err, Fix: "check screening.url and screening.key",
	})
}
