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
	"github.com/roamcard/roamcard/internal/telemetry"
)

// startTelemetry is the telemetry of one test's program.
func startTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	out, err := telemetry.Start(t.Context(), "roamcard", app.Version)
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
	w.awaitSettled(30 * time.Second)
	b.signIn()
	b.post("/api/cards/00000000-0000-4000-8000-000000000000/reveal",
		revealBody("00000000-0000-4000-8000-000000000000", b.sign("x")))
	for range 3 {
		w.send(post("/api/events", eventBody(nil)))
	}
	w.mine(4) // so that what was paid is final, and accounted for
	var page string
	eventually(t, 30*time.Second, func() (bool, string) {
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
		`readiness_check{check="sale",product="esim"} 1`, `db_pool_max_connections 16`,
		`order_settlement_duration_seconds_count{product="card_issue"} 1`,
		`order_delivery_duration_seconds_count{outcome="fulfilled",product="esim"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%s is not shown", line)
		}
	}
}

// wantDashboardMetrics checks a metrics page for all that the dashboard and the alerts name.
func wantDashboardMetrics(t *testing.T, page string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool says of the page: %v, %v", problems, err)
	}
	for _, name := range slices.Concat(dashboardExprs(t), alertExprs(t)) {
		for _, metric := range metricsIn(name) {
			if !regexp.MustCompile(`(?m)^` + metric + `[{ ]`).MatchString(page) {
				t.Errorf("%s of %q is not shown", metric, name)
			}
		}
		for _, label := range labelsIn(name) {
			if !strings.Contains(page, label+`="`) && label != "le" && label != "instance" {
				t.Errorf("label %s of %q is nowhere", label, name)
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

func dashboardExprs(t *testing.T) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	readDocument(t, "dashboard.json", json.Unmarshal, &d)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	if len(all) < 15 {
		t.Fatalf("%d panels", len(all))
	}
	return all
}

func alertExprs(t *testing.T) (all []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Runbook string }
			}
		}
	}
	readDocument(t, "alerts.yml", yaml.Unmarshal, &rules)
	runbook, err := os.ReadFile("../../../docs/operations/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
			if !strings.Contains(string(runbook), "### "+r.Alert+"\n") || r.Annotations.Runbook != "README.md#"+
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

var (
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
	matchers = regexp.MustCompile(`\{([^}]*)\}`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
	names    = regexp.MustCompile(`[a-z][a-z0-9_]*_[a-z0-9_]+(\s*\()?`)
)

// metricsIn are the metrics of a PromQL expression: what is left without groupings, matchers and functions.
func metricsIn(expr string) (all []string) {
	bare := ranges.ReplaceAllString(matchers.ReplaceAllString(grouping.ReplaceAllString(expr, ""), ""), "")
	for _, name := range names.FindAllString(bare, -1) {
		if !strings.HasSuffix(name, "(") {
			all = append(all, name)
		}
	}
	return all
}

func labelsIn(expr string) (all []string) {
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[2], ",") {
			all = append(all, strings.TrimSpace(label))
		}
	}
	for _, m := range matchers.FindAllStringSubmatch(expr, -1) {
		for matcher := range strings.SplitSeq(m[1], ",") {
			all = append(all,
				strings.TrimSpace(strings.FieldsFunc(matcher, func(r rune) bool { return r == '=' || r == '!' || r == '~' })[0]))
		}
	}
	return all
}
