package references

import (
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// reader reads the spec of one resource.
type reader struct {
	*builder
	key kinds.Key
}

// readers has what the spec of each kind says. Two kinds are called Gateway; what they have in common in names is nothing.
var readers = map[string]func(*reader, map[string]any){
	"VirtualService":        (*reader).virtualService,
	"DestinationRule":       (*reader).destinationRule,
	"ServiceEntry":          (*reader).serviceEntry,
	"Gateway":               (*reader).gateway,
	"HTTPRoute":             (*reader).route,
	"GRPCRoute":             (*reader).route,
	"TCPRoute":              (*reader).route,
	"TLSRoute":              (*reader).route,
	"UDPRoute":              (*reader).route,
	"ListenerSet":           (*reader).attachments,
	"AuthorizationPolicy":   (*reader).attachments,
	"RequestAuthentication": (*reader).attachments,
	"Telemetry":             (*reader).attachments,
	"WasmPlugin":            (*reader).attachments,
	"BackendTLSPolicy":      (*reader).attachments,
	"XBackendTrafficPolicy": (*reader).attachments,
}

func kind(group, name string) *kinds.Kind {
	k, known := kinds.Lookup(group, name)
	if !known {
		panic("there is no kind " + name + "." + group)
	}
	return k
}

var (
	istioGateway   = kind("networking.istio.io", "Gateway")
	virtualService = kind("networking.istio.io", "VirtualService")
	gatewayClass   = kind("gateway.networking.k8s.io", "GatewayClass")
)

// each hands the items of a list, and the path of each, to read.
func each(list any, path string, read func(path string, item any)) {
	items, _ := list.([]any)
	for i, item := range items {
		read(fmt.Sprintf("%s[%d]", path, i), item)
	}
}

func text(tree any, field string) string {
	object, _ := tree.(map[string]any)
	value, _ := object[field].(string)
	return value
}

func at(tree any, field string) any {
	object, _ := tree.(map[string]any)
	return object[field]
}

// host completes a name without dots, as routes and rules have it.
func (r *reader) host(short string) string {
	if short != "" && !strings.ContainsAny(short, ".:*") {
		short += "." + r.key.Namespace + ".svc.cluster.local"
	}
	return strings.ToLower(short)
}

func (r *reader) named(namespace, short string) string {
	if strings.Contains(short, "/") {
		return short
	}
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

func (r *reader) virtualService(spec map[string]any) {
	each(spec["hosts"], "spec.hosts", func(path string, h any) {
		host, _ := h.(string)
		r.mention(path, name{value: r.host(host)})
	})
	each(spec["gateways"], "spec.gateways", func(path string, g any) {
		if gateway, _ := g.(string); gateway != "" && gateway != "mesh" {
			r.mention(path, name{istioGateway, r.named("", gateway)})
		}
	})
	for _, protocol := range []string{"http", "tls", "tcp"} {
		each(spec[protocol], "spec."+protocol, func(path string, route any) {
			each(at(route, "route"), path+".route", func(path string, to any) { r.destination(path+".destination", at(to, "destination")) })
			r.destination(path+".mirror", at(route, "mirror"))
			each(at(route, "mirrors"), path+".mirrors", func(path string, to any) { r.destination(path+".destination", at(to, "destination")) })
			if d := at(route, "delegate"); text(d, "name") != "" {
				r.mention(path+".delegate", name{virtualService, r.named(text(d, "namespace"), text(d, "name"))})
			}
		})
	}
}

// destination is a host and, where it is named, a subset of it.
func (r *reader) destination(path string, d any) {
	host := r.host(text(d, "host"))
	r.mention(path+".host", name{value: host})
	if subset := text(d, "subset"); subset != "" {
		r.mention(path+".subset", name{value: host + "/" + subset})
	}
}

func (r *reader) destinationRule(spec map[string]any) {
	host := r.host(text(spec, "host"))
	r.mention("spec.host", name{value: host})
	each(spec["subsets"], "", func(_ string, s any) { r.own(r.key, name{value: host + "/" + text(s, "name")}) })
}

func (r *reader) serviceEntry(spec map[string]any) {
	each(spec["hosts"], "", func(_ string, h any) {
		host, _ := h.(string)
		r.own(r.key, name{value: strings.ToLower(host)})
	})
}

func (r *reader) gateway(spec map[string]any) {
	if class := text(spec, "gatewayClassName"); class != "" {
		r.mention("spec.gatewayClassName", name{gatewayClass, class})
	}
}

func (r *reader) route(spec map[string]any) {
	each(spec["parentRefs"], "spec.parentRefs", r.attachment)
	each(spec["rules"], "spec.rules", func(path string, rule any) {
		each(at(rule, "backendRefs"), path+".backendRefs", r.backend)
		each(at(rule, "filters"), path+".filters", func(path string, f any) {
			r.backend(path+".requestMirror.backendRef", at(at(f, "requestMirror"), "backendRef"))
		})
	})
}

func (r *reader) attachments(spec map[string]any) {
	if ref := spec["parentRef"]; ref != nil {
		r.attachment("spec.parentRef", ref)
	}
	if ref := spec["targetRef"]; ref != nil {
		r.attachment("spec.targetRef", ref)
	}
	each(spec["targetRefs"], "spec.targetRefs", r.attachment)
}

// attachment names a resource by group, kind, namespace and name, of which the name alone must be written.
func (r *reader) attachment(path string, ref any) {
	r.refer(path, ref, "gateway.networking.k8s.io", "Gateway")
}

func (r *reader) backend(path string, ref any) { r.refer(path, ref, "", "Service") }

func (r *reader) refer(path string, ref any, group, kindName string) {
	if written, found := at(ref, "group").(string); found {
		group = written
	}
	if written := text(ref, "kind"); written != "" {
		kindName = written
	}
	short := text(ref, "name")
	if short == "" {
		return
	}
	full := r.named(text(ref, "namespace"), short)
	switch kindName {
	case "Service": // is its host
		namespace, _, _ := strings.Cut(full, "/")
		r.mention(path, name{value: strings.ToLower(short + "." + namespace + ".svc.cluster.local")})
		return
	case "Hostname":
		r.mention(path, name{value: strings.ToLower(short)})
		return
	}
	if k, known := kinds.Lookup(group, kindName); known {
		if !k.Namespaced {
			full = short
		}
		r.mention(path, name{k, full})
	}
}
