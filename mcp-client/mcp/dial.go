package mcp

import (
	"math"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// dialDefaults reconnects quickly after a restart of the server, and detects a dead one within a
// minute.
func dialDefaults() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: betweenRounds.First, Multiplier: 1.6, Jitter: 0.5, MaxDelay: betweenRounds.Longest},
			MinConnectTimeout: betweenRounds.Longest,
		}),
	}
}
