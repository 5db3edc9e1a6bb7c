package caller

import (
	"net"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// Handler authenticates HTTP requests and passes them to next with the Caller in the context, which
// ends once the caller would no longer be let in. It answers refused requests with a
// google.rpc.Status in JSON.
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
	w.Header().Set("Connection", "close") // otherwise net/http reads the rest of the request before it answers
	switch s.Code() {
	case codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	case codes.PermissionDenied:
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(text) //nolint:gosec // the content type is JSON
}
