// Package envoyfilter changes the messages that were translated for a proxy as EnvoyFilters say, in the way that Istio does.
//
// Messages share parts that may never be written to, so nothing is: a patch makes new messages of what it touches, which share with
// the old ones what it does not. Where no patch applies the messages come back as they are, at no cost.
//
// A patch can fail, or make of a message something that Envoy would refuse, and with it all that is sent beside it. So what the patches
// make of a resource is checked, and a patch that does this is left out for that resource; the others are applied.
package envoyfilter

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// Patcher applies the patches that are for one proxy. It is for one goroutine.
type Patcher struct {
	mesh     *mesh.Mesh
	proxy    *mesh.Proxy
	patches  byObject
	added    int // bytes that patches have added so far
	failures []*Failure
}

// totalGrowth limits, in bytes, how much larger one Patcher makes messages. A patch applies to each resource that it matches. There may be thousands, so
// without a limit a small EnvoyFilter makes discovery hold gigabytes.
const totalGrowth = 64 << 20

// byObject has patches by what they are for.
type byObject map[networking.EnvoyFilter_ApplyTo][]mesh.Patch

func grouped(patches []mesh.Patch) byObject {
	out := byObject{}
	for _, patch := range patches {
		out[patch.ApplyTo] = append(out[patch.ApplyTo], patch)
	}
	return out
}

// has tells whether there are patches for one of these.
func (b byObject) has(objects ...networking.EnvoyFilter_ApplyTo) bool {
	return slices.ContainsFunc(objects, func(o networking.EnvoyFilter_ApplyTo) bool { return len(b[o]) > 0 })
}

// of lists the patches for these objects, by what they are for and then in their order.
func (b byObject) of(objects ...networking.EnvoyFilter_ApplyTo) (out []mesh.Patch) {
	for _, o := range objects {
		out = append(out, b[o]...)
	}
	return out
}

// For returns what changes the messages of a proxy.
func For(m *mesh.Mesh, p *mesh.Proxy) *Patcher {
	all := m.Patches(p)
	if len(all) == 0 {
		return &Patcher{}
	}
	return &Patcher{mesh: m, proxy: p, patches: grouped(all)}
}

// Patches tells whether there are patches for one of these.
func (p *Patcher) Patches(objects ...networking.EnvoyFilter_ApplyTo) bool {
	return p.patches.has(objects...)
}

// context is that of what was translated, by the direction in which it carries requests.
func (p *Patcher) context(inbound bool) networking.EnvoyFilter_PatchContext {
	switch {
	case p.proxy.Type == mesh.Router:
		return networking.EnvoyFilter_GATEWAY
	case inbound:
		return networking.EnvoyFilter_SIDECAR_INBOUND
	default:
		return networking.EnvoyFilter_SIDECAR_OUTBOUND
	}
}

// contexts are those that the resources of the proxy have.
func (p *Patcher) contexts() []networking.EnvoyFilter_PatchContext {
	if p.proxy.Type == mesh.Router {
		return []networking.EnvoyFilter_PatchContext{networking.EnvoyFilter_GATEWAY}
	}
	return []networking.EnvoyFilter_PatchContext{networking.EnvoyFilter_SIDECAR_OUTBOUND, networking.EnvoyFilter_SIDECAR_INBOUND}
}

// adds tells whether a patch adds to the resources of a context. One that is for any does so once: where requests go out.
func adds(patch mesh.Patch, context networking.EnvoyFilter_PatchContext) bool {
	return patch.Operation == networking.EnvoyFilter_Patch_ADD && patch.In(context) &&
		(patch.Context != networking.EnvoyFilter_ANY || context != networking.EnvoyFilter_SIDECAR_INBOUND)
}

// Failure is a patch that was not applied to a resource.
type Failure struct {
	Patch mesh.Patch
	// Resource is the name of the cluster, listener, route configuration or extension configuration.
	Resource string
	Reason   string
}

// Path is where the patch is written.
func (f *Failure) Path() string { return fmt.Sprintf("spec.configPatches[%d]", f.Patch.Index) }

// Failures are the patches that were not applied so far, and why.
func (p *Patcher) Failures() []*Failure { return p.failures }

func (p *Patcher) fail(patch mesh.Patch, resource, reason string) {
	p.failures = append(p.failures, &Failure{Patch: patch, Resource: resource, Reason: reason})
}

// edit is one attempt to apply patches to a resource.
type edit struct {
	patches byObject
	context networking.EnvoyFilter_PatchContext
	reason  string // why it failed
}

func (e *edit) fail(reason string) {
	if e.reason == "" {
		e.reason = reason
	}
}

// changing applies an edit to a message, and tells whether it still is there.
type changing[M proto.Message] func(*edit, M) (M, bool)

// settle applies patches to a resource: all, or, if that cannot be, one after the other those that can. It reports whether the
// resource still is there.
func settle[M proto.Message](p *Patcher, name string, context networking.EnvoyFilter_PatchContext, all []mesh.Patch, m M, apply changing[M]) (M, bool) {
	all = slices.DeleteFunc(all, func(patch mesh.Patch) bool { return !patch.In(context) })
	if len(all) == 0 {
		return m, true
	}
	before := envoyProblems(m)
	if out, there, reason := attempt(context, all, m, apply, before); reason == "" {
		return grown(p, name, all, m, out, there)
	}
	var kept []mesh.Patch
	best, there := m, true
	for _, patch := range all {
		with := append(slices.Clone(kept), patch)
		out, still, reason := attempt(context, with, m, apply, before)
		if reason != "" {
			p.fail(patch, name, reason)
			continue
		}
		kept, best, there = with, out, still
	}
	return grown(p, name, kept, m, best, there)
}

// grown leaves out the patches of a resource if they exceed totalGrowth.
func grown[M proto.Message](p *Patcher, name string, patches []mesh.Patch, m, out M, there bool) (M, bool) {
	if !there || proto.Message(out) == proto.Message(m) {
		return out, there
	}
	by := proto.Size(out) - proto.Size(m)
	if by <= 0 || p.added+by <= totalGrowth {
		p.added += max(by, 0)
		return out, there
	}
	for _, patch := range patches {
		p.fail(patch, name, fmt.Sprintf("EnvoyFilters may make what a proxy is sent larger by %d MiB, and would by more: write less, or match fewer resources", totalGrowth>>20))
	}
	return m, true
}

// attempt applies patches and returns why that does not do.
func attempt[M proto.Message](context networking.EnvoyFilter_PatchContext, patches []mesh.Patch, m M, apply changing[M], before func() map[string]bool) (M, bool, string) {
	e := &edit{context: context, patches: grouped(patches)}
	out, there := apply(e, m)
	switch {
	case e.reason != "":
		return m, true, e.reason
	case !there || proto.Message(out) == proto.Message(m):
		return out, there, ""
	}
	for _, problem := range envoy.Check(out) {
		if text := inWords(problem); !before()[text] {
			return m, true, text
		}
	}
	return out, there, ""
}

// envoyProblems is what is wrong with a message before it is patched: no patch is to blame for it. It is asked for seldom.
func envoyProblems(m proto.Message) func() map[string]bool {
	var found map[string]bool
	return func() map[string]bool {
		if found == nil {
			found = map[string]bool{}
			for _, problem := range envoy.Check(m) {
				found[inWords(problem)] = true
			}
		}
		return found
	}
}

func inWords(p envoy.Problem) string {
	if p.Path == "" {
		return p.InWords()
	}
	return p.Path + ": " + p.InWords()
}
