package mcp

import (
	"context"
	"crypto/tls"
	"math"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Dial is how a connection to a server is secured: what a program's flags for that come down to.
type Dial struct {
	// TLS has the authorities that are trusted and the client's own certificate, if it has one; nil is plaintext.
	TLS *tls.Config
	// Token, if it is not nil, is asked for the bearer token of each stream, so that one that is renewed is used.
	Token func(context.Context) (string, error)
}

// Options are the DialOptions of a Config.
func (d Dial) Options() []grpc.DialOption {
	transport := insecure.NewCredentials()
	if d.TLS != nil {
		transport = credentials.NewTLS(d.TLS)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if d.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{d.Token, d.TLS != nil}))
	}
	return options
}

// bearer sends a token along with each stream.
type bearer struct {
	token  func(context.Context) (string, error)
	secure bool
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity keeps a token off a connection that turns out to be plaintext, unless plaintext was asked for.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// dialDefaults reconnects fast after a restart of the server and notices a dead one within a minute.
func dialDefaults() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.5, MaxDelay: longestRetry},
			MinConnectTimeout: longestRetry,
		}),
	}
}
