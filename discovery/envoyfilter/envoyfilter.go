// Package envoyfilter patches the messages that were translated for a proxy, as EnvoyFilters say
// and in the way that Istio does.
//
// Messages share parts, which must never be written to. So a patch makes new messages of what it
// changes, which share the rest with the old ones. Without patches the messages come back as they
// are, at no cost.
//
// A patch can fail, or turn a message into one that Envoy would refuse, together with everything in
// the same response. So the result is checked for each resource. A patch with a bad result is left
// out for that resource, and the others are applied.
package envoyfilter

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// Patcher applies the patches for one proxy. One goroutine may use it.
type Patcher struct {
	mesh     *mesh.Mesh
	proxy    *mesh.Proxy
	patches  byObject
	added    int // bytes that patches have added so far
	failures []*Failure
}

// totalGrowth limits, in bytes, how much larger one Patcher makes messages. A patch applies to each
// resource that it matches. There may be thousands, so without a limit a small EnvoyFilter makes
// discovery hold gigabytes.
const totalGrowth = 64 << 20

// byObject groups patches by what they apply to.
type byObject map[networking.EnvoyFilter_ApplyTo][]mesh.Patch

func grouped(patches []mesh.Patch) byObject {
	out := byObject{}
	for _, patch := range patches {
		out[patch.ApplyTo] = append(out[patch.ApplyTo], patch)
	}
	return out
}

// has reports whether there are patches for one of these.
func (b byObject) has(objects ...networking.EnvoyFilter_ApplyTo) bool {
	return slices.ContainsFunc(objects, func(o networking.EnvoyFilter_ApplyTo) bool { return len(b[o]) > 0 })
}

// of lists the patches for these objects, grouped by object, each group in its order.
func (b byObject) of(objects ...networking.EnvoyFilter_ApplyTo) (out []mesh.Patch) {
	for _, o := range objects {
		out = append(out, b[o]...)
	}
	return out
}

// For returns the patcher for a proxy.
func For(m *mesh.Mesh, p *mesh.Proxy) *Patcher {
	all := m.Patches(p)
	if len(all) == 0 {
		return &Patcher{}
	}
	return &Patcher{mesh: m, proxy: p, patches: grouped(all)}
}

// Patches reports whether there are patches for one of these.
func (p *Patcher) Patches(objects ...networking.EnvoyFilter_ApplyTo) bool {
	return p.patches.has(objects...)
}

// context is the patch context for what carries requests in a direction.
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

// contexts returns the contexts in which patches match resources of the proxy.
func (p *Patcher) contexts() []networking.EnvoyFilter_PatchContext {
	if p.proxy.Type == mesh.Router {
		return []networking.EnvoyFilter_PatchContext{networking.EnvoyFilter_GATEWAY}
	}
	return []networking.EnvoyFilter_PatchContext{networking.EnvoyFilter_SIDECAR_OUTBOUND, networking.EnvoyFilter_SIDECAR_INBOUND}
}

// adds reports whether a patch adds to the resources of a context. A patch for any context adds
// once: to the outbound one.
func adds(patch mesh.Patch, context networking.EnvoyFilter_PatchContext) bool {
	return patch.Operation == networking.EnvoyFilter_Patch_ADD && patch.In(context) &&
		(patch.Context != networking.EnvoyFilter_ANY || context != networking.EnvoyFilter_SIDECAR_INBOUND)
}

// Failure is a patch that could not be applied to a resource.
type Failure struct {
	Patch mesh.Patch
	// Resource is the name of the cluster, listener, route configuration or extension
	// configuration.
	Resource string
	Reason   string
}

// Path is the field in which the patch is written.
func (f *Failure) Path() string { return f.Patch.Path() }

// Failures returns the patches that could not be applied so far.
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

// changing applies an edit to a message, and reports whether the message is still there.
type changing[M proto.Message] func(*edit, M) (M, bool)

// applyPatches applies patches to a resource: all of them, or, if that fails, each that can be
// applied, one after the other. It reports whether the resource is still there.
func applyPatches[M proto.Message](p *Patcher, name string, context networking.EnvoyFilter_PatchContext, all []mesh.Patch, m M, apply changing[M]) (M, bool) {
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

// attempt applies patches, and returns the reason if the result is not valid.
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

// envoyProblems returns what is wrong with a message before it is patched, for which no patch is to
// blame. It is rarely needed, so it is found when first asked for.
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
