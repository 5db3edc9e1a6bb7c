package caller

import (
	"net"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// Handler lets those calls through to a handler whose callers it knows, with the Caller in the request's context, which ends when
// the caller would not be let in any more. The others are answered with a google.rpc.Status as JSON.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := presentedOver(r)
		var who *Caller
		if err == nil {
			who, err = g.admit(r.Context(), c)
		}
		if err != nil {
			writeStatus(w, status.Convert(err))
			return
		}
		ctx, s := g.begin(r.Context(), c, who)
		defer g.finish(s)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func presentedOver(r *http.Request) (credentials, error) {
	c := credentials{address: r.RemoteAddr}
	if h, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c.address = h
	}
	if r.TLS != nil {
		c.certify(r.TLS)
	}
	return c, c.present(r.Header.Values("Authorization"))
}

func writeStatus(w http.ResponseWriter, s *status.Status) {
	text, err := protojson.Marshal(s.Proto())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // or else the rest of the request would be waited for before this is sent
	switch s.Code() {
	case codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	case codes.PermissionDenied:
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(text) //nolint:gosec // it is JSON, and says so
}
