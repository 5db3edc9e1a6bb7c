// Package httpapi serves the admin API as JSON over HTTP, for curl and for programs that do not
// speak gRPC.
//
// The paths are generated from proto/pgmesh/admin/v1/http.yaml. This package adds what is
// particular to us: resources in the form that people write, JSON or YAML; streams of one message a
// line; and errors for unknown parameters.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/localhost"
	routes "github.com/pgmesh/pgmesh/mcp-server/httpapi/routes"
	"github.com/pgmesh/pgmesh/mcp-server/openapi"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// maxBodyBytes bounds the body of a request, as a message over gRPC is bounded.
const maxBodyBytes = 64 << 20

// Options configure the handler.
type Options struct {
	// LocalOnly refuses requests whose Host is a foreign name. A server on loopback that does not
	// authenticate callers needs it: a web page whose host name leads to this machine could
	// otherwise act with the rights of whoever views it.
	LocalOnly bool
	// BodyWithin is how long a body may take to arrive; a minute if 0.
	BodyWithin time.Duration
}

// parseQueries sets the gateway's query parser, once: it is a global of the gateway although it
// looks like an option of a mux, and several servers in one process would race on it.
var parseQueries = sync.OnceFunc(func() { runtime.NewServeMux(runtime.SetQueryParameterParser(strictQuery{})) })

// New returns a handler that turns requests into calls, in the requests' contexts.
func New(calls grpc.ClientConnInterface, o Options) (http.Handler, error) {
	parseQueries()
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, jsonForm{}),
		runtime.WithMarshalerOption("application/json", jsonForm{}),
		runtime.WithMarshalerOption(yamlType, yamlForm{}),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD {
			return metadata.Pairs("user-agent", r.UserAgent())
		}),
		runtime.WithRoutingErrorHandler(noRoute),
	)
	err := errors.Join(
		routes.RegisterAdminServiceHandlerClient(context.Background(), mux, adminv1.NewAdminServiceClient(calls)),
		routes.RegisterTokenServiceHandlerClient(context.Background(), mux, adminv1.NewTokenServiceClient(calls)),
		routes.RegisterJoinTokenServiceHandlerClient(context.Background(), mux, adminv1.NewJoinTokenServiceClient(calls)),
		routes.RegisterMemberServiceHandlerClient(context.Background(), mux, adminv1.NewMemberServiceClient(calls)),
		routes.RegisterRegisteredMachineServiceHandlerClient(context.Background(), mux, adminv1.NewRegisteredMachineServiceClient(calls)),
		routes.RegisterProxyServiceHandlerClient(context.Background(), mux, adminv1.NewProxyServiceClient(calls)),
		routes.RegisterTenancyServiceHandlerClient(context.Background(), mux, adminv1.NewTenancyServiceClient(calls)),
		routes.RegisterBlockerServiceHandlerClient(context.Background(), mux, adminv1.NewBlockerServiceClient(calls)),
		routes.RegisterTrustAdminServiceHandlerClient(context.Background(), mux, adminv1.NewTrustAdminServiceClient(calls)))
	if err != nil {
		return nil, fmt.Errorf("serve the admin API over HTTP: %w", err)
	}
	described := openapi.Handler()
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if openapi.Serves(r.URL.Path) {
			described.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(withPeer(r))
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		limitBodyTime(w, r, cmp.Or(o.BodyWithin, defaultBodyTimeout))
		r.Header.Set("Accept", mediaType(r.Header.Get("Accept"), "application/json"))
		r.Header.Set("Content-Type", mediaType(r.Header.Get("Content-Type"), "application/json"))
		mux.ServeHTTP(w, r)
	})
	if o.LocalOnly {
		handler = localOnly(handler)
	}
	return sameOrigin(handler), nil
}

const yamlType = "application/yaml"

// mediaType returns YAML if a header mentions it under any of its names, and else the default.
func mediaType(header, usual string) string {
	if strings.Contains(strings.ToLower(header), "yaml") {
		return yamlType
	}
	return usual
}

// withPeer puts the address of the client into the context, where the service looks for it.
func withPeer(r *http.Request) context.Context {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.Context()
	}
	return peer.NewContext(r.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(address)})
}

// sameOrigin refuses cross-origin requests of browsers, which would act with the rights of whoever
// views the page.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(refuse("requests of pages of other sites are not taken"))
	return protection.Handler(next)
}

func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localhost.Named(r) {
			refuse("without TLS this is served to localhost, to addresses and to the machine's own name, and not to a host of the name "+r.Host)(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, err := jsonForm{}.Marshal(status.New(codes.PermissionDenied, reason).Proto())
		if err != nil {
			http.Error(w, reason, http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(text) //nolint:gosec // it is JSON, and says so
	}
}

// noRoute answers a request for an unknown path or method.
func noRoute(ctx context.Context, mux *runtime.ServeMux, form runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	answer := &runtime.HTTPStatusError{HTTPStatus: code, Err: status.Error(codes.InvalidArgument, http.StatusText(code))}
	switch code {
	case http.StatusNotFound:
		answer.Err = status.Errorf(codes.NotFound, "there is nothing at %s; docs/admin-api.md lists the paths", r.URL.Path)
	case http.StatusMethodNotAllowed:
		answer.Err = status.Errorf(codes.Unimplemented, "%s is not for %s", r.URL.Path, r.Method)
	}
	runtime.HTTPError(ctx, mux, form, w, r, answer)
}
