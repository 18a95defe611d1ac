package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// RecoverConfig says what to recover, and by whom and why.
type RecoverConfig struct {
	// File is the configuration of the service; empty reads only the environment.
	File string
	// Apply applies the plan instead of only printing it. Operator and Reason are for the audit trail.
	Apply            bool
	Operator, Reason string
	// RefundAfter is the age from which a transfer without goods is refunded.
	RefundAfter time.Duration
	JSON        bool
	Out, Err    io.Writer
}

// Recover matches transfers, providers' goods and orders after a restore, and prints the plan. ErrDifference while a
// step is left to do or to decide.
func Recover(ctx context.Context, c RecoverConfig) (err error) {
	cfg, err := LoadFile(c.File)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	if err := armFaults(cfg.Environment, os.LookupEnv); err != nil {
		return err
	}
	plan, err := cfg.Recover(ctx, c, telemetry.NewLogger(c.Err, cfg.LogLevel, cfg.LogJSON))
	if plan.At.IsZero() { // there is none: not everything could be read
		return err
	}
	if told := c.print(plan); told != nil {
		err = errors.Join(err, fmt.Errorf("print the plan: %w", told))
	}
	if err == nil && plan.Open() {
		err = ErrDifference
	}
	return err
}

// Recover is Recover for a configuration that is loaded, and returns the plan instead of printing it.
func (c Config) Recover(ctx context.Context, r RecoverConfig, log *slog.Logger) (plan reconcile.Plan, err error) {
	a := &App{config: c, log: log}
	defer func() { err = errors.Join(err, a.close.all()) }()
	return a.recovered(ctx, r)
}

// recovered reads the chain to its head, then makes the plan, and applies it if configured.
func (a *App) recovered(ctx context.Context, c RecoverConfig) (plan reconcile.Plan, err error) {
	if err := a.openStore(ctx); err != nil {
		return plan, err
	}
	if err := a.dialChain(ctx); err != nil {
		return plan, err
	}
	if err := a.openSettlers(ctx); err != nil {
		return plan, err
	}
	if err := a.dialIssuers(); err != nil {
		return plan, err
	}
	products, err := a.recoverable()
	if err != nil {
		return plan, err
	}
	if err := a.newCatchUp().Once(ctx); err != nil {
		return plan, fmt.Errorf("read the transfers to the payee: %w", err)
	}
	screened, err := a.newScreening()
	if err != nil {
		return plan, err
	}
	r := reconcile.Recovery{
		Products: products, Head: a.chain, RefundAfter: c.RefundAfter, Screen: screened.Screen, Now: a.config.now,
		Books: a.store.Recovery(a.config.Asset, a.config.PayTo, a.config.terms().MaxValidity),
	}
	if plan, err = r.Plan(ctx); err != nil || !c.Apply {
		return plan, err
	}
	return r.Apply(ctx, plan, order.OperatorContext{Operator: c.Operator, Reason: c.Reason})
}

func (c RecoverConfig) print(p reconcile.Plan) error {
	if c.JSON {
		enc := json.NewEncoder(c.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	done, open := 0, 0
	for _, s := range p.Steps {
		mark := "would"
		switch {
		case s.Done:
			mark, done = "done:", done+1
		case s.Act == reconcile.ActLeave || s.Act == reconcile.ActReview:
			mark = "-"
		}
		if !s.Done && s.Act != reconcile.ActLeave {
			open++
		}
		what := s.Detail
		if s.Kind != "" {
			what = fmt.Sprintf("%s %s %s", s.Kind, s.Reference, what)
		}
		line := fmt.Sprintf("%-6s %-7s %s", mark, s.Act, what)
		if s.Transfer != "" {
			line += fmt.Sprintf("\n       %s USDC from %s in %s", s.Amount.Dollars(), s.Payer, s.Transfer)
		}
		if s.Order != "" {
			line += fmt.Sprintf("\n       for %s", s.Order)
		}
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.Out, "%d found, %d done, %d left to do or to decide\n", len(p.Steps), done, open)
	return err
}
