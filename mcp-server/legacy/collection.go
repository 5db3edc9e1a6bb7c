package legacy

import (
	"regexp"
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
)

// collection is what the first generation of MCP calls a kind.
type collection struct {
	name string
	kind *kinds.Kind // nil: nothing is in it any more, and sinks still wait for an answer
}

// typeURL is what snapshots call it.
func (c *collection) typeURL() string {
	if c.kind == nil {
		return ""
	}
	return c.kind.TypeURL()
}

// dead are the collections of kinds that Istio has given up, or that are made from Kubernetes. A Pilot or Mixer that asks for one is
// not ready before it is answered. They are written folder {names}.
const dead = `
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

// deadMessages are the type URLs by which Istio 1.0 asks for what has no kind any more.
const deadMessages = `
istio.authentication.v1alpha1 {Policy}
istio.rbac.v1alpha1 {ServiceRole ServiceRoleBinding RbacConfig}
istio.mixer.v1.config.client {HTTPAPISpec HTTPAPISpecBinding QuotaSpec QuotaSpecBinding}
istio.policy.v1beta1 {AttributeManifest Instance Handler Rule}`

const messagePrefix = "type.googleapis.com/"

// collections has every collection by its name, and by the type URL of its resources, which Istio 1.0 asks by.
var collections = sync.OnceValue(func() map[string]*collection {
	index := map[string]*collection{}
	for _, k := range kinds.All() {
		if k.Collection == "" {
			continue
		}
		c := &collection{name: k.Collection, kind: k}
		index[c.name], index[messagePrefix+string(k.Message)] = c, c
	}
	for _, name := range spelledOut(dead, "/") {
		index[name] = &collection{name: name}
	}
	for _, name := range spelledOut(deadMessages, ".") {
		index[messagePrefix+name] = &collection{name: messagePrefix + name}
	}
	return index
})

// named is the collection of a name. There is nothing in one of Kubernetes, or of another Istio, that nobody here knows: it is answered so, as Galley
// answers for all that it has ever heard of. Who is told nothing about one of sixty would get none of the others either.
func named(name string) (c *collection, known, exists bool) {
	if c, known = collections()[name]; known {
		return c, true, true
	}
	if len(name) > longestName || !namesCollection.MatchString(name) {
		return nil, false, false
	}
	return &collection{name: name}, false, true
}

var namesCollection = regexp.MustCompile(`^(istio|k8s)(/[-.a-zA-Z0-9_]+){2,8}$`)

// longestName is far more than the name of any collection has.
const longestName = 256

// spelledOut lists the names of a table that is written folder {names}.
func spelledOut(table, separator string) (names []string) {
	for row := range strings.SplitSeq(table, "}") {
		folder, list, _ := strings.Cut(row, "{")
		for name := range strings.FieldsSeq(list) {
			names = append(names, strings.TrimSpace(folder)+separator+name)
		}
	}
	return names
}

// lone is the name that the one resource of a kind has for sinks that is otherwise sent without a name: what Galley calls it.
func (c *collection) lone() string {
	if c.kind == nil || !c.kind.Bare {
		return ""
	}
	return "istio-system/" + strings.ToLower(c.kind.Name)
}

// label names a collection in metrics.
func label(name string) string {
	if c, ok := collections()[name]; ok {
		return c.name
	}
	return "unknown"
}
