package edge

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	connectv2 "connectrpc.com/connect/v2"
	"connectrpc.com/grpchealth"
)

func health(t *testing.T, e *edge, service string) grpchealth.Status {
	t.Helper()
	res, err := e.health.Check(t.Context(), &grpchealth.CheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return res.Status
}

func TestHealthIsServedOverGRPC(t *testing.T) {
	e := start(t, &shop{}, nil)
	client := grpchealth.NewClient(overHTTP2(t), e.url, connect.WithGRPC())
	for _, service := range []string{"", "roamcard.v1.CardService"} {
		res, err := client.Check(t.Context(), &grpchealth.CheckRequest{Service: service})
		if err != nil || res.Status != grpchealth.StatusServing {
			t.Errorf("%q: %v, %v", service, res, err)
		}
	}
	if _, err := client.Check(t.Context(),
		&grpchealth.CheckRequest{Service: "roamcard.v1.Nope"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestShutdownWaitsForRunningRequests(t *testing.T) {
	for name, client := range map[string]func(*testing.T) *http.Client{
		"HTTP/1.1": func(*testing.T) *http.Client { return &http.Client{Transport: &http.Transport{}} },
		"HTTP/2":   overHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			running, finish := make(chan struct{}), make(chan struct{})
			e := start(t, &shop{purchase: func(ctx context.Context) error {
				close(running)
				<-finish
				return ctx.Err()
			}}, nil)
			answered := make(chan error, 1)
			h := client(t)
			go func() {
				res, err := h.Post(e.url+purchase, "application/json", strings.NewReader(string(key)))
				if err == nil {
					_ = res.Body.Close()
					if res.StatusCode != 200 {
						err = fmt.Errorf("status %d", res.StatusCode)
					}
				}
				answered <- err
			}()
			<-running
			e.stop()
			// The services leave health before the listener closes; once it refuses, both are done.
			until(t, "the listener is closed", func() bool {
				conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", e.addr)
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			for _, service := range []string{"", "roamcard.v1.CardService"} {
				if got := health(t, e, service); got != grpchealth.StatusNotServing {
					t.Errorf("health of %q at the end: %v", service, got)
				}
			}
			select {
			case err := <-e.ended:
				t.Fatalf("Serve ended with a request running: %v", err)
			default:
			}
			close(finish)
			if err := <-answered; err != nil {
				t.Errorf("the running request: %v", err)
			}
			h.CloseIdleConnections()
			if err := <-e.ended; err != nil {
				t.Errorf("Serve = %v", err)
			}
		})
	}
}

func TestShutdownClosesRequestsAfterTimeout(t *testing.T) {
	running := make(chan struct{})
	e := start(t, &shop{purchase: func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}}, func(cfg *Config) { cfg.DrainTimeout = 20 * time.Millisecond })
	answered := make(chan error, 1)
	go func() {
		res, err := http.Post(e.url+purchase, "application/json", strings.NewReader(string(key)))
		if err == nil {
			_ = res.Body.Close()
		}
		answered <- err
	}()
	<-running
	e.stop()
	if err := <-e.ended; err == nil || !strings.Contains(err.Error(), "drain") {
		t.Errorf("Serve = %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

func TestServeListensOnItsAddress(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		_ = cfg.Listener.Close()
		cfg.Listener, cfg.Addr = nil, "127.0.0.1:notaport"
	})
	if err := <-e.ended; err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("Serve = %v", err)
	}
}

func TestNewRefusesOverlappingRoutes(t *testing.T) {
	e := start(t, &shop{}, nil)
	cfg := e.cfg
	cfg.Servers, cfg.Raw = nil, map[string]http.Handler{"GET /api/card/discovery": http.NotFoundHandler()}
	if _, err := New(cfg); err == nil {
		t.Error("a raw route hides a documented one")
	}
	bare := connectv2.NewServer()
	bare.Register(connectv2.Method{Spec: connectv2.Spec{Procedure: "/no.such.Service/Method"}})
	cfg.Servers = []*connectv2.Server{bare}
	if _, err := New(cfg); err == nil {
		t.Error("an unknown service was added")
	}
}

// until polls for a condition that another goroutine makes true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
