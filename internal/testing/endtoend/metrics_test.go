package endtoend_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// startTelemetry is the telemetry of one test's program.
func startTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	out, err := telemetry.Start(t.Context(), "roamcard", app.Version, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDashboardAndAlertMetricsAreExported reads the dashboard and the alerts and finds every metric they name, and
// every label, after a purchase and all that goes with it.
func TestDashboardAndAlertMetricsAreExported(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 7_000_000, plan{telemetry: startTelemetry(t), change: func(c *app.Config) {
		c.MetricsAddr, c.ReconcileEvery = "127.0.0.1:0", time.Second
		c.Limits = limit.Rates{limit.Events: {Count: 2, Per: time.Hour}}
	}})
	w.awaitEsimReady(nil)
	b := w.buyer()
	terms := w.esimTerms("watched-esim")
	var travels esimOrder
	w.send(esimPurchase("watched-esim", b.esimPayment(terms))).into(t, 200, &travels)
	var price float64
	if err := json.Unmarshal([]byte(terms.Accepts[0].Amount), &price); err != nil {
		t.Fatal(err)
	}
	held := strconv.FormatFloat(25_000_000+price, 'g', -1, 64)
	w.send(purchase("watched", "")).into(t, 402, nil)
	payment := header(t, b.payment())
	w.send(purchase("watched", payment)).into(t, 200, nil)
	w.send(purchase("watched", payment)).into(t, 200, nil)
	w.awaitSettled()
	b.signIn()
	b.post("/api/cards/00000000-0000-4000-8000-000000000000/reveal",
		revealBody("00000000-0000-4000-8000-000000000000", b.sign("x")))
	for range 3 {
		w.send(post("/api/events", eventBody(nil)))
	}
	w.mine(4) // so that what was paid is final, and accounted for
	var page string
	eventually(t, func() (bool, string) {
		page = scrape(t, w.instances[0].metrics)
		missing := ""
		for _, late := range []string{"reconciliation_age_seconds", "relayer_payment_gwei_count 2"} {
			if !strings.Contains(page, "\n"+late) {
				missing += " " + late
			}
		}
		return missing == "", "not shown:" + missing
	})
	wantDashboardMetrics(t, page)
	for name, secret := range map[string]string{
		"the wallet":         strings.ToLower(b.address.String()),
		"the address":        "127.0.0.1",
		"the token":          b.token,
		"the delivery token": travels.Delivery.Token,
		"the eSIM's order":   travels.OrderID,
		"the key":            "watched",
	} {
		if strings.Contains(strings.ToLower(page), strings.ToLower(secret)) {
			t.Errorf("%s is shown in the metrics", name)
		}
	}
	for _, line := range []string{
		`payment_settlements_total{outcome="paid",product="card_issue"} 1`, `payment_replays_total{product="card_issue"} 1`,
		`payment_challenges_total{product="card_issue"} 1`,
		`payment_settlements_total{outcome="unknown",product="card_topup"} 0`,
		`chain_node_answers_total{node="1",outcome="contradicted"} 0`,
		`order_transitions_total{from="provisioning",product="card_issue",to="fulfilled"} 1`,
		`auth_challenges_total{outcome="verified"} 1`, `reveal_attempts_total{outcome="refused"} 1`,
		`activity_events_total{outcome="accepted"} 2`,
		`http_server_rate_limited_total{class="events"} 1`, `treasury_balance{asset="USD Coin"} ` + held,
		`esim_inline_wait_duration_seconds_count{outcome="delivered"} 1`,
		`refund_treasury_balance{asset="USD Coin",treasury="` + w.treasury.String() + `"} 7e+06`,
		`job_class_age_seconds{class="settle"} 0`,
		`job_parked{kind="order_fulfill",reason="gave_up"} 0`, `readiness_check{check="chain",product="card_issue"} 1`,
		`readiness_check{check="sale",product="esim"} 1`, `db_pool_max_connections 8`,
		`order_settlement_duration_seconds_count{product="card_issue"} 1`,
		`order_delivery_duration_seconds_count{outcome="fulfilled",product="esim"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%s is not shown", line)
		}
	}
}

// wantDashboardMetrics checks a metrics page for all that the dashboard and the alerts name: each metric, with each of
// the labels that a query asks of it, and in legends and summaries only labels that the query's answer has.
func wantDashboardMetrics(t *testing.T, page string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool says of the page: %v, %v", problems, err)
	}
	for _, q := range slices.Concat(dashboardQueries(t), alertQueries(t)) {
		for metric, labels := range metricsIn(q.expr) {
			if !regexp.MustCompile(`(?m)^` + metric + `[{ ]`).MatchString(page) {
				t.Errorf("%s of %q is not shown", metric, q.expr)
				continue
			}
			for _, label := range labels {
				shown := regexp.MustCompile(`(?m)^` + metric + `\{(.*,)?` + label + `="`)
				if !shown.MatchString(page) && label != scraped {
					t.Errorf("%s has no label %s, which %q needs", metric, label, q.expr)
				}
			}
		}
		kept := groupingIn(q.expr)
		for _, told := range placeholders.FindAllStringSubmatch(q.text, -1) {
			if label := told[1]; !slices.Contains(kept, label) && (label != scraped || len(kept) > 0) {
				t.Errorf("the answer of %q has no label %s for %q", q.expr, label, q.text)
			}
		}
	}
}

// TestCallersCannotCreateMetricSeries sends what would make a series each, if anything a caller says were one.
func TestCallersCannotCreateMetricSeries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{telemetry: startTelemetry(t), change: func(c *app.Config) { c.MetricsAddr = "127.0.0.1:0" }})
	series := func() int {
		n := 0
		for line := range strings.Lines(scrape(t, w.instances[0].metrics)) {
			if strings.HasPrefix(line, "http_server_") || strings.HasPrefix(line, "rpc_server_") {
				n++
			}
		}
		return n
	}
	ask := func(i string) {
		for _, r := range []request{
			{method: "GET", path: "/nowhere/" + i}, {method: "X" + i, path: "/health"},
			{method: "GET", path: "/api/cards/" + i + "/balance"},
			{method: "GET", path: "/health?x=" + i, header: map[string]string{"Host": "h" + i + ".example", "User-Agent": i}},
			{path: "/roamcard.v1.CardService/" + i},
			{path: "/roamcard.v1.RuntimeService/GetConfig", body: "{}", header: map[string]string{"Host": "h" + i}},
		} {
			if a := w.send(r); a.err != nil {
				t.Fatal(a.err)
			}
		}
	}
	ask("a")
	before := series()
	for _, i := range []string{"b", "c", "d", "e"} {
		ask(i)
	}
	if after := series(); after != before || before == 0 {
		t.Errorf("%d series became %d", before, after)
	}
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %v", res.StatusCode, err)
	}
	return string(page)
}

// query is an expression of PromQL, and what is said of its answer.
type query struct{ expr, text string }

func dashboardQueries(t *testing.T) (all []query) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	readDocument(t, "dashboard.json", json.Unmarshal, &d)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{target.Expr, target.LegendFormat})
		}
	}
	if len(all) < 15 {
		t.Fatalf("%d panels", len(all))
	}
	return all
}

func alertQueries(t *testing.T) (all []query) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Runbook string }
			}
		}
	}
	readDocument(t, "alerts.yml", yaml.Unmarshal, &rules)
	runbook, err := os.ReadFile("../../../docs/operations/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, query{r.Expr, r.Annotations.Summary})
			if !strings.Contains(string(runbook), "## "+r.Alert+"\n") || r.Annotations.Runbook != "alerts.md#"+
				strings.ToLower(r.Alert) {
				t.Errorf("%s has no section in the runbook", r.Alert)
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

func readDocument(t *testing.T, name string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	raw, err := os.ReadFile("../../../docs/operations/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// scraped is the label that Prometheus adds to all that it reads.
const scraped = "instance"

var (
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
	// Functions have a parenthesis after their names.
	selectors    = regexp.MustCompile(`([a-z][a-z0-9_]*_[a-z0-9_]+)(\s*\(|\{([^}]*)\})?`)
	matcherNames = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	placeholders = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// metricsIn are the metrics of a PromQL expression, each with the labels by which it is chosen and grouped.
func metricsIn(expr string) map[string][]string {
	all, grouped := map[string][]string{}, groupingIn(expr)
	bare := ranges.ReplaceAllString(grouping.ReplaceAllString(expr, ""), "")
	for _, m := range selectors.FindAllStringSubmatch(bare, -1) {
		if strings.HasSuffix(m[2], "(") {
			continue
		}
		labels := slices.Clone(grouped)
		for _, matcher := range matcherNames.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, matcher[1])
		}
		all[m[1]] = append(all[m[1]], labels...)
	}
	return all
}

// groupingIn are the labels that the answer of a PromQL expression is grouped by.
func groupingIn(expr string) (all []string) {
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[2], ",") {
			all = append(all, strings.TrimSpace(label))
		}
	}
	return all
}
