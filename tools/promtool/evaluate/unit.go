package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"
)

// unitTests is a file of unit tests as promtool reads it, with the fields that ours uses; any other is an error.
type unitTests struct {
	RuleFiles []string       `yaml:"rule_files"`
	Interval  model.Duration `yaml:"evaluation_interval"`
	Tests     []unitTest     `yaml:"tests"`
}

// unitTest says which alerts fire at which times, by series that are given.
type unitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Input    []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []expectation `yaml:"alert_rule_test"`
}

// expectation is how one alert stands at one time.
type expectation struct {
	Alert string         `yaml:"alertname"`
	At    model.Duration `yaml:"eval_time"`
	Fires []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// runUnitTests runs a file of unit tests as `promtool test rules` does, whose own package cannot be imported and needs
// the clients of every cloud. It says what differs, and counts the expectations.
func runUnitTests(ctx context.Context, file string, out io.Writer) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all unitTests
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		return err
	}
	for i, rules := range all.RuleFiles {
		all.RuleFiles[i] = filepath.Join(filepath.Dir(file), rules)
	}
	if all.Interval == 0 || len(all.RuleFiles) == 0 || len(all.Tests) == 0 {
		return errors.New("the file names no rules, no interval or no tests")
	}
	var wrong []error
	count := 0
	for _, test := range all.Tests {
		if err := test.run(ctx, all); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", test.Name, err))
		}
		count += len(test.Alerts)
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d tests, %d expectations\n", len(all.Tests), count)
	return err
}

// run evaluates the rules from the beginning to the last time that is asked about.
func (t unitTest) run(ctx context.Context, of unitTests) (err error) {
	grammar := parser.NewParser(parser.Options{})
	var load bytes.Buffer
	fmt.Fprintf(&load, "load %s\n", time.Duration(t.Interval))
	for _, in := range t.Input {
		fmt.Fprintf(&load, "  %s %s\n", in.Series, in.Values)
	}
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: grammar,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, suite.Close()) }()
	options := &rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(),
		Context: ctx, Logger: slog.New(slog.DiscardHandler), Parser: grammar,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Metrics: rules.NewGroupMetrics(nil),
	}
	groups, errs := rules.NewManager(options).LoadGroups(
		time.Duration(t.Interval), labels.EmptyLabels(), "", nil, false, of.RuleFiles...)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// No rule reads what another one writes, so only those that are asked about are evaluated.
	group := rules.NewGroup(rules.GroupOptions{
		Name: t.Name, Interval: time.Duration(t.Interval), Rules: t.asked(groups), Opts: options,
	})
	begin, step := time.Unix(0, 0).UTC(), time.Duration(of.Interval)
	var wrong []error
	for at := time.Duration(0); at <= t.end(); at += step {
		suite.WithSamplesTill(begin.Add(at), func(failed error) { err = failed })
		if err != nil {
			return err
		}
		group.Eval(ctx, begin.Add(at))
		for _, want := range t.Alerts {
			if asked := time.Duration(want.At); at <= asked && asked < at+step {
				wrong = append(wrong, want.compare(group.Rules()))
			}
		}
	}
	return errors.Join(wrong...)
}

// end is the last time that is asked about.
func (t unitTest) end() (last time.Duration) {
	for _, a := range t.Alerts {
		last = max(last, time.Duration(a.At))
	}
	return last
}

// asked are the rules that the test asks about.
func (t unitTest) asked(groups map[string]*rules.Group) (all []rules.Rule) {
	for _, g := range groups {
		for _, r := range g.Rules() {
			if slices.ContainsFunc(t.Alerts, func(e expectation) bool { return e.Alert == r.Name() }) {
				all = append(all, r)
			}
		}
	}
	return all
}

// compare says how the alerts that fire differ from those that should.
func (e expectation) compare(all []rules.Rule) error {
	var want, got []string
	for _, f := range e.Fires {
		named := map[string]string{labels.AlertName: e.Alert}
		maps.Copy(named, f.Labels)
		want = append(want, labels.FromMap(named).String()+" "+labels.FromMap(f.Annotations).String())
	}
	known := false
	for _, r := range all {
		rule, ok := r.(*rules.AlertingRule)
		if !ok || rule.Name() != e.Alert {
			continue
		}
		if known = true; rule.LastError() != nil {
			return fmt.Errorf("evaluate %s: %w", e.Alert, rule.LastError())
		}
		for _, a := range rule.ActiveAlerts() {
			if a.State == rules.StateFiring {
				got = append(got, a.Labels.String()+" "+a.Annotations.String())
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	switch {
	case !known:
		return fmt.Errorf("there is no alert %s", e.Alert)
	case !slices.Equal(want, got):
		return fmt.Errorf("at %s %s fires as\n  %s\nand should as\n  %s", time.Duration(e.At), e.Alert,
			strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return nil
}
