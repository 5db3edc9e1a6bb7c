package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// overtaken is how often a change is made anew that others have overtaken.
const overtaken = 5

// modify reads resources as they are stored, has each changed as a tree of JSON, and applies them all
// as one revision, or none. It is anew from the reading if somebody else has changed one meanwhile. A
// tree in which the change has set another resourceVersion is refused if that is not in force.
func (p program) modify(ctx context.Context, keys []kinds.Key, w change.Options, edit func(map[string]any) (map[string]any, error)) error {
	return untilNotOvertaken(func() (pinned bool, err error) {
		documents, pinned, err := p.modified(ctx, keys, edit)
		if err != nil {
			return false, err
		}
		return pinned, change.Apply(ctx, p.Session, documents, w)
	})
}

// untilNotOvertaken makes a change anew while others overtake it, unless it is pinned to a revision.
func untilNotOvertaken(attemptOnce func() (pinned bool, err error)) error {
	for attempt := 1; ; attempt++ {
		pinned, err := attemptOnce()
		if _, conflict := errors.AsType[*failure.Conflict](err); !conflict || pinned || attempt == overtaken {
			return err
		}
	}
}

// modified returns the changed resources, and whether a change says of which revision it is.
func (p program) modified(ctx context.Context, keys []kinds.Key, edit func(map[string]any) (map[string]any, error)) (all []*kinds.Document, pinned bool, err error) {
	for _, key := range keys {
		tree, err := p.stored(ctx, key)
		if err != nil {
			return nil, false, err
		}
		read := versionIn(tree)
		tree, err = edit(tree)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", key, err)
		}
		pinned = pinned || versionIn(tree) != read
		document, err := documentOf(key, tree)
		if err != nil {
			return nil, false, err
		}
		all = append(all, document)
	}
	return all, pinned, nil
}

// stored reads a resource as a tree of JSON.
func (p program) stored(ctx context.Context, key kinds.Key) (map[string]any, error) {
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Get, &adminv1.GetRequest{Resource: connect.RefOf(key)})
	if err != nil {
		return nil, err
	}
	return treeOf(resp.GetResource())
}

// treeOf is a resource as a tree of JSON.
func treeOf(r *adminv1.Resource) (tree map[string]any, err error) {
	text, err := protojson.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.GetKind(), r.GetMetadata().GetName(), err)
	}
	return tree, json.Unmarshal(text, &tree)
}

// versionIn returns the resourceVersion of a tree.
func versionIn(tree map[string]any) any {
	metadata, _ := tree["metadata"].(map[string]any)
	return metadata["resourceVersion"]
}

// documentOf reads a changed tree. It has to be the same resource.
func documentOf(key kinds.Key, tree map[string]any) (*kinds.Document, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	documents, err := kinds.Parser{DefaultNamespace: key.Namespace, Examine: envoy.Examine}.Parse("", text)
	if wrong, ok := errors.AsType[kinds.Errors](err); ok {
		for i := range wrong {
			wrong[i].Document, wrong[i].Line = 0, 0 // the text is ours, and of one line
		}
		return nil, &failure.Refused{Violations: wrong}
	}
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 || documents[0].Resource.Key() != key {
		return nil, fmt.Errorf("%s: it would be another resource: keep kind, name and namespace; apply makes new resources", key)
	}
	documents[0].Index, documents[0].Line = 0, 0 // it is in no file
	return documents[0], nil
}

// named returns the keys of resources that a command changes, each of which has to be named.
func (p program) named(args []string, verb string) ([]kinds.Key, error) {
	query, err := arguments.Parse(args)
	if err != nil {
		return nil, failure.Usage(nil, err)
	}
	var keys []kinds.Key
	for _, q := range query {
		if q.Name == "" || p.Namespace.All && q.Namespace == "" {
			return nil, failure.Usage(nil, errors.New(verb+" takes the names of resources"))
		}
		keys = append(keys, q.In(p.Namespace))
	}
	return arguments.Distinct(keys), nil
}
