// Package access checks RPCs against what their .proto files say of who may call them.
//
// The table in declared.go is generated from the option (pgmesh.access.v1.access) of each RPC.
// foreign.go has the RPCs that others have defined, which cannot have the option. Interceptors
// check the caller before a handler runs.
package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
)

// rule says who may call an RPC.
type rule interface {
	// allows returns the error for a caller that may not make the call; who is nil if no guard let
	// it in.
	allows(who *caller.Caller) error
}

// unlimited is the rule for RPCs that need a right over the whole mesh.
type unlimited caller.Verb

func (u unlimited) allows(who *caller.Caller) error { return who.RequireUnlimited(caller.Verb(u)) }

// narrowed is the rule for RPCs that check the caller themselves, because what it needs depends on
// the request.
type narrowed caller.Verb

func (n narrowed) allows(who *caller.Caller) error {
	if who == nil {
		return who.RequireUnlimited(caller.Verb(n))
	}
	return nil
}

// openTo is the rule for RPCs that need no scopes.
type openTo int

const (
	known     openTo = iota // callers that a guard let in
	machines                // they have no scopes, and no guard admits them here
	strangers               // everybody
)

func (o openTo) allows(who *caller.Caller) error {
	switch {
	case o == strangers, o == known && who != nil:
		return nil
	case o == known:
		return who.RequireUnlimited(caller.Read)
	}
	return status.Error(codes.PermissionDenied, "machines call this at a discovery")
}

// ruleOf returns the rule of an RPC by its full name, such as "/pgmesh.admin.v1.AdminService/Get".
func ruleOf(fullMethod string) (rule, bool) {
	if r, ok := declared[fullMethod]; ok {
		return r, true
	}
	r, ok := foreign[fullMethod]
	return r, ok
}

// OpenToStrangers reports whether an RPC is for callers without credentials. It is for
// [caller.Config].
func OpenToStrangers(fullMethod string) bool { return declared[fullMethod] == strangers }

// Check returns an error that names the RPCs of a server for which there is no rule. A server with
// such RPCs must not serve.
func Check(services map[string]grpc.ServiceInfo) error {
	var err error
	for _, service := range slices.Sorted(maps.Keys(services)) {
		for _, method := range services[service].Methods {
			name := fmt.Sprintf("/%s/%s", service, method.Name)
			if _, ok := ruleOf(name); !ok {
				err = errors.Join(err, fmt.Errorf("nothing says who may call %s: run make generate if it is of pgmesh, or give it a line in internal/access/foreign.go", name))
			}
		}
	}
	return err
}

// Unary checks the callers of unary RPCs. A guard must have authenticated them.
func Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := ask(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

// Stream checks the callers of streams. A guard must have authenticated them.
func Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := ask(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(srv, stream)
}

func ask(ctx context.Context, fullMethod string) error {
	r, ok := ruleOf(fullMethod)
	if !ok { // Check has found a rule for every registered RPC
		return status.Errorf(codes.Unimplemented, "unknown method %s", fullMethod)
	}
	return caller.StatusOf(r.allows(caller.From(ctx)))
}
