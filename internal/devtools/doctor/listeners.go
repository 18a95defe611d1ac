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
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
)

// examineListeners sees whether the service can listen at its addresses, or does so already.
func examineListeners(ctx context.Context, cfg app.Config) []finding {
	out := []finding{
		examineListener(ctx, "listener", cfg.Addr, "addr", func(ctx context.Context, addr string) error {
			return servesAs(ctx, addr, cfg.BaseURL)
		}),
	}
	for _, of := range []struct {
		name, addr, setting, unset string
		ours                       func(context.Context, string) error
	}{
		{"metrics listener", cfg.MetricsAddr, "metrics.addr", "Prometheus sees nothing", showsMetrics},
		{"operators' listener", cfg.AdminAddr, "admin.addr", "their routes are served with all others", servesOperators},
		{"console listener", cfg.ConsoleAddr, "console.addr", "operators have no console", servesOperators},
	} {
		if of.addr == "" {
			out = append(out, finding{Name: of.name, Status: statusSkip, Detail: of.setting + " is not set: " + of.unset})
			continue
		}
		out = append(out, examineListener(ctx, of.name, of.addr, of.setting, of.ours))
	}
	return out
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

// servesOperators checks that a service of ours asks for an operator's token at an address.
func servesOperators(ctx context.Context, addr string) error {
	const whoami = "/api/admin/whoami"
	body, status, err := get(ctx, "http://"+addr+whoami)
	if err != nil {
		return err
	}
	var told struct{ Code fault.Code }
	if err := json.Unmarshal(body, &told); err != nil || told.Code != fault.OperatorTokenInvalid {
		return fmt.Errorf("%s answers %d and asks for no operator's token", whoami, status)
	}
	return nil
}

// read is the body of a page that is there.
func read(ctx context.Context, url string) ([]byte, error) {
	body, status, err := get(ctx, url)
	if err == nil && status != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", url, status)
	}
	return body, err
}

func get(ctx context.Context, url string) (body []byte, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	// It is this machine's, and is told no secret.
	res, err := outward.New(outward.Config{Rule: outward.Rule{Anywhere: true}, Most: 4 << 20}).Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(res.Body)
	return body, res.StatusCode, err
}
