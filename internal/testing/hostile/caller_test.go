package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// headerPayment, headerRequired and headerPaid are how payments are asked for, made and proven.
const (
	headerPayment  = "PAYMENT-SIGNATURE"
	headerRequired = "PAYMENT-REQUIRED"
	headerPaid     = "PAYMENT-RESPONSE"
)

// caller is a client with an address of its own.
type caller struct {
	w    *world
	ip   net.IP
	http *http.Client
	// base is where the program is.
	base string
}

// sent counts what all callers of a test have sent.
type sent struct{ requests, bytes atomic.Int64 }

// traffic is what left for the program under test, honest buyers apart.
var traffic sent

func (w *world) caller() *caller {
	ip := w.address()
	return &caller{w: w, ip: ip, base: w.base, http: &http.Client{
		Timeout:       time.Minute,
		Transport:     counted{w.from(ip)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// from is a transport whose connections come from an address.
func (w *world) from(ip net.IP) *http.Transport {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}, Timeout: time.Minute}
	t := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	w.t.Cleanup(t.CloseIdleConnections)
	return t
}

// counted counts requests and, roughly, their bytes.
type counted struct{ next http.RoundTripper }

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	size := len(r.Method) + len(r.URL.RequestURI()) + max(0, int(r.ContentLength))
	for name, values := range r.Header {
		size += len(name) + len(strings.Join(values, "")) + 4
	}
	traffic.requests.Add(1)
	traffic.bytes.Add(int64(size))
	return c.next.RoundTrip(r)
}

// answer is what came back; err is set when nothing did.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
	took   time.Duration
}

// code is the code of a refusal, or the status.
func (a answer) code() string {
	if a.err != nil {
		return a.err.Error()
	}
	var problem struct{ Code string }
	_ = json.Unmarshal(a.body, &problem) // something else has no code
	return problem.Code
}

// errorOf describes an unexpected answer.
func errorOf(a answer) error { return errors.Join(fmt.Errorf("%d %.300s", a.status, a.body), a.err) }

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if a.err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %.400s %v", a.status, a.body, a.err)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %.400s", err, a.body)
	}
}

// send makes a request; headers are names and values in turn. A body that is not text is sent as JSON.
func (c *caller) send(ctx context.Context, method, path string, body any, headers ...string) answer {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return answer{err: err}
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return answer{err: err}
	}
	if reader != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	begin := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return answer{err: err, took: time.Since(begin)}
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	return answer{status: res.StatusCode, header: res.Header, body: got, err: err, took: time.Since(begin)}
}

// heeding sends a request again when its caller's rate is used up, after the pause that the answer asks for.
func heeding(ctx context.Context, request func() answer) answer {
	for {
		a := request()
		pause, err := time.ParseDuration(a.header.Get("Retry-After") + "s")
		if a.status != http.StatusTooManyRequests || err != nil {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-time.After(pause):
		}
	}
}

// flood repeats a request at a rate, from so many goroutines, until ctx ends and there were at least so many, and
// counts the answers by status; those that did not come count as zero.
func flood(
	ctx context.Context, perSecond, workers, least int, request func(ctx context.Context, n int) answer,
) map[int]int {
	var next atomic.Int64
	lasting := context.WithoutCancel(ctx)
	counts := make(chan map[int]int, workers)
	tick := time.Second * time.Duration(workers) / time.Duration(perSecond)
	for range workers {
		go func() {
			mine := map[int]int{}
			defer func() { counts <- mine }()
			pace := time.NewTicker(tick)
			defer pace.Stop()
			for {
				n := int(next.Add(1))
				if n > least && ctx.Err() != nil {
					return
				}
				mine[request(lasting, n).status]++
				select {
				case <-ctx.Done():
				case <-pace.C:
				}
			}
		}()
	}
	all := map[int]int{}
	for range workers {
		for status, n := range <-counts {
			all[status] += n
		}
	}
	return all
}

// race sends all requests at once.
func race(n int, request func(i int) answer) []answer {
	answers := make([]answer, n)
	start, done := make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			<-start
			answers[i] = request(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return answers
}
