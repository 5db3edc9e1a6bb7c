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

// Patch is one change that an EnvoyFilter makes to Envoy's configuration. It is read-only, and so
// is its value.
type Patch struct {
	Index     int // in the EnvoyFilter, from 0
	ApplyTo   networking.EnvoyFilter_ApplyTo
	Operation networking.EnvoyFilter_Patch_Operation
	Class     networking.EnvoyFilter_Patch_FilterClass
	Context   networking.EnvoyFilter_PatchContext
	Match     *networking.EnvoyFilter_EnvoyConfigObjectMatch
	// Value is the message to insert or merge; nil for REMOVE.
	Value proto.Message

	version *regexp.Regexp // nil matches any version
}

// Read returns the patches of an EnvoyFilter and what is wrong with them. It leaves out patches
// that are invalid or have no effect.
func Read(spec *networking.EnvoyFilter) (patches []*Patch, problems []Problem) {
	c := &checker{}
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

func (c *checker) patch(path string, written *networking.EnvoyFilter_EnvoyConfigObjectPatch) *Patch {
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

// maxVersionExpression is the longest proxyVersion. As in Istio, a longer one matches no proxy: it
// could take long to compile.
const maxVersionExpression = 1024

// proxies reads which proxies the patch applies to.
func (c *checker) proxies(path string, p *Patch) bool {
	expression := p.Match.GetProxy().GetProxyVersion()
	path += ".match.proxy.proxyVersion"
	switch {
	case expression == "":
		return true
	case len(expression) > maxVersionExpression:
		c.idle(path, fmt.Sprintf("an expression of more than %d characters matches no proxy", maxVersionExpression), `write it as ^1\.31.*`)
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

// value decodes the message to insert or merge.
func (c *checker) value(path string, p *Patch, written *structpb.Struct) bool {
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

// Merges reports whether the value is merged into existing configuration.
func (p *Patch) Merges() bool {
	return p.Operation == networking.EnvoyFilter_Patch_MERGE || p.ReplacesLists()
}

// ReplacesLists reports whether lists in the value replace existing ones instead of extending them.
func (p *Patch) ReplacesLists() bool {
	return p.Operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

// For reports whether the patch applies to proxies of this version and metadata.
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

// In reports whether the patch applies to resources of this context.
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

// operations lists the operations that have an effect on each object. Inserting an object that is
// in no ordered list adds it.
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

// effect reports a patch that has no effect, and turns insert operations into ADD where the order
// does not matter.
func (c *checker) effect(path string, p *Patch) {
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
	supported := operations[p.ApplyTo]
	if slices.Contains(inserts, p.Operation) && !slices.Contains(supported, p.Operation) {
		p.Operation = networking.EnvoyFilter_Patch_ADD
	}
	if !slices.Contains(supported, p.Operation) {
		c.idle(path+".patch.operation", fmt.Sprintf("%s does nothing to a %s", p.Operation, p.ApplyTo), "operations that do: "+names(supported))
		return
	}
	c.named(path+".match", p)
}

// named reports a patch that must name a filter and does not.
func (c *checker) named(path string, p *Patch) {
	filter := p.Match.GetListener().GetFilterChain().GetFilter()
	switch p.ApplyTo {
	case networking.EnvoyFilter_LISTENER_FILTER:
		if p.changesExisting() && p.Match.GetListener().GetListenerFilter() == "" {
			c.idle(path+".listener.listenerFilter", "without the name of a filter nothing is changed", "name the filter")
		}
	case networking.EnvoyFilter_NETWORK_FILTER:
		if p.changesExisting() && filter == nil && !p.Merges() {
			c.idle(path+".listener.filterChain.filter.name", "without the name of a filter nothing is changed", "name the filter")
		}
	case networking.EnvoyFilter_HTTP_FILTER:
		switch {
		case filter != nil && !SameFilter(filter.GetName(), ConnectionManager):
			c.idle(path+".listener.filterChain.filter.name", "no filter but "+ConnectionManager+" has HTTP filters in it", "name that one, or none")
		case p.changesExisting() && filter.GetSubFilter() == nil && !p.Merges():
			c.idle(path+".listener.filterChain.filter.subFilter.name", "without the name of a filter nothing is changed", "name the filter")
		}
	}
}

// changesExisting reports whether the patch changes filters that exist already.
func (p *Patch) changesExisting() bool {
	return p.Merges() || p.Operation == networking.EnvoyFilter_Patch_REMOVE || p.Operation == networking.EnvoyFilter_Patch_REPLACE
}

func names(operations []networking.EnvoyFilter_Patch_Operation) string {
	words := make([]string, len(operations))
	for i, o := range operations {
		words[i] = o.String()
	}
	return strings.Join(words, ", ")
}
