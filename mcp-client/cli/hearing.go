package cli

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// hearing calls a function for each message that comes over a connection, with its size on the wire.
func hearing(heard func(bytes int)) grpc.DialOption { return grpc.WithStatsHandler(ear(heard)) }

// ear is a stats.Handler.
type ear func(bytes int)

// HandleRPC hears of everything that happens to a call.
func (e ear) HandleRPC(_ context.Context, event stats.RPCStats) {
	if message, ok := event.(*stats.InPayload); ok {
		e(message.WireLength)
	}
}

// TagRPC, TagConn and HandleConn are nothing that we need.
func (ear) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (ear) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (ear) HandleConn(context.Context, stats.ConnStats)                       {}
