package app_test

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/secret"
)

// reached are addresses of other machines that are not encrypted or not verified, by what is told of them, with the
// setting that has each. The host of all is db.internal.
func reached() map[string]map[string]string {
	all := map[string]map[string]string{
		"chain.rpc_url, number 2": {"chain.rpc_url": "https://a.example,http://hunter2:hunter2@db.internal:8545/hunter2"},
		"chain.explorer":          {"chain.explorer": "http://db.internal"},
		"chain.public_node":       {"chain.public_node": "http://db.internal"},
		"facilitator.url":         {"facilitator.url": "http://db.internal/v2"},
		"oidc.issuer": {
			"oidc.issuer": "http://db.internal", "oidc.audience": "roamcard", "oidc.roles": "ops=admin",
		},
		"screening.url":                      {"screening.url": "http://db.internal", "screening.key": "hunter2"},
		"screening.lists":                    {"screening.lists": "https://a.example/l,http://db.internal/l?key=hunter2"},
		"relayer.keys, number 1":             {"relayer.keys": "web3signer:http://db.internal:9000#" + account},
		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://hunter2@db.internal:4318"},
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT":   {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://db.internal:4318/hunter2"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://db.internal:4318"},
		"database.listen_url":                {"database.listen_url": "postgres://u:hunter2@db.internal/d"},
	}
	for what, url := range map[string]string{
		"":           "postgres://u:hunter2@db.internal:5432/d",
		"prefer":     "postgres://u:hunter2@db.internal/d?sslmode=prefer",
		"allow":      "postgres://u:hunter2@db.internal/d?sslmode=allow",
		"disable":    "postgres://u:hunter2@db.internal/d?sslmode=disable",
		"require":    "postgres://u:hunter2@db.internal/d?sslmode=require",
		"two":        "postgres://u:hunter2@127.0.0.1:5432,db.internal:5432/d",
		"key words":  "host=db.internal user=u password=hunter2 dbname=d",
		"a name too": "host=db.internal user=u password=hunter2 dbname=d sslmode=require",
	} {
		all["database.url"+strings.Repeat(" ", len(what))] = map[string]string{"database.url": url}
	}
	return all
}

const account = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"

// TestProductionReachesOthersByTLSAlone, but this machine and the hosts that are named; and says which setting is not.
func TestProductionReachesOthersByTLSAlone(t *testing.T) {
	load := func(more ...map[string]string) error { return loadWithout(t, app.Production, more...) }
	onLoopback := func(of map[string]string) map[string]string {
		all := map[string]string{}
		for key, value := range of {
			all[key] = strings.ReplaceAll(value, "db.internal", "127.0.0.1")
		}
		return all
	}
	for told, more := range reached() {
		told = strings.TrimSpace(told)
		err := load(more)
		if err == nil || !strings.HasPrefix(err.Error(), told) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v, want only %s told, and no secret", more, err, told)
		}
		for what, well := range map[string]map[string]string{
			"on this machine": onLoopback(more),
			"named":           {"network.plaintext_hosts": "other.internal, DB.internal"},
		} {
			if err := load(more, well); err != nil {
				t.Errorf("%v, %s: %v", more, what, err)
			}
		}
		if err := load(more, map[string]string{"network.plaintext_hosts": "internal"}); err == nil {
			t.Errorf("%v: another host is named, and nothing is told", more)
		}
	}
	for _, url := range []string{
		"postgres://u:p@db.internal/d?sslmode=verify-full", "postgres://u:p@db.internal/d?sslmode=verify-ca",
		"postgres:///d?host=/var/run/postgresql", "host=/var/run/postgresql dbname=d", "postgres://u:p@localhost/d",
		"postgres://u:p@[::1]/d",
	} {
		if err := load(map[string]string{"database.url": url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	off := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://db.internal", "OTEL_SDK_DISABLED": "true"}
	if err := load(off); err != nil {
		t.Errorf("telemetry that is off: %v", err)
	}
}

func TestSandboxMayReachOthersWithoutTLS(t *testing.T) {
	for told, more := range reached() {
		// Who signs, and who is not served, is no play in a sandbox.
		strict := strings.HasPrefix(told, "relayer.keys") || told == "screening.lists"
		if err := loadWithout(t, app.Sandbox, more); (err != nil) != strict {
			t.Errorf("%s: %v", told, err)
		}
	}
}

// loadWithout reads a configuration, and variables of telemetry, of an environment.
func loadWithout(t *testing.T, environment string, more ...map[string]string) error {
	t.Helper()
	all := productionSettings("stripe", "esim-go")
	all["environment"] = environment
	for _, m := range more {
		maps.Copy(all, m)
	}
	t.Setenv("OTEL_SDK_DISABLED", "")
	for _, name := range []string{"", "TRACES_", "METRICS_", "LOGS_"} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name+"ENDPOINT", "")
	}
	for key, value := range all {
		if strings.HasPrefix(key, "OTEL_") {
			t.Setenv(key, value)
			delete(all, key)
		}
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = app.LoadFile(path)
	return err
}

func TestPlaintextHostsAreHosts(t *testing.T) {
	for text, want := range map[string]bool{
		"db.internal": true, "db.internal, 10.0.0.7,fd00::7": true,
		"*": false, "*.internal": false, "db.internal:5432": false, "http://db.internal": false, "10.0.0.0/8": false,
		"a,,b": false, "[fd00::7]": false,
	} {
		all := settlementSettings(map[string]string{"relayer.keys": "0x01", "network.plaintext_hosts": text})
		if _, err := settlementLoad(all); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestMigrationGoesByTLSAlone: it needs the database alone, whatever else is not set.
func TestMigrationGoesByTLSAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(file, []byte("database.url: postgres://u:hunter2@db.invalid/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := app.Migrate(t.Context(), file, &bytes.Buffer{})
	for what, err := range map[string]error{"migrate": err, "status": app.MigrationStatus(t.Context(), file)} {
		if err == nil || !strings.Contains(err.Error(), "database.url: the certificate of db.invalid is not verified") ||
			strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "base_url") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestConfigurationNeverShowsSecrets: of no setting do `config show` and `config check` quote what may be secret in a
// URL, and of those that are secrets nothing.
func TestConfigurationNeverShowsSecrets(t *testing.T) {
	const hidden = "hunter2"
	var keys []struct{ Key, Env, Help string }
	var out bytes.Buffer
	if err := app.ShowConfig("", true, &out); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(out.Bytes(), &keys); err != nil || len(keys) < 100 {
		t.Fatalf("%d settings, %v", len(keys), err)
	}
	secrets := 0
	for _, value := range []string{
		"https://user:hunter2@a.example",
		"https://a.example/v2/hunter2hunter2hunter2/x?y=hunter2#hunter2,https://hunter2@b.example",
		"https://user:hunter2,hunter2@a.example", "https://user:hunter2 hunter2@a.example",
		"https://user:hun\"hunter2@a.example", "postgres://user:hunter2@a.example:x/d", "ftp://hunter2:x@a.example",
		"hunter2:hunter2", hidden,
	} {
		isURL := strings.Contains(value, "://")
		file := map[string]string{}
		for _, s := range keys {
			file[s.Key] = value
		}
		text, err := yaml.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "roamcard.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, asJSON := range []bool{true, false} {
			var shown, checked bytes.Buffer
			if err := app.ShowConfig(path, asJSON, &shown); err != nil {
				t.Fatal(err)
			}
			if err := app.CheckConfig(path, asJSON, &checked); !errors.Is(err, app.ErrNotReady) {
				t.Errorf("%v", err)
			}
			if isURL && strings.Contains(shown.String()+checked.String(), hidden) {
				t.Errorf("%s shows:\n%s", value, linesWith(hidden, shown.String()+checked.String()))
			}
			if !asJSON {
				continue
			}
			var all []struct{ Key, Value string }
			if err := yaml.Unmarshal(shown.Bytes(), &all); err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				if s.Value == "[redacted]" && value == hidden {
					secrets++
				}
			}
		}
	}
	if secrets < 15 {
		t.Errorf("only %d settings are secrets", secrets)
	}
}

func linesWith(text, in string) string {
	var found []string
	for line := range strings.Lines(in) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// TestReconcileHandsItsTokenToNobodyElse: a redirect is an answer.
func TestReconcileHandsItsTokenToNobodyElse(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with the token %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		asked := ""
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("Authorization")
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}))
		err := app.Reconcile(t.Context(), app.ReconcileConfig{
			URL: service.URL, Token: secret.New("hunter2"), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		})
		service.Close()
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) || asked != "Bearer hunter2" {
			t.Errorf("%d: asked with %q, %v", status, asked, err)
		}
	}
}
