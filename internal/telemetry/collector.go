package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/outward"
)

// variable is a variable of the OTLP exporters: that of a signal, or that of all.
func variable(signal, name string) string {
	return strings.TrimSpace(cmp.Or(
		os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name),
	))
}

// collector makes the client of a signal: TRACES, METRICS or LOGS. Of the standard variables, those of time and
// certificates are a client's; the exporter reads the others.
func (t *Telemetry) collector(signal string) (*http.Client, error) {
	c := outward.Config{Rule: t.rule}
	if text := variable(signal, "TIMEOUT"); text != "" {
		milliseconds, err := strconv.Atoi(text)
		if err != nil || milliseconds < 1 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of milliseconds", text)
		}
		c.Timeout = time.Duration(milliseconds) * time.Millisecond
	}
	certificate, own, key := variable(signal, "CERTIFICATE"), variable(signal, "CLIENT_CERTIFICATE"),
		variable(signal, "CLIENT_KEY")
	if certificate != "" || own != "" {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if certificate != "" {
		pem, err := os.ReadFile(certificate)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if c.TLS.RootCAs = x509.NewCertPool(); !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", certificate)
		}
	}
	if own != "" {
		pair, err := tls.LoadX509KeyPair(own, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return outward.New(c), nil
}
