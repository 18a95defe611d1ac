package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// ErrDifference says that the books do not agree.
var ErrDifference = errors.New("the books differ")

// reconcileArgs are the arguments of the job that compares the books.
type reconcileArgs struct{}

// Kind implements job.Args.
func (reconcileArgs) Kind() job.Kind { return "reconcile" }

// newReconciler compares the books of the configured payee.
func (a *App) newReconciler() *reconcile.Reconciler {
	books := a.store.Treasury(a.config.Asset, a.config.PayTo)
	return reconcile.New(reconcile.Config{
		Chain: a.chain, Issuers: a.issuersBook().Each(), Providers: a.config.issuerNames(), Arrivals: books, Unread: books,
		Books: books, Reports: books, Unmatched: books,
		PayTo: a.config.PayTo, Now: a.config.now,
	})
}

// registerReconcile adds the periodic comparison, unless its period is zero.
func registerReconcile(r *job.Runner, every time.Duration, with *reconcile.Reconciler, log *slog.Logger) {
	if every == 0 {
		return
	}
	r.Register(reconcileArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		report, err := with.Run(ctx)
		if err != nil {
			return job.Outcome{}, fmt.Errorf("compare the books: %w", err)
		}
		if silent := report.Silent(); len(silent) > 0 {
			log.WarnContext(ctx, "comparison incomplete", slog.Any("silent", silent))
		}
		for _, sum := range report.Sums {
			log.WarnContext(ctx, "books differ", slog.String("code", string(sum.Code)), slog.Int("open", sum.Open),
				slog.Int("blocking", sum.Blocking))
		}
		for _, f := range report.Findings {
			if f.FirstSeen.Before(report.Began) {
				continue
			}
			log.ErrorContext(ctx, "difference found", slog.String("code", string(f.Code)), slog.String("order", f.Order),
				slog.String("subject", f.Subject), slog.String("detail", f.Detail), slog.Bool("blocks", f.Blocks))
		}
		return job.Done(), nil
	})
	r.Every(every, reconcileArgs{})
}

// ReconcileConfig says which books to compare and how to print the report.
type ReconcileConfig struct {
	// File is the configuration of the service; empty reads only the environment.
	File string
	// URL is the origin of a running service that compares its books for the operator with Token.
	URL      string
	Token    secret.Text
	JSON     bool
	Out, Err io.Writer
}

// Reconcile compares the books and prints the report. ErrDifference when there are findings.
func Reconcile(ctx context.Context, c ReconcileConfig) error {
	compare := c.local
	if c.URL != "" {
		compare = c.remote
	}
	report, err := compare(ctx)
	if err != nil {
		return err
	}
	if err := c.print(report); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if report.Open() > 0 {
		return ErrDifference
	}
	return nil
}

// local compares the books of the configured service, in this process.
func (c ReconcileConfig) local(ctx context.Context) (report reconcile.Report, err error) {
	cfg, err := LoadFile(c.File)
	if err != nil {
		return report, fmt.Errorf("configuration:\n%w", err)
	}
	a := &App{config: cfg, log: telemetry.NewLogger(c.Err, cfg.LogLevel, cfg.LogJSON)}
	defer func() { err = errors.Join(err, a.close.all()) }()
	if err := a.openStore(ctx); err != nil {
		return report, err
	}
	if err := a.dialChain(ctx); err != nil {
		return report, err
	}
	if err := a.dialIssuers(); err != nil {
		return report, err
	}
	return a.newReconciler().Run(ctx)
}

// remote asks a running service, such as a development server, whose database only it knows.
func (c ReconcileConfig) remote(ctx context.Context) (report reconcile.Report, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/api/admin/reconcile", nil)
	if err != nil {
		return report, fmt.Errorf("ask the service: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token.Reveal())
	// It compares as long as its callers' requests may take.
	client := outward.New(outward.Config{Rule: outward.Rule{Anywhere: true}, Timeout: 10 * time.Minute})
	res, err := client.Do(req)
	if err != nil {
		return report, fmt.Errorf("ask the service (is it running?): %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return report, fmt.Errorf("read the service's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return report, fmt.Errorf("the service says %s: %s", res.Status, answer)
	}
	if err := json.Unmarshal(answer, &report); err != nil {
		return report, fmt.Errorf("read the service's answer: %w", err)
	}
	return report, nil
}

func (c ReconcileConfig) print(r reconcile.Report) error {
	if c.JSON {
		enc := json.NewEncoder(c.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	k := r.Checked
	lines := []string{
		fmt.Sprintf("blocks %d to %d: %d transfers", r.FirstBlock, r.LastBlock, k.Transfers),
		fmt.Sprintf("looked at %d orders, %d payments, %d postings", k.Orders, k.Payments, k.Postings),
		fmt.Sprintf("at the issuer %d cards, %d movements; holders have spent %s USD", k.Cards, k.Movements, r.SpentUSDCents),
	}
	for _, b := range r.Balances {
		lines = append(lines, fmt.Sprintf("  %-20s %18s USDC", b.Account, b.Units.Dollars()))
	}
	for _, f := range r.Findings {
		about := f.Subject
		if f.Order != "" {
			about = f.Order + ", " + about
		}
		lines = append(lines, fmt.Sprintf("%s: %s\n  %s", f.Code, about, f.Detail))
	}
	for _, t := range r.Resolved {
		lines = append(lines, fmt.Sprintf("resolved as %s: %s\n  %s", t.Resolution, t.Subject, t.Detail))
	}
	for _, s := range r.Sums {
		lines = append(lines, fmt.Sprintf("%6d %s, %d of them block", s.Open, s.Code, s.Blocking))
	}
	if silent := r.Silent(); len(silent) > 0 {
		lines = append(lines, "incomplete: the books of "+strings.Join(silent, ", ")+" could not be read")
	}
	if !r.CompleteAt.IsZero() {
		lines = append(lines, "all that there was at "+r.CompleteAt.Format(time.RFC3339)+" is compared")
	}
	verdict := "the books agree"
	if n := r.Open(); n > 0 {
		verdict = fmt.Sprintf("differences: %d", n)
		if r.Blocks() {
			verdict += "; the sales that they concern stay closed until they are gone or resolved"
		}
	}
	for _, line := range append(lines, verdict) {
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
	}
	return nil
}
