package telemetry

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/outward"
)

// TestCollectorSendsNobodyElsewhere: the exporters' headers may have a key.
func TestCollectorSendsNobodyElsewhere(t *testing.T) {
	var asked, followed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	_ = stopEmitted(out) // which tells that nothing was taken
	if asked.Load() != 3 || followed.Load() != 0 {
		t.Errorf("asked %d times, followed %d redirects", asked.Load(), followed.Load())
	}
}

// stopEmitted makes one record of each signal, and sends them.
func stopEmitted(out *Telemetry) error {
	ctx := context.Background()
	_, span := otel.Tracer("test").Start(ctx, "a step")
	span.End()
	out.Logger(NewLogger(&bytes.Buffer{}, slog.LevelInfo, true)).InfoContext(ctx, "something happened")
	out.Metrics.Settled(ctx, "card_issue", "paid")
	return out.Stop(ctx)
}

// TestCollectorIsKnownByItsCertificate, whose variables are the standard's.
func TestCollectorIsKnownByItsCertificate(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	for _, known := range []bool{false, true} {
		if known {
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
		}
		out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		if err := stopEmitted(out); known && err != nil || (asked.Load() == 3) != known {
			t.Errorf("known %t: asked %d times, %v", known, asked.Load(), err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", file+".gone")
	if _, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{}); err == nil {
		t.Error("a certificate that is not there: no error")
	}
}

func TestVariablesOfTheExportersAreRead(t *testing.T) {
	out := &Telemetry{}
	for text, want := range map[string]time.Duration{"": 10 * time.Second, "2500": 2500 * time.Millisecond, "soon": 0} {
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", text)
		client, err := out.collector("LOGS")
		if (err != nil) != (want == 0) || err == nil && client.Timeout != want {
			t.Errorf("%q: %v, %v", text, client, err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "1000")
	if client, err := out.collector("LOGS"); err != nil || client.Timeout != time.Second {
		t.Errorf("a signal's own: %v, %v", client, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/gone")
	if _, err := out.collector("LOGS"); err == nil {
		t.Error("a certificate of ours that is not there: no error")
	}
}

// TestLogsMaskAddresses: libraries put the URL that they asked into their errors, with the key that is in it.
func TestLogsMaskAddresses(t *testing.T) {
	const address = "https://user:hunter2@node.example/v2/hunter2hunter2hunter2?key=hunter2"
	for _, json := range []bool{true, false} {
		var out bytes.Buffer
		log := NewLogger(&out, slog.LevelInfo, json)
		err := fmt.Errorf("ask: %w", errors.New(`Get "`+address+`": refused`))
		log.Info("one", "error", err, "at", address, slog.Group("in", slog.Any("error", err), slog.Int("n", 7)))
		log.With("at", address).WithGroup("g").Info("two", slog.Any("error", err))
		log.Info("three", "list", []string{"a"}, "kept", "https://node.example/v2")
		got := out.String()
		if strings.Contains(got, "hunter2") || strings.Count(got, "node.example") != 6 ||
			!strings.Contains(got, "https://node.example/v2") || !strings.Contains(got, "refused") {
			t.Errorf("logged is\n%s", got)
		}
	}
}
