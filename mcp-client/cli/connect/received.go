package connect

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// onMessage calls received with the wire size of each message received on a connection.
func onMessage(received func(bytes int)) grpc.DialOption {
	return grpc.WithStatsHandler(messageStats(received))
}

// messageStats is a stats.Handler.
type messageStats func(bytes int)

// HandleRPC implements stats.Handler.
func (e messageStats) HandleRPC(_ context.Context, event stats.RPCStats) {
	if message, ok := event.(*stats.InPayload); ok {
		e(message.WireLength)
	}
}

// TagRPC, TagConn and HandleConn are parts of stats.Handler that we do not need.
func (messageStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (messageStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (messageStats) HandleConn(context.Context, stats.ConnStats) {}
