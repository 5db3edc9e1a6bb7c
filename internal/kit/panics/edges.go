package panics

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// ServerOptions returns the interceptors that recover panics of gRPC handlers. They come first, so
// that they wrap all other interceptors.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(Unary), grpc.ChainStreamInterceptor(Stream)}
}

// Unary recovers panics of unary calls.
func Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer Catch("call", &err)
	return handle(ctx, req)
}

// Stream recovers panics of streams.
func Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer Catch("stream", &err)
	return handle(srv, stream)
}

// Credentials refuses a connection whose handshake panics.
func Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return &handshakes{c}
}

type handshakes struct {
	credentials.TransportCredentials
}

// ServerHandshake turns a panic of the handshake into its error.
func (h *handshakes) ServerHandshake(raw net.Conn) (conn net.Conn, info credentials.AuthInfo, err error) {
	defer Catch("handshake", &err)
	return h.TransportCredentials.ServerHandshake(raw)
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone()}
}

// Handler answers 500 if next panics. If the response has begun, Handler aborts it, so that the
// client sees it is incomplete.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := &response{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it this way
				panic(v)
			}
			err := caught("page", v)
			if response.begun {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}()
		next.ServeHTTP(response, r)
	})
}

// response records whether it has begun.
type response struct {
	http.ResponseWriter

	begun bool
}

func (r *response) WriteHeader(code int) {
	r.begun = true
	r.ResponseWriter.WriteHeader(code)
}

func (r *response) Write(p []byte) (int, error) {
	r.begun = true
	return r.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which grpc-gateway asserts.
func (r *response) Flush() {
	r.begun = true
	_ = http.NewResponseController(r.ResponseWriter).Flush() // a writer that cannot flush does not
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
