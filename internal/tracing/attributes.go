package tracing

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
)

// The attributes of spans. docs/traces.md lists them.
const (
	RevisionKey    = "pgmesh.revision"
	MeshKey        = "pgmesh.mesh"
	AuthorKey      = "pgmesh.author"
	ApplicationKey = "pgmesh.application"
	MessageKey     = "pgmesh.message"
	ResourcesKey   = "pgmesh.resources"
	KindsKey       = "pgmesh.kinds"
	NamespacesKey  = "pgmesh.namespaces"
	ClientKey      = "pgmesh.client"
	ProtocolKey    = "pgmesh.protocol"
	TypeKey        = "pgmesh.type"
	RemovedKey     = "pgmesh.removed"
	MergedKey      = "pgmesh.merged"
	WithKey        = "pgmesh.travels_with"
	ProxyKey       = "pgmesh.proxy"
	ConcernedKey   = "pgmesh.proxies.concerned"
	RanKey         = "pgmesh.proxies.ran"
	RefusedKey     = "pgmesh.proxies.refused"
	AwayKey        = "pgmesh.proxies.away"
	UnfinishedKey  = "pgmesh.proxies.unfinished"
	ReasonKey      = "pgmesh.reason"
	UpstreamKey    = "pgmesh.upstream"
	TranslatedKey  = "pgmesh.translated." // and a type
)

// Headers of an xDS stream. By them a discovery tells the agent which mesh the revisions belong to,
// and the key of the span that the agent's own spans are part of.
const (
	MeshHeader   = "pgmesh-mesh"
	ParentHeader = "pgmesh-trace-parent"
)

// mostNames bounds a list of names in an attribute.
const mostNames = 20

// Names collects a few different names of the many that there may be.
type Names struct {
	names []string
	more  bool
}

// Add adds a name, if there is room.
func (n *Names) Add(name string) {
	switch {
	case name == "" || slices.Contains(n.names, name):
	case len(n.names) == mostNames:
		n.more = true
	default:
		n.names = append(n.names, name)
	}
}

// As returns the names in order, "…" among them if they are not all.
func (n *Names) As(key string) attribute.KeyValue {
	sorted := slices.Sorted(slices.Values(n.names))
	if n.more {
		sorted = append(sorted, "…")
	}
	return attribute.StringSlice(key, sorted)
}
