package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// authorizer decides about requests that Envoy asks it about over gRPC: those with the token "good"
// may pass. It lets through as many connections as it is told to.
type authorizer struct {
	authv3.UnimplementedAuthorizationServer

	port string
	// asked counts the questions by their subject.
	aboutRequests, aboutConnections atomic.Int64
	// lets says whether connections may pass.
	lets atomic.Bool
	// principal is the client whose requests may pass without a token, if it is not "".
	principal string
	stop      func()
}

func newAuthorizer(t testing.TB) *authorizer {
	t.Helper()
	l := listen(t)
	a := &authorizer{port: portOf(t, l)}
	server, served := grpc.NewServer(), make(chan error, 1)
	authv3.RegisterAuthorizationServer(server, a)
	go func() { served <- server.Serve(l) }()
	a.stop = func() {
		server.Stop()
		require.NoError(t, <-served)
	}
	t.Cleanup(server.Stop)
	return a
}

// newPrincipalAuthorizer decides by the client.
func newPrincipalAuthorizer(t testing.TB, principal string) *authorizer {
	t.Helper()
	a := newAuthorizer(t)
	a.principal = principal
	return a
}

// Check answers one question.
func (a *authorizer) Check(_ context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	r := in.GetAttributes().GetRequest().GetHttp()
	if r.GetMethod() == "" {
		a.aboutConnections.Add(1)
		if a.lets.Load() {
			return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.OK)}}, nil
		}
		return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	a.aboutRequests.Add(1)
	if r.GetHeaders()["x-token"] != "good" && (a.principal == "" || in.GetAttributes().GetSource().GetPrincipal() != a.principal) {
		return &authv3.CheckResponse{
			Status: &status.Status{Code: int32(codes.PermissionDenied)},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}, Body: "no good token",
			}},
		}, nil
	}
	return &authv3.CheckResponse{
		Status: &status.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-user", Value: "by grpc"}}},
		}},
	}, nil
}

// httpAuthorizer decides over HTTP, and answers with headers that tell what it decided.
func httpAuthorizer(t testing.TB) *backend {
	t.Helper()
	return newBackend(t, "authorizer", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		w.Header().Set("X-User", "by http")
		w.Header().Set("X-Private", "not for the application")
		if r.Header.Get("X-Token") != "good" {
			w.Header().Set("Www-Authenticate", "Token")
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	})
}

// asking is a MeshConfig with extension providers.
func asking(providers ...string) string {
	return "apiVersion: core/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh, namespace: istio-system}\nspec: {extensionProviders: [" + strings.Join(providers, ", ") + "]}\n"
}
