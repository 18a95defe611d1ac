package app

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/roamcard/roamcard/internal/transport/edge"
)

// memoryShare is how much of the memory of its control group a process uses before it collects at any price; the rest
// is for what is no heap.
const memoryShare = 0.9

// limitMemory takes the process's memory limit from its control group, unless GOMEMLIMIT says otherwise, and warns when
// a server's callers may use more.
func (c Config) limitMemory(log *slog.Logger) {
	has, err := memlimit.Set(memlimit.WithRatio(memoryShare))
	if err != nil {
		log.Info("no memory limit is known", "error", err)
		return
	}
	if most := c.mostMemory(); !c.NoServer && most > has {
		log.Warn("callers may use more memory than there is: lower server.max_connections and server.max_requests",
			"most_mib", most>>20, "memory_mib", has>>20)
	}
}

// What one of each can hold, in bytes.
const (
	// idleMemory is the process without callers, its caches full.
	idleMemory = 192 << 20
	// memoryPerConn is a connection: what it may send ahead, a head that is not complete, buffers and stacks.
	memoryPerConn = 96 << 10
	// memoryPerRequest is a request: its head, a small body, what both are decoded to, and the answer.
	memoryPerRequest = 64 << 10
)

// mostMemory is how many bytes a server's callers can make it hold at once. A body is there twice, once decoded.
func (c Config) mostMemory() int64 {
	return idleMemory + int64(c.MaxConns)*memoryPerConn + int64(c.MaxRequests)*memoryPerRequest + 2*edge.BodiesAll
}
