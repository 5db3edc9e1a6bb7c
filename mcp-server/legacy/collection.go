package legacy

import (
	"regexp"
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
)

// collection is a kind as the first generation of MCP names it.
type collection struct {
	name string
	kind *kinds.Kind // nil for a collection that is always empty; sinks still wait for an answer
}

// typeURL returns the type URL of the collection in snapshots.
func (c *collection) typeURL() string {
	if c.kind == nil {
		return ""
	}
	return c.kind.TypeURL()
}

// obsoleteCollections are the collections of kinds that Istio has dropped, or makes from
// Kubernetes. A Pilot or Mixer that asks for one is not ready until it is answered. The table is
// written folder {names}.
const obsoleteCollections = `
istio/networking/v1alpha3/synthetic {serviceentries}
istio/authentication/v1alpha1 {policies meshpolicies}
istio/rbac/v1alpha1 {serviceroles servicerolebindings rbacconfigs clusterrbacconfigs authorizationpolicies}
istio/config/v1alpha2 {httpapispecs httpapispecbindings adapters templates}
istio/mixer/v1/config/client {quotaspecs quotaspecbindings}
istio/policy/v1beta1 {attributemanifests instances handlers rules}
istio/config/v1alpha2/legacy {apikeys authorizations bypasses checknothings circonuses cloudwatches deniers dogstatsds edges fluentds
  kubernetesenvs kuberneteses listcheckers listentries logentries memquotas metrics noops opas prometheuses quotas rbacs redisquotas
  reportnothings signalfxs solarwindses stackdrivers statsds stdios tracespans zipkins}
k8s/core/v1 {nodes pods services endpoints namespaces}
k8s/extensions/v1beta1 {ingresses}`

// obsoleteMessages are the type URLs by which Istio 1.0 asks for obsolete collections.
const obsoleteMessages = `
istio.authentication.v1alpha1 {Policy}
istio.rbac.v1alpha1 {ServiceRole ServiceRoleBinding RbacConfig}
istio.mixer.v1.config.client {HTTPAPISpec HTTPAPISpecBinding QuotaSpec QuotaSpecBinding}
istio.policy.v1beta1 {AttributeManifest Instance Handler Rule}`

const messagePrefix = "type.googleapis.com/"

// collections indexes all collections by name, and by the type URL of their resources, which Istio
// 1.0 asks by.
var collections = sync.OnceValue(func() map[string]*collection {
	index := map[string]*collection{}
	for _, k := range kinds.All() {
		if k.Collection == "" {
			continue
		}
		c := &collection{name: k.Collection, kind: k}
		index[c.name], index[messagePrefix+string(k.Message)] = c, c
	}
	for _, name := range expand(obsoleteCollections, "/") {
		index[name] = &collection{name: name}
	}
	for _, name := range expand(obsoleteMessages, ".") {
		index[messagePrefix+name] = &collection{name: messagePrefix + name}
	}
	return index
})

// lookup returns the collection with a name. An unknown name that looks like a collection is an
// empty collection, as it is for Galley: an error would end the sink's stream with all its other
// collections.
func lookup(name string) (c *collection, known, exists bool) {
	if c, known = collections()[name]; known {
		return c, true, true
	}
	if len(name) > maxNameBytes || !namesCollection.MatchString(name) {
		return nil, false, false
	}
	return &collection{name: name}, false, true
}

var namesCollection = regexp.MustCompile(`^(istio|k8s)(/[-.a-zA-Z0-9_]+){2,8}$`)

// maxNameBytes is far more than the name of any collection has.
const maxNameBytes = 256

// expand lists the names in a table that is written folder {names}.
func expand(table, separator string) (names []string) {
	for row := range strings.SplitSeq(table, "}") {
		folder, list, _ := strings.Cut(row, "{")
		for name := range strings.FieldsSeq(list) {
			names = append(names, strings.TrimSpace(folder)+separator+name)
		}
	}
	return names
}

// bareName returns the name under which Galley sends the one resource of a bare kind; "" for other
// kinds.
func (c *collection) bareName() string {
	if c.kind == nil || !c.kind.Bare {
		return ""
	}
	return "istio-system/" + strings.ToLower(c.kind.Name)
}

// label returns the name of a collection in metrics.
func label(name string) string {
	if c, ok := collections()[name]; ok {
		return c.name
	}
	return "unknown"
}
