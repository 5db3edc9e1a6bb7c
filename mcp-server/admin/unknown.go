package admin

import (
	"context"
	"slices"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

// defaultNamespace is where resources go that name none, so it is known though it may be empty.
const defaultNamespace = "default"

// addUnknown tells, with a list that has found nothing, of which namespaces nothing is known. Those that
// the scopes of a caller name are known to it.
func (s *Service) addUnknown(ctx context.Context, req *adminv1.ListRequest, q resources.Query, answer *adminv1.ListResponse) error {
	who := caller.From(ctx)
	unlimited := who.Unlimited(caller.Read)
	if !req.GetCheckNamespaces() || len(answer.GetResources()) > 0 || req.GetPageToken() != "" || !unlimited && namespacesOf(who.Scopes(), caller.Read) != nil {
		return nil
	}
	known, err := s.namespaces(ctx)
	if err != nil {
		return err
	}
	answer.CheckedNamespaces = &adminv1.CheckedNamespaces{}
	for _, asked := range q.Namespaces {
		if asked == "" || asked == defaultNamespace || slices.Contains(known, asked) {
			continue
		}
		unknown := &adminv1.UnknownNamespace{Name: asked}
		if unlimited {
			unknown.Nearest = nearest.Word(asked, append(known, defaultNamespace))
		}
		answer.CheckedNamespaces.Unknown = append(answer.CheckedNamespaces.Unknown, unknown)
	}
	return nil
}

// namespaces lists those that have something, in the database or in registries.
func (s *Service) namespaces(ctx context.Context) ([]string, error) {
	known, err := s.resources.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	if s.joined != nil {
		for _, k := range s.joined.Keys(func(k kinds.Key) bool { return k.Namespace != "" }) {
			known = append(known, k.Namespace)
		}
	}
	slices.Sort(known)
	return slices.Compact(known), nil
}
