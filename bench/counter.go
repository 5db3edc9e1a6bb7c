package main

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// counter counts the bytes of the messages that a client receives.
type counter struct{ bytes atomic.Int64 }

func withCounter(c *counter) grpc.DialOption { return grpc.WithStatsHandler(c) }

func (*counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*counter) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC counts received messages.
func (c *counter) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		c.bytes.Add(int64(in.Length))
	}
}
