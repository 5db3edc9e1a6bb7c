package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Everywhere is a namespace that only scopes for all namespaces allow: none can be called so.
const Everywhere = "*"

// WarnOfRights tells a caller who may not read all of some kinds in a namespace, or Everywhere. A server
// leaves out what a caller may not read, so that the mesh would look empty.
func (s *Session) WarnOfRights(ctx context.Context, namespace string, ks []*kinds.Kind) {
	if d := s.Server.Dial; d.Token == "" && d.TokenFile == "" && d.TLS.Cert == "" {
		return // who shows nothing has no scopes of their own
	}
	is, err := s.Caller(ctx)
	if err != nil {
		return // it is a server of others, or an older one, or has scopes that this program does not know
	}
	if slices.ContainsFunc(ks, func(k *kinds.Kind) bool { return k.Namespaced && !is.May(caller.Read, namespace, k) }) {
		var scopes []string
		for _, scope := range is.Scopes() {
			scopes = append(scopes, scope.String())
		}
		where := "of the mesh"
		if namespace != Everywhere {
			where = "in the namespace " + namespace
		}
		fmt.Fprintf(s.Err, "warning: you may not read everything %s, and what you may not read is left out here (you may: %s)\n", where, strings.Join(scopes, ", "))
	}
}

// Caller asks the server who calls, and what they may do.
func (s *Session) Caller(ctx context.Context) (*caller.Caller, error) {
	who, err := Ask(ctx, s, adminv1.AdminServiceClient.WhoAmI, &adminv1.WhoAmIRequest{})
	if err != nil {
		return nil, err
	}
	scopes, err := caller.ParseScopes(who.GetScopes())
	if err != nil && len(who.GetScopes()) > 0 {
		return nil, fmt.Errorf("the server has scopes that this program does not know: %w", err)
	}
	return caller.New(who.GetIdentity(), scopes...), nil
}

// namespace is the one that a command applies to.
func (s *Session) namespace() string {
	if s.Namespace.All {
		return Everywhere
	}
	return s.Namespace.Name
}
