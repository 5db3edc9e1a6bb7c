package mesh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	selection "istio.io/api/type/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// Extension is a filter that users put among Envoy's: a module of WebAssembly, or a script in Lua.
type Extension struct {
	Resource *kinds.Resource
	// Spec is that of the TrafficExtension, or what a WasmPlugin is as one.
	Spec *extensions.TrafficExtension
	// Name is that of the filter, and of its configuration. It is Istio's, but for what reads bytes.
	Name string
	// Version changes with the resource, its labels and annotations too. Another one has a module
	// pulled again that is pulled always.
	Version string

	attached string // encodes which proxies it is for: equal strings, equal proxies
	place    string // encodes what listeners have of it: all but its configuration
}

var kindsOfExtensions = []*kinds.Kind{kindWasmPlugin, kindTrafficExtension}

// ExtensionPrefix begins the names of all extensions.
const ExtensionPrefix = "extensions.istio.io/trafficextension/"

// wasmPluginSuffix ends the names of extensions that are WasmPlugins. It cannot be in the name of a
// TrafficExtension.
const wasmPluginSuffix = "~istio-translated-wasmplugin"

// bytesSuffix ends the names of extensions that read bytes. Without it, one that changes to that from
// reading requests would have its new configuration refused by the filter that it has so far.
const bytesSuffix = "~network"

// extensionIndex holds the extensions by their namespace, the oldest first.
type extensionIndex struct {
	root      string
	all       map[*kinds.Resource]*Extension // by resource, to reuse what was read
	in        map[string][]*Extension        // by namespace
	selectors labelNames                     // names of the labels that extensions select by

	found once[string, []*Extension] // by namespace and labels of proxies
}

// buildExtensions indexes the extensions that a step leads to. If none changed, it returns the index
// of prev; otherwise it reads only those that did.
func buildExtensions(now configstore.Step, prev *Mesh, root string) *extensionIndex {
	before := prev.extensions
	if before == nil {
		before = &extensionIndex{}
	} else if before.root == root && prev.unchanged(now, kindsOfExtensions...) {
		return before
	}
	x := &extensionIndex{root: root, all: map[*kinds.Resource]*Extension{}, in: map[string][]*Extension{}}
	labels := labelKeys{gatewayNameLabel: true}
	for _, kind := range kindsOfExtensions {
		for r := range now.Of(kind) {
			e, known := before.all[r]
			if !known {
				e = readExtension(r)
			}
			x.all[r] = e
			x.in[r.Namespace] = append(x.in[r.Namespace], e)
			labels.add(e.Spec.GetSelector().GetMatchLabels())
		}
	}
	for _, list := range x.in {
		slices.SortFunc(list, compareExtensions)
	}
	x.selectors = namesIn([]labelKeys{labels})
	return x
}

func compareExtensions(a, b *Extension) int {
	return cmp.Or(a.Resource.CreateTime.Compare(b.Resource.CreateTime), strings.Compare(a.Name, b.Name))
}

func readExtension(r *kinds.Resource) *Extension {
	e := &Extension{Resource: r, Name: ExtensionPrefix + r.Namespace + "." + r.Name, Version: versionOf(r)}
	if r.Kind == kindWasmPlugin {
		e.Name += wasmPluginSuffix
		e.Spec = asTrafficExtension(specOf[*extensions.WasmPlugin](r))
	} else {
		e.Spec = specOf[*extensions.TrafficExtension](r)
	}
	if !e.OnRequests() {
		e.Name += bytesSuffix
	}
	e.attached, e.place = e.Name+" "+e.attachment().encode(), e.encodePlace()
	return e
}

// asTrafficExtension is what a WasmPlugin means: the older kind says the same in other words.
func asTrafficExtension(p *extensions.WasmPlugin) *extensions.TrafficExtension {
	out := &extensions.TrafficExtension{
		Selector: p.GetSelector(), TargetRefs: p.GetTargetRefs(), Priority: p.GetPriority(),
		Phase: extensions.TrafficExtension_ExecutionPhase(p.GetPhase()), // of the same numbers
		FilterConfig: &extensions.TrafficExtension_Wasm{Wasm: &extensions.WasmConfig{
			Url: p.GetUrl(), Sha256: p.GetSha256(), ImagePullPolicy: p.GetImagePullPolicy(), ImagePullSecret: p.GetImagePullSecret(),
			PluginConfig: p.GetPluginConfig(), PluginName: p.GetPluginName(), FailStrategy: p.GetFailStrategy(), VmConfig: p.GetVmConfig(), Type: p.GetType(),
		}},
	}
	if one := p.GetTargetRef(); one != nil && len(p.GetTargetRefs()) == 0 {
		out.TargetRefs = []*selection.PolicyTargetReference{one}
	}
	for _, m := range p.GetMatch() {
		out.Match = append(out.Match, &extensions.TrafficSelector{Mode: m.GetMode(), Ports: m.GetPorts()})
	}
	return out
}

// versionOf is the same in every discovery that has the same resource.
func versionOf(r *kinds.Resource) string {
	spec, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Spec.Message())
	if err != nil {
		panic("encode a spec that was decoded: " + err.Error())
	}
	sum := sha256.Sum256(fmt.Appendf(spec, "%v%v", r.Labels, r.Annotations)) // in the order of their names
	return hex.EncodeToString(sum[:8])
}

// attachment says which proxies of its namespace, or of the root namespace, the extension is for.
func (e *Extension) attachment() attachment {
	return attachment{of: e.Resource, selector: e.Spec.GetSelector(), targets: e.Spec.GetTargetRefs()}
}

// Extensions lists those that are for a proxy, in the order in which traffic passes those of one
// phase: by priority, the highest first and those without one last; then those of the proxy's
// namespace before those of the root namespace, and the older first. The slice must not be changed.
// An extension that did not change is the same one in the next mesh.
func (m *Mesh) Extensions(p *Proxy) []*Extension {
	x := m.extensions
	if len(x.all) == 0 {
		return nil
	}
	p = m.Known(p)
	return x.found.get(p.Namespace+" "+x.selectors.encode(p.Labels), func() (out []*Extension) {
		for _, namespace := range slices.Compact([]string{p.Namespace, x.root}) {
			for _, e := range x.in[namespace] {
				if e.attachment().isFor(p) {
					out = append(out, e)
				}
			}
		}
		slices.SortStableFunc(out, func(a, b *Extension) int { return cmp.Compare(b.priority(), a.priority()) })
		return out
	})
}

// Extending lists the extensions that are for a proxy, and the secrets that it pulls them with.
func (m *Mesh) Extending(p *Proxy) (out []kinds.Key) {
	for _, e := range m.Extensions(p) {
		out = append(out, e.Resource.Key())
	}
	for _, s := range m.PullSecrets(p) {
		if s != nil {
			out = append(out, s.key())
		}
	}
	return out
}

func (e *Extension) priority() int32 {
	if e.Spec.GetPriority() == nil {
		return math.MinInt32
	}
	return e.Spec.GetPriority().GetValue()
}

// sortsLike reports whether listeners of every proxy have the same of extensions as in an earlier
// index.
func (x *extensionIndex) sortsLike(before *extensionIndex) bool {
	if x == before {
		return true
	}
	if x.root != before.root || len(x.all) != len(before.all) {
		return false
	}
	for namespace, list := range x.in {
		if !slices.EqualFunc(list, before.in[namespace], func(a, b *Extension) bool {
			return a.attached == b.attached && a.place == b.place && a.pulls() == b.pulls()
		}) {
			return false
		}
	}
	return true
}

// encodeExtensions says what listeners have of the extensions that are for a proxy.
func encodeExtensions(list []*Extension) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.place)
	}
	return b.String()
}
