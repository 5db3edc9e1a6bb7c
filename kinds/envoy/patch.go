package envoy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Patch is one change that an EnvoyFilter makes to Envoy's configuration. Nobody may write to it or to its value.
type Patch struct {
	Index     int // in the EnvoyFilter, from 0
	ApplyTo   networking.EnvoyFilter_ApplyTo
	Operation networking.EnvoyFilter_Patch_Operation
	Class     networking.EnvoyFilter_Patch_FilterClass
	Context   networking.EnvoyFilter_PatchContext
	Match     *networking.EnvoyFilter_EnvoyConfigObjectMatch
	// Value is what is put in or merged; nil for what removes.
	Value proto.Message

	version *regexp.Regexp // nil: any
}

// Read reads the patches of an EnvoyFilter and tells what is wrong with them. A patch that is invalid is not among the patches,
// nor is one that does nothing to proxies.
func Read(spec *networking.EnvoyFilter) (patches []*Patch, problems []Problem) {
	c := &checking{}
	if len(spec.GetTargetRefs()) > 0 {
		c.idle("spec.targetRefs", "the filter is for what a Gateway or Service of Kubernetes is in front of, which nothing is here", "select proxies by workloadSelector")
		return nil, c.problems
	}
	for i, written := range spec.GetConfigPatches() {
		if p := c.patch(schema.Item("spec.configPatches", i), written); p != nil {
			p.Index = i
			patches = append(patches, p)
		}
	}
	return patches, c.problems
}

func (c *checking) patch(path string, written *networking.EnvoyFilter_EnvoyConfigObjectPatch) *Patch {
	p := &Patch{
		ApplyTo: written.GetApplyTo(), Operation: written.GetPatch().GetOperation(), Class: written.GetPatch().GetFilterClass(),
		Context: written.GetMatch().GetContext(), Match: written.GetMatch(),
	}
	before := len(c.problems)
	if c.effect(path, p); len(c.problems) > before {
		return nil
	}
	if !c.proxies(path, p) || !c.value(path+".patch.value", p, written.GetPatch().GetValue()) {
		return nil
	}
	return p
}

// longestVersion is that of an expression; a longer one matches no proxy, as in Istio, for it would take long to compile.
const longestVersion = 1024

// proxies reads which proxies the patch is for.
func (c *checking) proxies(path string, p *Patch) bool {
	expression := p.Match.GetProxy().GetProxyVersion()
	path += ".match.proxy.proxyVersion"
	switch {
	case expression == "":
		return true
	case len(expression) > longestVersion:
		c.idle(path, fmt.Sprintf("an expression of more than %d characters matches no proxy", longestVersion), `write it as ^1\.31.*`)
		return false
	}
	version, err := regexp.Compile(expression)
	if err != nil {
		c.invalid(path, "is not a regular expression: "+err.Error(), "")
		return false
	}
	p.version = version
	return true
}

// value reads what the patch puts in.
func (c *checking) value(path string, p *Patch, written *structpb.Struct) bool {
	if p.Operation == networking.EnvoyFilter_Patch_REMOVE {
		return true
	}
	if written == nil {
		c.invalid(path, "required field is missing", "only the operation REMOVE does without")
		return false
	}
	before, tree := c.fatal, written.AsMap()
	value := objects[p.ApplyTo].ProtoReflect().New().Interface()
	if !c.decode(path, tree, value) {
		return false
	}
	c.rules(place{path: path, tree: tree, message: value.ProtoReflect(), partial: p.Merges()})
	if c.fatal > before {
		return false
	}
	p.Value = value
	return true
}

// Merges tells whether the value is merged into what is there.
func (p *Patch) Merges() bool {
	return p.Operation == networking.EnvoyFilter_Patch_MERGE || p.ReplacesLists()
}

// ReplacesLists tells whether the lists in the value take the place of those there.
func (p *Patch) ReplacesLists() bool {
	return p.Operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

// For tells whether the patch is for proxies of a version with these texts in their metadata.
func (p *Patch) For(version string, metadata map[string]string) bool {
	if p.version != nil && (version == "" || !p.version.MatchString(version)) {
		return false
	}
	for key, wanted := range p.Match.GetProxy().GetMetadata() {
		if value, given := metadata[key]; !given || value != wanted {
			return false
		}
	}
	return true
}

// In tells whether the patch is for resources of a context.
func (p *Patch) In(context networking.EnvoyFilter_PatchContext) bool {
	return p.Context == networking.EnvoyFilter_ANY || p.Context == context
}

var (
	mergeAlone = []networking.EnvoyFilter_Patch_Operation{
		networking.EnvoyFilter_Patch_MERGE, networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST,
	}
	wholes  = append(slices.Clone(mergeAlone), networking.EnvoyFilter_Patch_ADD, networking.EnvoyFilter_Patch_REMOVE)
	inserts = []networking.EnvoyFilter_Patch_Operation{
		networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER, networking.EnvoyFilter_Patch_INSERT_FIRST,
	}
	inOrder = slices.Concat(wholes, inserts)
	filters = append(slices.Clone(inOrder), networking.EnvoyFilter_Patch_REPLACE)
)

// operations has those that do something to each object. What is not in a list of its own is inserted by adding it.
var operations = map[networking.EnvoyFilter_ApplyTo][]networking.EnvoyFilter_Patch_Operation{
	networking.EnvoyFilter_LISTENER:            wholes,
	networking.EnvoyFilter_FILTER_CHAIN:        wholes,
	networking.EnvoyFilter_CLUSTER:             wholes,
	networking.EnvoyFilter_ROUTE_CONFIGURATION: mergeAlone,
	networking.EnvoyFilter_VIRTUAL_HOST:        append(slices.Clone(wholes), networking.EnvoyFilter_Patch_REPLACE),
	networking.EnvoyFilter_HTTP_ROUTE:          inOrder,
	networking.EnvoyFilter_LISTENER_FILTER:     filters,
	networking.EnvoyFilter_NETWORK_FILTER:      filters,
	networking.EnvoyFilter_HTTP_FILTER:         filters,
	networking.EnvoyFilter_EXTENSION_CONFIG:    {networking.EnvoyFilter_Patch_ADD},
}

// effect tells of a patch that can do nothing, and reads the operation as what it does.
func (c *checking) effect(path string, p *Patch) {
	switch {
	case p.Context == networking.EnvoyFilter_WAYPOINT:
		c.idle(path+".match.context", "there are no waypoints", "the contexts are SIDECAR_INBOUND, SIDECAR_OUTBOUND and GATEWAY")
		return
	case p.ApplyTo == networking.EnvoyFilter_BOOTSTRAP:
		c.idle(path+".applyTo", "a bootstrap is what an Envoy is started with, and cannot be changed while it runs", "give it to the agent on the machine")
		return
	case objects[p.ApplyTo] == nil:
		c.invalid(path+".applyTo", "required field is missing", "")
		return
	}
	able := operations[p.ApplyTo]
	if slices.Contains(inserts, p.Operation) && !slices.Contains(able, p.Operation) {
		p.Operation = networking.EnvoyFilter_Patch_ADD
	}
	if !slices.Contains(able, p.Operation) {
		c.idle(path+".patch.operation", fmt.Sprintf("%s does nothing to a %s", p.Operation, p.ApplyTo), "operations that do: "+names(able))
		return
	}
	c.named(path+".match", p)
}

// named tells of a patch that has to name a filter, and does not.
func (c *checking) named(path string, p *Patch) {
	filter := p.Match.GetListener().GetFilterChain().GetFilter()
	switch p.ApplyTo {
	case networking.EnvoyFilter_LISTENER_FILTER:
		if p.picks() && p.Match.GetListener().GetListenerFilter() == "" {
			c.idle(path+".listener.listenerFilter", "without the name of a filter nothing is changed", "name the filter")
		}
	case networking.EnvoyFilter_NETWORK_FILTER:
		if p.picks() && filter == nil && !p.Merges() {
			c.idle(path+".listener.filterChain.filter.name", "without the name of a filter nothing is changed", "name the filter")
		}
	case networking.EnvoyFilter_HTTP_FILTER:
		switch {
		case filter != nil && !SameFilter(filter.GetName(), ConnectionManager):
			c.idle(path+".listener.filterChain.filter.name", "no filter but "+ConnectionManager+" has HTTP filters in it", "name that one, or none")
		case p.picks() && filter.GetSubFilter() == nil && !p.Merges():
			c.idle(path+".listener.filterChain.filter.subFilter.name", "without the name of a filter nothing is changed", "name the filter")
		}
	}
}

// picks tells whether the patch changes filters that are there.
func (p *Patch) picks() bool {
	return p.Merges() || p.Operation == networking.EnvoyFilter_Patch_REMOVE || p.Operation == networking.EnvoyFilter_Patch_REPLACE
}

func names(operations []networking.EnvoyFilter_Patch_Operation) string {
	words := make([]string, len(operations))
	for i, o := range operations {
		words[i] = o.String()
	}
	return strings.Join(words, ", ")
}
