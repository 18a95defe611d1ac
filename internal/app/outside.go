package app

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Outside is the way to the database, the chain and the providers. A simulation has another one than the network.
type Outside struct {
	// HTTP asks nodes and providers; nil is the network. Only its transport is used.
	HTTP *http.Client
	// Dial reaches the database; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the process's clock; nil is the machine's. Timers are the machine's in any case.
	Now func() time.Time
}

// now is the time by the process's clock.
func (c Config) now() time.Time {
	if c.Outside.Now == nil {
		return time.Now()
	}
	return c.Outside.Now()
}

// Handler serves what the public listener serves, without a network.
func (a *App) Handler() http.Handler { return a.server.Handler() }
