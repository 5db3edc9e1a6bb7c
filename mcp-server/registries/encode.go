package registries

import (
	"errors"
	"maps"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
)

// mostBytes bounds one resource: clients must be able to take it in one message.
const mostBytes = 3 << 20

// encoded is a resource as it is served, or what is wrong with it.
type encoded struct {
	served *served.Resource
	wrong  error
}

// encodeAll encodes the resources of changes that are not served yet, on all processors: it is most of
// what a server does that starts with a large registry.
func (o *origin) encodeAll(changes []kinds.Change) []encoded {
	out := make([]encoded, len(changes))
	var underway errgroup.Group
	underway.SetLimit(runtime.GOMAXPROCS(0))
	for i, change := range changes {
		if change.Resource == nil || o.has[change.Key].from == change.Resource {
			continue
		}
		underway.Go(func() error {
			out[i].served, out[i].wrong = o.encode(change.Resource)
			return nil
		})
	}
	_ = underway.Wait() // what is wrong is told of each
	return out
}

// encode checks a resource and converts it into the form that is sent to clients, which says where
// it comes from. One that is wrong must not stop the others, whatever it is.
func (o *origin) encode(r *kinds.Resource) (*served.Resource, error) {
	return panics.Receive(func() (*served.Resource, error) {
		if r.Kind == kinds.Secret {
			return nil, errors.New("a secret is no resource, and is not served as one")
		}
		spec, err := r.SpecTree()
		if err != nil {
			return nil, err
		}
		marked := o.marked(r)
		if err := check(marked, spec); err != nil {
			return nil, err
		}
		version, err := spec.Version(marked.Labels, marked.Annotations, r.CreateTime)
		if err != nil {
			return nil, err
		}
		body, err := marked.Any(version)
		if err != nil {
			return nil, err
		}
		if len(body.GetValue()) > mostBytes {
			return nil, errors.New("it takes more than 3 MiB")
		}
		return served.NewResource(r.Key().FullName(), version, body), nil
	})
}

// marked is the resource with annotations that say where it comes from.
func (o *origin) marked(r *kinds.Resource) *kinds.Resource {
	out := *r
	out.Annotations = make(map[string]string, len(r.Annotations)+2)
	maps.Copy(out.Annotations, r.Annotations)
	out.Annotations[kinds.OriginAnnotation], out.Annotations[kinds.OriginRankAnnotation] = o.registry.Name(), o.rank
	return &out
}

func check(r *kinds.Resource, spec kinds.Tree) error {
	wrong := r.Kind.CheckTree(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations})
	if len(wrong) > 0 {
		return kinds.Errors(wrong)
	}
	return nil
}

// keyOf splits the name under which a resource is served.
func keyOf(kind *kinds.Kind, fullName string) kinds.Key {
	if namespace, name, found := strings.Cut(fullName, "/"); found {
		return kinds.Key{Kind: kind, Namespace: namespace, Name: name}
	}
	return kinds.Key{Kind: kind, Name: fullName}
}

// entryOf reads of which entry of its registry a resource was made.
func entryOf(r *served.Resource) string {
	envelope := &mcp.Resource{}
	if err := proto.Unmarshal(r.Body.GetValue(), envelope); err != nil {
		return ""
	}
	return envelope.GetMetadata().GetAnnotations()[kinds.OriginEntryAnnotation]
}
