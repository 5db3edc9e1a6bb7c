package mesh

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// DestinationRule is one, or several for one host merged: subsets add up, the first traffic policy counts.
type DestinationRule struct {
	Resource *kinds.Resource // the first of those merged
	Spec     *networking.DestinationRule
	From     []kinds.Key

	visibility visibility
	exportTo   []string // as it is written, sorted; what is merged depends on it
}

// rulesByHost finds the rules for a host; several where they differ in visibility or in the workloads they are for.
type rulesByHost = *byHost[[]*DestinationRule]

// destinationRuleIndex holds the rules by the namespace they are in.
type destinationRuleIndex struct {
	local    map[string]rulesByHost // for clients in the namespace
	exported map[string]rulesByHost // for clients elsewhere

	// selectorLabels are those of clients that decide which rule they obey, or which endpoints they prefer.
	selectorLabels labelKeys
}

func buildDestinationRules(snapshot *configstore.Snapshot, prev *Mesh, config *meshconfig.MeshConfig, sameConfig bool) destinationRuleIndex {
	if sameConfig && prev.unchanged(snapshot, kindDestinationRule) {
		return prev.rules
	}
	index := destinationRuleIndex{local: map[string]rulesByHost{}, exported: map[string]rulesByHost{}, selectorLabels: labelKeys{}}
	index.selectorLabels.addPreferred(config.GetLocalityLbSetting().GetFailoverPriority())
	index.selectorLabels.addPreferred(config.GetZoneAwareLbSetting().GetFailoverPriority())
	for _, rule := range resolveRules(snapshot, config.GetDefaultDestinationRuleExportTo()) {
		index.add(rule)
	}
	return index
}

// resolveRules lists the rules, those for selected workloads first, then the older first.
func resolveRules(snapshot *configstore.Snapshot, exportDefault []string) []*DestinationRule {
	var out []*DestinationRule
	for r := range snapshot.Of(kindDestinationRule) {
		spec := specOf[*networking.DestinationRule](r)
		exportTo := spec.GetExportTo()
		if spec.GetWorkloadSelector() != nil {
			exportTo = []string{exportPrivate} // a rule for workloads stays with them
		}
		out = append(out, &DestinationRule{
			Resource: r, Spec: spec, From: []kinds.Key{r.Key()}, visibility: exported(exportTo, exportDefault, r.Namespace),
			exportTo: slices.Compact(slices.Sorted(slices.Values(exportTo))),
		})
	}
	slices.SortStableFunc(out, func(a, b *DestinationRule) int {
		switch {
		case a.forWorkloads() == b.forWorkloads():
			return 0
		case a.forWorkloads():
			return -1
		default:
			return 1
		}
	})
	return out
}

func (d *DestinationRule) forWorkloads() bool { return d.Spec.GetWorkloadSelector() != nil }

func (x *destinationRuleIndex) add(rule *DestinationRule) {
	namespace := rule.Resource.Namespace
	host := strings.ToLower(resolveHost(rule.Spec.GetHost(), namespace))
	x.selectorLabels.add(rule.Spec.GetWorkloadSelector().GetMatchLabels())
	for _, policy := range loadBalancers(rule.Spec) {
		x.selectorLabels.addPreferred(policy.GetLocalityLbSetting().GetFailoverPriority())
		x.selectorLabels.addPreferred(policy.GetZoneAwareLbSetting().GetFailoverPriority())
	}
	if rule.visibility.includes(namespace) {
		addRule(x.local, namespace, host, rule)
	}
	if !slices.Equal(rule.visibility, visibility{namespace}) {
		addRule(x.exported, namespace, host, rule)
	}
}

// loadBalancers are those of a rule at all its levels.
func loadBalancers(rule *networking.DestinationRule) (out []*networking.LoadBalancerSettings) {
	policies := []*networking.TrafficPolicy{rule.GetTrafficPolicy()}
	for _, subset := range rule.GetSubsets() {
		policies = append(policies, subset.GetTrafficPolicy())
	}
	for _, p := range policies {
		out = append(out, p.GetLoadBalancer())
		for _, port := range p.GetPortLevelSettings() {
			out = append(out, port.GetLoadBalancer())
		}
	}
	return out
}

func addRule(to map[string]rulesByHost, namespace, host string, rule *DestinationRule) {
	if to[namespace] == nil {
		to[namespace] = newByHost[[]*DestinationRule]()
	}
	have, _ := to[namespace].at(host)
	alone := true
	for i, existing := range have {
		var merge bool
		if merge, alone = existing.takes(rule); merge {
			have[i] = existing.merged(rule)
		}
	}
	if alone {
		have = append(have, rule)
	}
	to[namespace].set(host, have)
}

// takes decides whether a later rule for the same host is merged into d, and whether it stands for itself besides. It is merged where
// it is seen by all who see d; rules for workloads are merged only with those for the same. The last rule that d is compared with
// decides whether it stands alone, as in Istio.
func (d *DestinationRule) takes(later *DestinationRule) (merge, alone bool) {
	same := slices.Equal(d.exportTo, later.exportTo)
	if !same && (len(d.exportTo) == 0 || !containsAll(later.exportTo, d.exportTo)) {
		return false, true
	}
	if d.forWorkloads() != later.forWorkloads() {
		return true, true // Istio forgets the later rule if both are exported alike, for want of a case
	}
	if !maps.Equal(d.Spec.GetWorkloadSelector().GetMatchLabels(), later.Spec.GetWorkloadSelector().GetMatchLabels()) {
		return false, true
	}
	return true, false
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(list, w) })
}

// merged is a new rule; d is unchanged, since both indexes hold it.
func (d *DestinationRule) merged(other *DestinationRule) *DestinationRule {
	spec := proto.CloneOf(d.Spec)
	for _, subset := range other.Spec.GetSubsets() {
		known := func(s *networking.Subset) bool { return s.GetName() == subset.GetName() }
		if !slices.ContainsFunc(spec.GetSubsets(), known) {
			spec.Subsets = append(spec.Subsets, subset)
		}
	}
	if spec.GetTrafficPolicy() == nil {
		spec.TrafficPolicy = other.Spec.GetTrafficPolicy()
	}
	return &DestinationRule{
		Resource: d.Resource, Spec: spec, From: append(slices.Clone(d.From), other.From...),
		visibility: d.visibility, exportTo: d.exportTo,
	}
}

// find lists the rules that a client in namespace obeys for a service: its own namespace's before those of the
// service's, before those of the root namespace, which apply to the whole mesh.
func (x *destinationRuleIndex) find(client, root string, s *Service) []*DestinationRule {
	if client == root {
		// A root namespace's rules for everyone must not outrank the service's own, even for clients there.
		if rules := privateOnly(x.local[root], root, s.Hostname); len(rules) > 0 {
			return rules
		}
	} else if rules, ok := x.local[client].find(s.Hostname); ok {
		return rules
	}
	for _, namespace := range []string{s.Namespace, root} {
		if rules := visibleTo(x.exported[namespace], client, s.Hostname); len(rules) > 0 {
			return rules
		}
	}
	return nil
}

func privateOnly(rules rulesByHost, namespace, host string) []*DestinationRule {
	found, _ := rules.find(host)
	return slices.DeleteFunc(slices.Clone(found), func(d *DestinationRule) bool {
		return !slices.Equal(d.visibility, visibility{namespace})
	})
}

func visibleTo(rules rulesByHost, client, host string) []*DestinationRule {
	found, _ := rules.find(host)
	return slices.DeleteFunc(slices.Clone(found), func(d *DestinationRule) bool { return !d.visibility.includes(client) })
}
