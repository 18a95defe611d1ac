package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
)

// examineListeners sees whether the service can listen at its addresses, or does so already.
func examineListeners(ctx context.Context, cfg app.Config) []finding {
	out := []finding{
		examineListener(ctx, "listener", cfg.Addr, "addr", func(ctx context.Context, addr string) error {
			return servesAs(ctx, addr, cfg.BaseURL)
		}),
	}
	if cfg.MetricsAddr == "" {
		return append(out, finding{
			Name: "metrics listener", Status: statusSkip, Detail: "metrics.addr is not set: Prometheus sees nothing",
		})
	}
	return append(out, examineListener(ctx, "metrics listener", cfg.MetricsAddr, "metrics.addr", showsMetrics))
}

// examineListener tells of one address. An address that is taken is no fault when ours answers there: doctor is run
// next to a service that has an incident, too.
func examineListener(
	ctx context.Context, name, addr, setting string, ours func(context.Context, string) error,
) finding {
	fix := "free the address, or set " + setting + " to another"
	listener, err := net.Listen("tcp", addr)
	if err == nil {
		return verdictOf(name, addr+" is free", listener.Close(), fix)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if other := ours(ctx, reached(addr)); other != nil {
		return verdictOf(name, "", fmt.Errorf("%w, and it is not this service that answers there: %w", err, other), fix)
	}
	return verdictOf(name, "this service has it already: "+addr, nil, fix)
}

// reached is where a listener is reached from its own machine.
func reached(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// servesAs checks that the service with an origin answers at an address.
func servesAs(ctx context.Context, addr, origin string) error {
	body, err := read(ctx, "http://"+addr+"/api/config")
	if err != nil {
		return err
	}
	var told struct{ BaseURL string }
	if err := json.Unmarshal(body, &told); err != nil {
		return errors.New("/api/config is no JSON")
	}
	if told.BaseURL != origin {
		return fmt.Errorf("/api/config names %q as its origin", told.BaseURL)
	}
	return nil
}

// showsMetrics checks that metrics of the service are shown at an address.
func showsMetrics(ctx context.Context, addr string) error {
	body, err := read(ctx, "http://"+addr+"/metrics")
	if err == nil && !strings.Contains(string(body), `service_name="roamcard"`) {
		err = errors.New("/metrics has none of the service")
	}
	return err
}

func read(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, res.Status)
	}
	const most = 4 << 20
	return io.ReadAll(io.LimitReader(res.Body, most))
}
