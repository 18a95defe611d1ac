package endtoend_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

// issuer is the sandbox behind a real port, with its control API.
type issuer struct {
	t   testing.TB
	url string
}

func newIssuer(t testing.TB, cfg sandbox.Config) *issuer {
	t.Helper()
	if cfg.SettleAfter == 0 {
		cfg.SettleAfter = 20 * time.Millisecond
	}
	server, err := sandbox.NewServer(cfg)
	if err != nil {
		t.Fatalf("open the sandbox: %v", err)
	}
	listener := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close() // lets held requests go, for which the listener waits
		listener.CloseClientConnections()
		listener.Close()
	})
	return &issuer{t: t, url: listener.URL}
}

// issuerBooks are the issuer's own records, from its control API.
type issuerBooks struct {
	Float money.Cents `json:"floatCents"`
	Cards []struct {
		ID      string      `json:"id"`
		Status  string      `json:"status"`
		Balance money.Cents `json:"balanceCents"`
	} `json:"cards"`
	Movements []struct {
		Card   string      `json:"cardId"`
		Status string      `json:"status"`
		Amount money.Cents `json:"amountCents"`
	} `json:"movements"`
	Requests map[string]int `json:"requests"`
}

func (i *issuer) books() issuerBooks {
	i.t.Helper()
	var b issuerBooks
	if err := json.Unmarshal(i.call("GET", "books", nil), &b); err != nil {
		i.t.Fatal(err)
	}
	return b
}

// fault makes the issuer misbehave in so many requests of an operation, or in all of them when times is 0.
func (i *issuer) fault(op, mode string, times, delayMS int) {
	i.t.Helper()
	i.call("POST", "faults", map[string]any{"op": op, "mode": mode, "times": times, "delayMs": delayMS})
}

func (i *issuer) clearFaults() {
	i.t.Helper()
	i.call("DELETE", "faults", nil)
}

// esimFault is fault for the supplier of eSIMs.
func (i *issuer) esimFault(op, mode string, times int) {
	i.t.Helper()
	i.call("POST", "esim/faults", map[string]any{"op": op, "mode": mode, "times": times})
}

func (i *issuer) clearEsimFaults() {
	i.t.Helper()
	i.call("DELETE", "esim/faults", nil)
}

// setFloat sets our money at the issuer.
func (i *issuer) setFloat(cents int) {
	i.t.Helper()
	i.call("POST", "float", map[string]any{"cents": cents})
}

// openBIN opens or closes the BIN of all cards.
func (i *issuer) openBIN(open bool) {
	i.t.Helper()
	i.call("POST", "bins", map[string]any{"prefix": "400000", "open": open})
}

// call makes a call of the control API.
func (i *issuer) call(method, path string, body any) []byte {
	i.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		i.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(i.t.Context()), method, i.url+"/control/"+path,
		bytes.NewReader(encoded))
	if err != nil {
		i.t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		i.t.Fatalf("control the issuer: %v", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		i.t.Fatalf("control the issuer: %s %s: %d %s (%v)", method, path, res.StatusCode, text, err)
	}
	return text
}
