// Command evaluate evaluates Prometheus' alerting rules as Prometheus does, with its own packages, over metrics pages
// whose times the caller chooses. It reads JSON, one object for each scrape:
//
//	{"at": "2026-01-02T15:04:05Z", "instance": "a:9102", "page": "# TYPE …"}
//
// and answers each with the alerts that are then firing or pending, as an object in a line. A page that is null is a
// scrape that failed. With -test it runs a file of unit tests of rules instead, as `promtool test rules` does.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2:
		err = run(context.Background(), os.Args[1], os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "-test":
		err = runUnitTests(context.Background(), os.Args[2], os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, "usage: evaluate RULES, or evaluate -test TESTS")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "evaluate:", err)
		os.Exit(1)
	}
}

// interval is how often rules are evaluated; it decides nothing here, because each scrape is followed by an evaluation.
const interval = 15 * time.Second

func run(ctx context.Context, file string, in io.Reader, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "evaluate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	quiet := slog.New(slog.DiscardHandler)
	db, err := tsdb.Open(dir, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	grammar := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: grammar,
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, db), AppendableV2: db, Queryable: db, Context: ctx, Logger: quiet,
		Parser: grammar, NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	w := &watch{db: db, shown: map[string]map[string]labels.Labels{}}
	for _, name := range slices.Sorted(keys(groups)) {
		w.groups = append(w.groups, groups[name])
	}
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var s scrape
		if err := read.Decode(&s); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a scrape: %w", err)
		}
		state, err := w.see(ctx, s)
		if err != nil {
			return err
		}
		if err := write.Encode(state); err != nil {
			return err
		}
	}
}

func keys[V any](of map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range of {
			if !yield(k) {
				return
			}
		}
	}
}

// scrape is a metrics page and when it was read.
type scrape struct {
	At       time.Time `json:"at"`
	Instance string    `json:"instance"`
	Page     *string   `json:"page"`
}

// alert is one that is active.
type alert struct {
	Name   string            `json:"name"`
	Firing bool              `json:"firing"`
	Labels map[string]string `json:"labels"`
	// Since is when its expression first held.
	Since time.Time `json:"since"`
}

// watch is the state of the rules.
type watch struct {
	db     *tsdb.DB
	groups []*rules.Group
	// shown are the series of each instance's last page: those that are gone from the next one end.
	shown map[string]map[string]labels.Labels
}

// see stores a scrape and evaluates all rules at its time.
func (w *watch) see(ctx context.Context, s scrape) ([]alert, error) {
	if err := w.store(ctx, s); err != nil {
		return nil, fmt.Errorf("store the page of %s: %w", s.Instance, err)
	}
	active := []alert{}
	for _, g := range w.groups {
		g.Eval(ctx, s.At)
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				return nil, fmt.Errorf("evaluate %s: %w", r.Name(), err)
			}
			rule, ok := r.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, a := range rule.ActiveAlerts() {
				active = append(active, alert{
					Name: rule.Name(), Firing: a.State == rules.StateFiring, Labels: a.Labels.Map(), Since: a.ActiveAt,
				})
			}
		}
	}
	slices.SortFunc(active, func(a, b alert) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)))
	})
	return active, nil
}

// store appends the samples of a page, and ends the series that it does not show any more.
func (w *watch) store(ctx context.Context, s scrape) error {
	samples, err := parse(s)
	if err != nil {
		return err
	}
	app := w.db.Appender(ctx)
	now := map[string]labels.Labels{}
	for _, one := range samples {
		of := labelsOf(one.Metric, s.Instance)
		now[of.String()] = of
		if _, err := app.Append(0, of, s.At.UnixMilli(), float64(one.Value)); err != nil {
			return errors.Join(err, app.Rollback())
		}
	}
	for name, of := range w.shown[s.Instance] {
		if _, still := now[name]; still {
			continue
		}
		if _, err := app.Append(0, of, s.At.UnixMilli(), stale()); err != nil {
			return errors.Join(err, app.Rollback())
		}
	}
	w.shown[s.Instance] = now
	return app.Commit()
}

// parse reads a page in the text format, and adds what Prometheus notes about the scrape itself.
func parse(s scrape) (model.Vector, error) {
	up := &model.Sample{Metric: model.Metric{model.MetricNameLabel: "up"}, Value: 1}
	if s.Page == nil {
		up.Value = 0
		return model.Vector{up}, nil
	}
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(strings.NewReader(*s.Page))
	if err != nil {
		return nil, err
	}
	all := model.Vector{up}
	for _, f := range families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(s.At.UnixNano())}, f)
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// labelsOf are the labels of a sample with those of its target.
func labelsOf(m model.Metric, instance string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for name, text := range m {
		if name == "job" || name == "instance" {
			name = "exported_" + name
		}
		b.Set(string(name), string(text))
	}
	return b.Set("job", "roamcard").Set("instance", instance).Labels()
}

// stale is the value that ends a series.
func stale() float64 { return math.Float64frombits(value.StaleNaN) }
