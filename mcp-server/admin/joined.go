package admin

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Joined are registries whose resources this server serves beside the database's.
type Joined interface {
	// Find returns the registry that has a resource, and what it is there; "" for none.
	Find(kinds.Key) (registry, entry string)
	// Get returns a resource as it is served; nil if no registry has it.
	Get(kinds.Key) (*kinds.Resource, error)
	// Keys returns what is served of registries, as far as it is wanted, sorted.
	Keys(wanted func(kinds.Key) bool) []kinds.Key
}

// getJoined reads a resource that the database has not; nil if no registry has it either.
func (s *Service) getJoined(k kinds.Key) (*adminv1.Resource, error) {
	if s.joined == nil {
		return nil, nil
	}
	found, err := s.joined.Get(k)
	if found == nil || err != nil {
		return nil, err
	}
	spec, err := found.SpecJSON()
	if err != nil {
		return nil, err
	}
	return joinedResource(found, spec)
}

// joinedResource converts a resource of a registry to the form that people write. It has no revision.
func joinedResource(r *kinds.Resource, spec []byte) (*adminv1.Resource, error) {
	made := &structpb.Struct{}
	if err := made.UnmarshalJSON(spec); err != nil {
		return nil, err
	}
	return &adminv1.Resource{
		ApiVersion: r.Kind.APIVersion(), Kind: r.Kind.Name, Spec: made,
		Metadata: &adminv1.Metadata{
			Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations, CreationTimestamp: stamp.Of(r.CreateTime),
		},
	}, nil
}

// joinedBatch is how many resources of registries are read together.
const joinedBatch = 200

// listJoined fills a page with resources of registries, which come after those of the database. It
// returns the last that it looked at, and whether there are more.
func (s *Service) listJoined(ctx context.Context, q resources.Query, answer *adminv1.ListResponse) (last *kinds.Key, more bool, err error) {
	keys := s.joined.Keys(func(k kinds.Key) bool { return selects(q.Selection, k) })
	if q.After != nil {
		at, found := slices.BinarySearchFunc(keys, *q.After, kinds.Key.Compare)
		if found {
			at++
		}
		keys = keys[at:]
	}
	last = q.After
	for len(keys) > 0 {
		if len(answer.GetResources()) >= q.AtMost || q.MaxSize <= 0 {
			return last, true, nil
		}
		batch := keys[:min(len(keys), joinedBatch, q.AtMost-len(answer.GetResources()))]
		read, err := s.readJoined(ctx, q, batch)
		if err != nil {
			return nil, false, err
		}
		for i, r := range read {
			last = &batch[i]
			if r.resource == nil {
				continue
			}
			answer.Resources, q.MaxSize = append(answer.Resources, r.resource), q.MaxSize-r.size
			if q.MaxSize <= 0 {
				return last, len(keys) > i+1, nil
			}
		}
		keys = keys[len(batch):]
	}
	return last, false, nil
}

// joined is a resource of a registry; nil if it is not what was asked for, or is gone meanwhile.
type joined struct {
	resource *adminv1.Resource
	size     int
}

// readJoined reads resources of registries, one for each key.
func (s *Service) readJoined(ctx context.Context, q resources.Query, keys []kinds.Key) ([]joined, error) {
	read, specs := make([]joined, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		found, err := s.joined.Get(k)
		if err != nil {
			return nil, err
		}
		if found == nil || !q.Labels.Matches(found.Labels) {
			continue
		}
		spec, err := found.SpecJSON()
		if err != nil {
			return nil, err
		}
		read[i].size, specs[i] = len(spec), string(spec)
		if read[i].resource, err = joinedResource(found, spec); err != nil {
			return nil, err
		}
	}
	if q.Where == "" {
		return read, nil
	}
	fits, err := s.resources.Fit(ctx, q.Where, specs)
	if err != nil {
		return nil, err
	}
	for i := range read {
		if !fits[i] {
			read[i].resource = nil
		}
	}
	return read, nil
}

// selects reports whether a selection may have a resource, by its key alone.
func selects(s resources.Selection, k kinds.Key) bool {
	return s.Has(k.Kind.Group, k.Kind.Name) && (len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, k.Namespace)) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, k.Name))
}

// addJoined ends a list with what registries have, unless it is of the past: they have none.
func (s *Service) addJoined(ctx context.Context, req *adminv1.ListRequest, q resources.Query, answer *adminv1.ListResponse) error {
	if s.joined == nil || req.GetAsOf() != nil {
		return nil
	}
	last, more, err := s.listJoined(ctx, q, answer)
	if err != nil || !more {
		return err
	}
	next := token{Asked: requestDigest(req), Revision: answer.GetRevision(), Joined: true}
	if last != nil {
		next.Group, next.Kind, next.In, next.Name = last.Kind.Group, last.Kind.Name, last.Namespace, last.Name
	}
	answer.NextPageToken = next.String()
	return nil
}
