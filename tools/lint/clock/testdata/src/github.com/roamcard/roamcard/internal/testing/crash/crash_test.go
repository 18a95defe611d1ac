package crash

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

const patience = 5 * time.Second

func TestSleeps(t *testing.T) {
	nap()
	time.Sleep(time.Hour) // want `time.Sleep: wait for a condition instead`
	later := time.Sleep   // want `time.Sleep`
	later(0)
	time.Sleep(time.Second) // clock: the vendor refuses two calls in one second
	// clock: the vendor refuses two calls in one second, as its documentation
	// says.
	time.Sleep(time.Second)
	time.Sleep(time.Second) // want `time.Sleep`

	// clock:
	time.Sleep(time.Second) // want `time.Sleep`
	time.Sleep(time.Second) // why not // want `time.Sleep`
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		<-time.After(time.Second)
	})
}

func TestDeadlines(t *testing.T) {
	ctx := t.Context()
	context.WithTimeout(ctx, 59*time.Second) // want `WithTimeout of 59s: a busy machine takes longer`
	context.WithTimeout(ctx, time.Minute)
	context.WithTimeout(ctx, 0)
	context.WithTimeout(ctx, -time.Second)
	context.WithTimeout(ctx, patience)                              // want `WithTimeout of 5s`
	context.WithDeadline(ctx, time.Now().Add(time.Second))          // want `WithDeadline of 1s`
	context.WithDeadline(ctx, time.Now().Add(2*time.Minute))        // long enough
	context.WithTimeoutCause(ctx, 100*time.Millisecond, nil)        // want `WithTimeoutCause of 100ms`
	context.WithTimeout(ctx, 10*time.Millisecond)                   // clock: the deadline is the subject
	context.WithDeadline(ctx, time.Now().Add(-10*time.Second))      // has passed
	<-time.After(time.Second)                                       // want `After of 1s`
	time.NewTimer(time.Second)                                      // want `NewTimer of 1s`
	time.NewTicker(time.Second)                                     // only looks again
	apptest.Until(patience, "it holds")                             // want `Until of 5s`
	apptest.Until(2*time.Minute, "it holds")                        // long enough
	apptest.Jitter(time.Second)                                     // waits for nothing
	eventually(10*time.Second, func() bool { return true })         // want `eventually of 10s`
	eventually(time.Until(time.Now()), func() bool { return true }) // not constant
	// clock: how long it must stay away is the subject
	eventually(
		10*time.Second, func() bool { return true })
	eventually(
		10*time.Second, // clock: how long it must stay away is the subject
		func() bool { return true })
}

func TestConnections(t *testing.T) {
	var conn net.Conn
	conn.SetDeadline(time.Now().Add(time.Second))          // want `SetDeadline of 1s`
	conn.SetReadDeadline(time.Now().Add(time.Second))      // want `SetReadDeadline of 1s`
	conn.SetWriteDeadline(time.Now().Add(2 * time.Minute)) // long enough
	conn.SetDeadline(time.Time{})
	client := &http.Client{Timeout: 3 * time.Second} // want `Timeout of 3s`
	client.Timeout = time.Second                     // want `Timeout of 1s`
	client = &http.Client{Timeout: 0}
	client.Timeout = time.Hour
	_ = &net.Dialer{
		Timeout: time.Second, // clock: an address that drops packets is the subject
	}
}

func eventually(within time.Duration, ok func() bool) {}
