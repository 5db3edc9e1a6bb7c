package main

import (
	"context"
	"time"
)

// origin is where routes are written.
type origin interface {
	// prepare has the Gateway, on a port, and backends at addresses.
	prepare(ctx context.Context, port int, backends []endpoint) error
	// write writes one route, or replaces it, and returns when the origin has it.
	write(ctx context.Context, r route) error
	// writeAll writes routes that are not there yet, as quickly as it can.
	writeAll(ctx context.Context, all []route) error
	// floor has somebody else told of something, and returns how long it takes.
	floor(ctx context.Context) (time.Duration, error)
	// attached looks how many routes the status of the Gateway counts.
	attached(ctx context.Context) (counted, error)
	// stated looks of how many routes the status says that they are accepted, and that the gateway
	// runs them.
	stated(ctx context.Context) (counted, error)
}

// counted is how many routes there were of some sort at a time. To look at thousands takes longer than what
// is measured, so it matters when that was.
type counted struct {
	routes int
	at     time.Time
}

// endpoint is where a backend serves.
type endpoint struct {
	name, address string
	port          int
}

const servicePort = 80
