package admin

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/history"
	"github.com/pgmesh/pgmesh/store/problems"
	"github.com/pgmesh/pgmesh/store/resources"
)

// A caller without unlimited rights is checked against its scopes here: for one key, or for every
// namespace and kind of a selection. A selection that names no namespaces or no kinds is narrowed
// to those of the scopes.

// require checks that the caller may do v to each key.
func require(ctx context.Context, v caller.Verb, keys ...kinds.Key) error {
	who := caller.From(ctx)
	for _, k := range keys {
		err := who.Require(v, k.Namespace, k.Kind)
		if err == nil && v != caller.Read && k.Kind == kinds.Secret {
			err = who.RequireSecrets(k.Namespace)
		}
		if err != nil {
			return caller.StatusOf(err)
		}
	}
	return nil
}

func requireUnlimited(ctx context.Context, v caller.Verb) error {
	return caller.StatusOf(caller.From(ctx).RequireUnlimited(v))
}

// anyNamespace matches only scopes for all namespaces: no namespace can be called so.
const anyNamespace = "*"

// narrow fills in the namespaces and kinds that a selection leaves open from the caller's scopes,
// and then checks it.
func narrow(ctx context.Context, v caller.Verb, s *resources.Selection) error {
	who := caller.From(ctx)
	if who.Unlimited(v) {
		return nil
	}
	scopes := slices.DeleteFunc(who.Scopes(), func(c caller.Scope) bool { return v != caller.Read && c.Verb == caller.Read })
	if len(scopes) == 0 {
		return requireUnlimited(ctx, v)
	}
	if len(s.Namespaces) == 0 {
		s.Namespaces = namespacesOf(scopes, v)
	}
	if len(s.Kinds) == 0 {
		s.Kinds = kindsIn(scopes, v)
	}
	return within(ctx, v, *s)
}

// namespacesOf returns the union of the scopes' namespaces; nil if one scope is for all namespaces.
func namespacesOf(scopes []caller.Scope, v caller.Verb) (all []string) {
	for _, c := range scopes {
		if c.Namespaces == nil {
			return nil
		}
		all = append(all, c.Namespaces...)
	}
	if v == caller.Read {
		all = append(all, "")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// kindsIn returns the union of the scopes' kinds; nil if one scope is for all kinds.
func kindsIn(scopes []caller.Scope, v caller.Verb) (all []*kinds.Kind) {
	for _, c := range scopes {
		of := c.Kinds
		switch {
		case of == nil && (v == caller.Read || c.Namespaces == nil):
			return nil
		case of == nil:
			of = slices.DeleteFunc(kinds.All(), func(k *kinds.Kind) bool { return k.Bare }) // bare kinds belong to the whole mesh
		}
		for _, k := range of {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

// within returns an error if a selection goes beyond what the caller may do.
func within(ctx context.Context, v caller.Verb, s resources.Selection) error {
	namespaces, of := s.Namespaces, s.Kinds
	if len(namespaces) == 0 {
		namespaces = []string{anyNamespace}
	}
	if len(of) == 0 {
		of = kinds.All()
	}
	for _, namespace := range namespaces {
		for _, k := range of {
			if namespace != anyNamespace && k.Namespaced == (namespace == "") {
				continue // no resource of this kind can be there
			}
			if err := require(ctx, v, kinds.Key{Kind: k, Namespace: namespace}); err != nil {
				return err
			}
		}
	}
	return nil
}

// requireRevision checks that the caller may write everything that a revision changed.
func (s *Service) requireRevision(ctx context.Context, revision store.Revision) error {
	if caller.From(ctx).Unlimited(caller.Write) {
		return nil
	}
	if revision == 0 {
		return status.Error(codes.InvalidArgument, "revision: name it, for you may not confirm any other")
	}
	page, err := s.history.Revisions(ctx, history.Query{Only: revision, AtMost: 1, Changes: maxChangesOfOne, MaxSize: maxAnswerBytes})
	if err != nil {
		return s.fail(ctx, err)
	}
	for _, r := range page.Revisions {
		if r.Omitted > 0 {
			return requireUnlimited(ctx, caller.Write)
		}
		for _, c := range r.Changes {
			if err := require(ctx, caller.Write, c.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// readingOf returns the namespaces that the caller may read; nil stands for all.
func readingOf(ctx context.Context) *problems.Reading {
	namespaces, all := caller.From(ctx).Within(caller.Read)
	if all {
		return nil
	}
	return &problems.Reading{Namespaces: namespaces}
}

// readable keeps the problems of resources that the caller may read.
func readable(ctx context.Context, found []*adminv1.Problem) []*adminv1.Problem {
	who := caller.From(ctx)
	return slices.DeleteFunc(found, func(p *adminv1.Problem) bool {
		of := p.GetResource()
		if of.GetGroup() == identityGroup {
			return who.RequireWithin(caller.Read, of.GetNamespace(), "see the members") != nil
		}
		k, known := kinds.Lookup(of.GetGroup(), of.GetKind())
		return !known && !who.Unlimited(caller.Read) || known && !who.May(caller.Read, of.GetNamespace(), k)
	})
}

// identityGroup is the group of what belongs to membership and is no resource: join tokens and
// authorities.
const identityGroup = "identity.pgmesh.io"
