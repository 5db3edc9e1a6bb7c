package panics

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// ServerOptions keep a gRPC server whose handlers panic. They come first, so that they are around all other interceptors.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(Unary), grpc.ChainStreamInterceptor(Stream)}
}

// Unary is the interceptor of calls with one answer.
func Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer Catch("call", &err)
	return handle(ctx, req)
}

// Stream is the interceptor of streams.
func Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer Catch("stream", &err)
	return handle(srv, stream)
}

// Credentials refuse a connection whose handshake panics.
func Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return &handshakes{c}
}

type handshakes struct {
	credentials.TransportCredentials
}

// ServerHandshake does it.
func (h *handshakes) ServerHandshake(raw net.Conn) (conn net.Conn, info credentials.AuthInfo, err error) {
	defer Catch("handshake", &err)
	return h.TransportCredentials.ServerHandshake(raw)
}

// Clone is for gRPC.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone()}
}

// Handler answers 500 where a handler panics. What has begun its answer is cut off, as whoever asked can see.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // http compares it so
				panic(v)
			}
			err := caught("page", v)
			if answer.begun {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}()
		next.ServeHTTP(answer, r)
	})
}

// answer remembers whether it has begun.
type answer struct {
	http.ResponseWriter

	begun bool
}

func (a *answer) WriteHeader(code int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Flush is for those who ask for it by type, as grpc-gateway does.
func (a *answer) Flush() {
	a.begun = true
	_ = http.NewResponseController(a.ResponseWriter).Flush() // one that cannot does not
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
