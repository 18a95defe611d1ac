package app

import "time"

// edgeSettings are the settings that bound what unauthenticated callers can use.
func edgeSettings() []setting {
	return []setting{
		{key: "order.max_unpaid", help: "how many unpaid orders a wallet may have open at once", byDefault: "20",
			set: number(func(c *Config) *int { return &c.MaxUnpaid })},
		{key: "order.work_retention", help: "how long finished jobs and reservations of final orders are kept, at least 24h",
			byDefault: defaultWorkRetention.String(),
			set:       atLeast(24*time.Hour, func(c *Config) *time.Duration { return &c.WorkRetention })},
		{key: "order.expired_retention", help: "how long orders that expired unpaid are kept, at least 1h",
			byDefault: defaultExpiredRetention.String(),
			set:       atLeast(time.Hour, func(c *Config) *time.Duration { return &c.ExpiredRetention })},
		{key: "order.timeline_retention",
			help:      "how long timelines of final orders are kept, but their last line and those of operators, at least 24h",
			byDefault: defaultHistoryRetention.String(),
			set:       atLeast(24*time.Hour, func(c *Config) *time.Duration { return &c.TimelineRetention })},
		{key: "audit.read_retention", help: "how long the audit trail keeps what operators only read, at least 24h",
			byDefault: defaultHistoryRetention.String(),
			set:       atLeast(24*time.Hour, func(c *Config) *time.Duration { return &c.ReadRetention })},
		{key: "events.max_stored", help: "how many product events are kept, whatever their age", byDefault: "2000000",
			set: number(func(c *Config) *int { return &c.EventsMost })},
		{key: "server.max_connections", help: "how many connections may be open at once", byDefault: "3072",
			set: number(func(c *Config) *int { return &c.MaxConns })},
		{key: "server.max_connections_per_address", help: "how many of them one address may have that is no trusted proxy",
			byDefault: "256", set: number(func(c *Config) *int { return &c.MaxConnsPerAddress })},
		{key: "server.max_requests", help: "how many requests may be under way at once", byDefault: "4096",
			set: number(func(c *Config) *int { return &c.MaxRequests })},
		{key: "server.drain_delay", help: "for how long, once it is asked to end, a process says at /ready that it is " +
			"stopping and serves all the same, at most 5m", byDefault: "0s",
			set: briefly(5*time.Minute, func(c *Config) *time.Duration { return &c.DrainDelay })},
	}
}
