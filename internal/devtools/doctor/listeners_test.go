package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
)

// TestListenersOfTheServiceItselfAreNoFault examines a machine on which the service runs, and one where another program
// has its addresses.
func TestListenersOfTheServiceItselfAreNoFault(t *testing.T) {
	const origin = "https://api.example.com"
	for name, tt := range map[string]struct {
		config, metrics, whoami string
		want                    string
	}{
		"ours": {
			`{"baseUrl":"` + origin + `"}`, `target_info{service_name="roamcard"} 1`, `{"code":"operator_token_invalid"}`,
			statusOK,
		},
		"another": {
			`{"baseUrl":"https://other.example.com"}`, `target_info{service_name="other"} 1`, `{"code":"route_not_found"}`,
			statusFail,
		},
		"no service": {"hello", "hello", "hello", statusFail},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/api/config", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.config) })
			mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.metrics) })
			mux.HandleFunc("/api/admin/whoami", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, tt.whoami)
			})
			taken := httptest.NewServer(mux)
			defer taken.Close()
			addr := strings.TrimPrefix(taken.URL, "http://")
			found := examineListeners(t.Context(), app.Config{
				BaseURL: origin, Addr: addr, MetricsAddr: addr, AdminAddr: addr, ConsoleAddr: addr,
			})
			if len(found) != 4 {
				t.Fatalf("%d findings", len(found))
			}
			for _, f := range found {
				if f.Status != tt.want || (f.Status == statusFail) != (f.Fix != "") {
					t.Errorf("%+v, want %s", f, tt.want)
				}
			}
		})
	}
	free := examineListeners(t.Context(), app.Config{Addr: "127.0.0.1:0"})
	for i, want := range []string{statusOK, statusSkip, statusSkip, statusSkip} {
		if free[i].Status != want {
			t.Errorf("%+v, want %s", free[i], want)
		}
	}
}
