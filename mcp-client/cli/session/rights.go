package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
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
	who, err := connect.Call(ctx, &s.Server, adminv1.NewAdminServiceClient, adminv1.AdminServiceClient.WhoAmI, &adminv1.WhoAmIRequest{}, s.Server.Explain)
	if err != nil {
		return // it is a server of others, or an older one
	}
	scopes, err := caller.ParseScopes(who.GetScopes())
	if err != nil {
		return // it has scopes that this program does not know
	}
	is := caller.New(who.GetIdentity(), scopes...)
	if slices.ContainsFunc(ks, func(k *kinds.Kind) bool { return k.Namespaced && !is.May(caller.Read, namespace, k) }) {
		where := "of the mesh"
		if namespace != Everywhere {
			where = "in the namespace " + namespace
		}
		fmt.Fprintf(s.Err, "warning: you may not read everything %s, and what you may not read is left out here (you may: %s)\n", where, strings.Join(who.GetScopes(), ", "))
	}
}

// namespace is the one that a command applies to.
func (s *Session) namespace() string {
	if s.Namespace.All {
		return Everywhere
	}
	return s.Namespace.Name
}
