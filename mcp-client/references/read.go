package references

import (
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

// reader collects the references in the spec of one resource.
type reader struct {
	*builder
	key kinds.Key
}

func kind(group, name string) *kinds.Kind {
	k, known := kinds.Lookup(group, name)
	if !known {
		panic("there is no kind " + name + "." + group)
	}
	return k
}

var (
	istioGateway    = kind("networking.istio.io", "Gateway")
	virtualService  = kind("networking.istio.io", "VirtualService")
	serviceEntry    = kind("networking.istio.io", "ServiceEntry")
	destinationRule = kind("networking.istio.io", "DestinationRule")
	gatewayClass    = kind("gateway.networking.k8s.io", "GatewayClass")
)

func text(tree any, field string) string {
	object, _ := tree.(map[string]any)
	value, _ := object[field].(string)
	return value
}

func (r *reader) host(short string) string { return reference.FullHost(short, r.key.Namespace) }

func (r *reader) qualify(namespace, short string) string {
	if namespace == "" {
		namespace = r.key.Namespace
	}
	return namespace + "/" + short
}

func (r *reader) mention(path string, n name) {
	if n.value != "" {
		r.mentions = append(r.mentions, mention{r.key, path, n})
	}
}

// read collects the names that the spec refers to, and those that it defines.
func (r *reader) read(spec map[string]any) {
	reference.Each(r.key.Kind, spec, r.reference)
	switch r.key.Kind {
	case serviceEntry:
		for _, h := range items(spec["hosts"]) {
			r.own(r.key, name{value: strings.ToLower(fmt.Sprint(h))})
		}
	case destinationRule:
		for _, s := range items(spec["subsets"]) {
			r.own(r.key, name{value: r.host(text(spec, "host")) + "/" + text(s, "name")})
		}
	}
}

func items(list any) []any {
	all, _ := list.([]any)
	return all
}

// reference adds the reference in one field, by its form.
func (r *reader) reference(path string, n *reference.Named, value any) {
	short, _ := value.(string)
	switch n.Form {
	case reference.HostForm:
		r.mention(path, name{value: r.host(short), wide: r.key.Kind == virtualService}) // a virtual service may be for single hosts of a wildcard
	case reference.DestinationForm:
		r.destination(path, value, r.host(text(value, "host")))
	case reference.FullHostForm:
		r.destination(path, value, strings.ToLower(text(value, "host")))
	case reference.GatewayForm:
		if short != "" && short != reference.Mesh {
			r.mention(path, name{kind: istioGateway, value: reference.FullGateway(short, r.key.Namespace)})
		}
	case reference.DelegateForm:
		if called := text(value, "name"); called != "" {
			r.mention(path, name{kind: virtualService, value: r.qualify(text(value, "namespace"), called)})
		}
	case reference.ClassForm:
		r.mention(path, name{kind: gatewayClass, value: short})
	case reference.AttachmentForm:
		r.refer(path, value, "gateway.networking.k8s.io", "Gateway")
	case reference.BackendForm:
		r.refer(path, value, "", "Service")
	case reference.CredentialForm, reference.PullSecretForm, reference.SecretForm: // no client can read secrets
	}
}

// destination adds a reference to a host and, if there is one, to its subset.
func (r *reader) destination(path string, d any, host string) {
	r.mention(path+".host", name{value: host})
	if subset := text(d, "subset"); subset != "" && host != "" {
		r.mention(path+".subset", name{value: host + "/" + subset})
	}
}

// refer adds a reference by group, kind, namespace and name. Only the name is required.
func (r *reader) refer(path string, ref any, group, kindName string) {
	if object, _ := ref.(map[string]any); object["group"] != nil {
		group = text(ref, "group")
	}
	if written := text(ref, "kind"); written != "" {
		kindName = written
	}
	short := text(ref, "name")
	if short == "" {
		return
	}
	full := r.qualify(text(ref, "namespace"), short)
	switch kindName {
	case "Service": // its host
		namespace, _, _ := strings.Cut(full, "/")
		r.mention(path, name{value: strings.ToLower(short + "." + namespace + "." + reference.ClusterDomain)})
		return
	case "Hostname":
		r.mention(path, name{value: strings.ToLower(short)})
		return
	}
	if k, known := kinds.Lookup(group, kindName); known {
		if !k.Namespaced {
			full = short
		}
		r.mention(path, name{kind: k, value: full})
	}
}
