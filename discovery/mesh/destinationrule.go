package mesh

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

// DestinationRule is one, or several for one host merged: their subsets add up, and the first
// traffic policy counts.
type DestinationRule struct {
	Resource *kinds.Resource // the first of those merged
	Spec     *networking.DestinationRule
	From     []kinds.Key

	visibility visibility
	exportTo   []string // as written, sorted; what is merged depends on it
	at         hostAt   // its host, in its namespace
	choosing   []string // the labels of clients by which the rule chooses them, or the endpoints they prefer
}

// destinationRuleIndex finds the rules for a host in their namespace. There are several if they
// differ in visibility or in the workloads that they are for. The index never changes; a step makes
// the next one from it.
type destinationRuleIndex struct {
	all      []*DestinationRule            // as written, the oldest first
	local    hostIndex[[]*DestinationRule] // for clients in the namespace
	exported hostIndex[[]*DestinationRule] // for clients elsewhere

	read   table[*kinds.Resource, *DestinationRule]
	groups table[hostAt, *ruleGroup]

	selectorLabels labelCounts
}

// ruleGroup holds the rules for one host in one namespace.
type ruleGroup struct {
	read []*DestinationRule // those for selected workloads first, then the older first
	made map[mergedRules]*DestinationRule
}

// mergedRules are an older rule and a later one that is merged into it.
type mergedRules struct{ older, later *DestinationRule }

// buildDestinationRules applies a step to the rules of prev, by the configuration and the trust of
// m. It also returns the hosts whose rules changed.
func buildDestinationRules(now configstore.Step, prev, m *Mesh) (*destinationRuleIndex, []hostAt) {
	before, exportDefault := prev.rules, m.Config.GetDefaultDestinationRuleExportTo()
	edits, changed := now.Edits(kindDestinationRule), m.Trust().changedSince(prev.Trust())
	switch {
	case before == nil || !slices.Equal(prev.Config.GetDefaultDestinationRuleExportTo(), exportDefault):
		before, edits = &destinationRuleIndex{}, now.All(kindDestinationRule)
	case len(changed.Revoked) == 0 && len(edits) == 0:
		return before, nil
	}
	var gone, come []*DestinationRule
	x, read := *before, before.read.edit()
	read.expect(now.Len(kindDestinationRule) - read.size)
	for _, e := range edits {
		if e.Before != nil {
			gone = append(gone, x.read.get(e.Before))
			read.remove(e.Before)
		}
		if e.After != nil {
			rule := readRule(e.After, exportDefault)
			come = append(come, rule)
			read.set(e.After, rule)
		}
	}
	for _, rule := range before.all {
		if now.Get(rule.Resource.Key()) == rule.Resource && changed.names(subjectAltNames(rule.Spec)) {
			another := readRule(rule.Resource, exportDefault)
			gone, come = append(gone, rule), append(come, another)
			read.set(rule.Resource, another)
		}
	}
	x.read = read.done()
	x.all = patched(x.all, gone, come, compareRules)
	x.selectorLabels = x.selectorLabels.changed(choosing(gone), choosing(come))
	x.regroup(gone, come)
	return &x, hostsOfRules(slices.Concat(gone, come))
}

func hostsOfRules(rules []*DestinationRule) []hostAt {
	hosts := map[hostAt]bool{}
	for _, rule := range rules {
		hosts[rule.at] = true
	}
	return slices.Collect(maps.Keys(hosts))
}

func choosing(rules []*DestinationRule) (names []string) {
	for _, rule := range rules {
		names = append(names, rule.choosing...)
	}
	return names
}

func compareRules(a, b *DestinationRule) int { return kinds.CompareAge(a.Resource, b.Resource) }

// compareInGroup sorts the rules for selected workloads first.
func compareInGroup(a, b *DestinationRule) int {
	switch {
	case a.forWorkloads() == b.forWorkloads():
		return compareRules(a, b)
	case a.forWorkloads():
		return -1
	default:
		return 1
	}
}

// regroup merges the rules again for the hosts that lost or gained one.
func (x *destinationRuleIndex) regroup(gone, come []*DestinationRule) {
	groups, local, exported := x.groups.edit(), x.local.edit(), x.exported.edit()
	groups.expect(len(come) - len(gone))
	local.values.expect(len(come) - len(gone))
	exported.values.expect(len(come) - len(gone))
	for at, c := range exchangesBy(gone, come, func(rule *DestinationRule) []hostAt { return []hostAt{rule.at} }) {
		was := x.groups.get(at)
		if was == nil {
			was = &ruleGroup{}
		}
		is := &ruleGroup{read: patched(was.read, c.Gone, c.Come, compareInGroup), made: map[mergedRules]*DestinationRule{}}
		groups.put(at, is, len(is.read) == 0)
		rules := is.merge(was, func(rule *DestinationRule) bool { return rule.visibility.includes(at.namespace) })
		local.put(at, rules, len(rules) == 0)
		rules = is.merge(was, func(rule *DestinationRule) bool { return !slices.Equal(rule.visibility, visibility{at.namespace}) })
		exported.put(at, rules, len(rules) == 0)
	}
	x.groups, x.local, x.exported = groups.done(), local.done(), exported.done()
}

// merge makes the rules that are obeyed from the wanted ones. It keeps what was made from the same
// rules before.
func (g *ruleGroup) merge(before *ruleGroup, wanted func(*DestinationRule) bool) []*DestinationRule {
	var out []*DestinationRule
	for _, rule := range g.read {
		if !wanted(rule) {
			continue
		}
		alone := true
		for i, existing := range out {
			var merge bool
			if merge, alone = existing.takes(rule); merge {
				out[i] = g.merged(mergedRules{existing, rule}, before)
			}
		}
		if alone {
			out = append(out, rule)
		}
	}
	return out
}

func (g *ruleGroup) merged(of mergedRules, before *ruleGroup) *DestinationRule {
	out := g.made[of]
	if out == nil {
		out = before.made[of]
	}
	if out == nil {
		out = of.older.merged(of.later)
	}
	g.made[of] = out
	return out
}

// readRule reads a rule. It returns it before merging: with one resource in From.
func readRule(r *kinds.Resource, exportDefault []string) *DestinationRule {
	spec := specOf[*networking.DestinationRule](r)
	exportTo := spec.GetExportTo()
	if spec.GetWorkloadSelector() != nil {
		exportTo = []string{exportPrivate} // a rule for workloads stays in its namespace
	}
	return &DestinationRule{
		Resource: r, Spec: spec, From: []kinds.Key{r.Key()}, visibility: exported(exportTo, exportDefault, r.Namespace),
		exportTo: slices.Compact(slices.Sorted(slices.Values(exportTo))),
		at:       placeOf(r.Namespace, reference.FullHost(spec.GetHost(), r.Namespace)),
		choosing: choosingLabels(spec),
	}
}

func choosingLabels(spec *networking.DestinationRule) []string {
	names := labelKeys{}
	names.add(spec.GetWorkloadSelector().GetMatchLabels())
	for _, policy := range loadBalancers(spec) {
		names.addPreferred(policy.GetLocalityLbSetting().GetFailoverPriority())
		names.addPreferred(policy.GetZoneAwareLbSetting().GetFailoverPriority())
	}
	return slices.Collect(maps.Keys(names))
}

func (d *DestinationRule) forWorkloads() bool { return d.Spec.GetWorkloadSelector() != nil }

// trafficPolicies are those of a rule and of its subsets.
func trafficPolicies(rule *networking.DestinationRule) []*networking.TrafficPolicy {
	out := []*networking.TrafficPolicy{rule.GetTrafficPolicy()}
	for _, subset := range rule.GetSubsets() {
		out = append(out, subset.GetTrafficPolicy())
	}
	return out
}

// loadBalancers are those of a rule at all its levels.
func loadBalancers(rule *networking.DestinationRule) (out []*networking.LoadBalancerSettings) {
	for _, p := range trafficPolicies(rule) {
		out = append(out, p.GetLoadBalancer())
		for _, port := range p.GetPortLevelSettings() {
			out = append(out, port.GetLoadBalancer())
		}
	}
	return out
}

// subjectAltNames are the names of servers in a rule, at all its levels.
func subjectAltNames(rule *networking.DestinationRule) (out []string) {
	for _, p := range trafficPolicies(rule) {
		out = append(out, p.GetTls().GetSubjectAltNames()...)
		for _, port := range p.GetPortLevelSettings() {
			out = append(out, port.GetTls().GetSubjectAltNames()...)
		}
	}
	return out
}

// takes decides whether a later rule for the same host is merged into d, and whether it stands
// alone besides. It is merged if everyone who sees d sees it. Rules for workloads merge only with
// rules for the same workloads. The last rule that d is compared with decides whether the later one
// stands alone, as in Istio.
func (d *DestinationRule) takes(later *DestinationRule) (merge, alone bool) {
	same := slices.Equal(d.exportTo, later.exportTo)
	if !same && (len(d.exportTo) == 0 || !containsAll(later.exportTo, d.exportTo)) {
		return false, true
	}
	if d.forWorkloads() != later.forWorkloads() {
		return true, true // Istio drops the later rule if both are exported alike, because it lacks a case
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
		visibility: d.visibility, exportTo: d.exportTo, at: d.at,
	}
}

// find lists the rules that a client in namespace obeys for a service: those of its own namespace
// before those of the service's, before those of the root namespace, which hold for the whole mesh.
func (x *destinationRuleIndex) find(client, root string, s *Service) []*DestinationRule {
	if client == root {
		// The rules that a root namespace has for everyone must not outrank the service's own, not
		// even for its own clients.
		if rules := x.privateOnly(root, s.Hostname); len(rules) > 0 {
			return rules
		}
	} else if rules, ok := x.local.find(client, s.Hostname); ok {
		return rules
	}
	for _, namespace := range []string{s.Namespace, root} {
		if rules := x.visibleTo(client, namespace, s.Hostname); len(rules) > 0 {
			return rules
		}
	}
	return nil
}

func (x *destinationRuleIndex) privateOnly(namespace, host string) []*DestinationRule {
	found, _ := x.local.find(namespace, host)
	return slices.DeleteFunc(slices.Clone(found), func(d *DestinationRule) bool {
		return !slices.Equal(d.visibility, visibility{namespace})
	})
}

func (x *destinationRuleIndex) visibleTo(client, namespace, host string) []*DestinationRule {
	found, _ := x.exported.find(namespace, host)
	return slices.DeleteFunc(slices.Clone(found), func(d *DestinationRule) bool { return !d.visibility.includes(client) })
}
