package kuma

import (
	"maps"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
)

// ref is a targetRef: which proxies a policy is for, or which services they ask.
type ref struct {
	kind, name string
	tags       map[string]string
	port       uint32
	odd        bool // it says more than is understood
}

func refOf(o *fields.Object) ref {
	if o == nil {
		return ref{kind: "Mesh"}
	}
	r := ref{kind: o.Text("kind"), name: o.Text("name"), tags: maps.Clone(o.Map("tags"))}
	labels := o.Map("labels")
	if r.tags == nil {
		r.tags = labels
	}
	if named := labels["kuma.io/display-name"]; named != "" && r.name == "" && len(labels) == 1 {
		r.name, r.tags = named, nil
	}
	r.port, _ = o.Whole("port")
	o.Skip("namespace", "sectionName", "weight", "mesh")
	types := o.Texts("proxyTypes")
	r.odd = o.Has("sectionName") || len(types) == 1 && types[0] == "Gateway" || o.Has("labels") && labels == nil || o.Has("tags") && r.tags == nil
	return r
}

// all reports whether the whole mesh is meant.
func (r ref) all() bool { return r.kind == "Mesh" && !r.odd }

// wanted are the labels that a proxy has if it is meant; false if they cannot be said.
func (c *Conversion) wanted(r ref) (map[string]string, bool) {
	out := map[string]string{}
	switch r.kind {
	case "Mesh":
	case "MeshSubset", "Dataplane":
		if r.name != "" {
			out[dataplaneLabel] = r.name
		}
	case "MeshService", "MeshServiceSubset":
		out[serviceTag] = r.name
		if s := c.services[r.name]; s != nil && len(s.entry.GetWorkloadSelector().GetLabels()) > 0 {
			out = maps.Clone(s.entry.GetWorkloadSelector().GetLabels())
		}
	default:
		return nil, false
	}
	maps.Copy(out, r.tags)
	return out, !r.odd
}
