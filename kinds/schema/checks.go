package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// checks are the rules that no jsonpath can express. Each returns what is wrong with an object in
// its normal form, with paths relative to the object. The database has the same checks in SQL.
var checks = map[string]func(object, meta map[string]any) []Problem{
	"budget-interval":     budgetInterval,
	"condition-addresses": conditionAddresses,
	"match-count":         matchCount,
	"overlapping-hosts":   overlappingHosts,
	"rate-interval":       rateInterval,
	"sni-hosts":           sniHosts,
	"own-config-maps":     ownConfigMaps,
	"port-numbers":        portNumbers,
	"prime-table-size":    primeTableSize,
	"localities":          localities,
	"timeouts":            timeouts,
}

// overlappingHosts reports the hosts of a virtual service that cover an earlier one, or are covered
// by it.
func overlappingHosts(object, _ map[string]any) (problems []Problem) {
	hosts := stringList(object["hosts"])
	for i, host := range hosts {
		for _, before := range hosts[:i] {
			if covers(before, host) || covers(host, before) {
				problems = append(problems, Problem{
					Path: Item("hosts", i), Reason: fmt.Sprintf(`"%s" overlaps with "%s"`, host, before), Hint: "leave out one of them",
				})
				break
			}
		}
	}
	return problems
}

// portNumbers reports the ports of a service entry whose number another one has before it. UDP has
// numbers of its own.
func portNumbers(object, _ map[string]any) (problems []Problem) {
	type place struct {
		udp    bool
		number string
	}
	seen := map[place]bool{}
	ports, _ := object["ports"].([]any)
	for i, item := range ports {
		port, _ := item.(map[string]any)
		protocol, _ := port["protocol"].(string)
		number, ok := scalarText(port["number"])
		at := place{strings.EqualFold(protocol, "UDP"), number}
		if ok && seen[at] {
			problems = append(problems, Problem{Path: Item("ports", i) + ".number", Reason: fmt.Sprintf("port %s is already defined", number)})
		}
		seen[at] = true
	}
	return problems
}

// sniHosts reports SNI hosts that none of the virtual service's hosts covers.
func sniHosts(object, _ map[string]any) (problems []Problem) {
	hosts := stringList(object["hosts"])
	for _, p := range places([]Step{{"tls", "list"}, {"match", "list"}, {"sniHosts", "list"}}, "", object) {
		name, _ := p.item.(string)
		if !isIP(name) && !coveredBy(hosts, name) {
			problems = append(problems, Problem{
				Path: p.path, Reason: fmt.Sprintf(`"%s" is none of the hosts`, name), Hint: "add it to spec.hosts, or write one that is there",
			})
		}
	}
	return problems
}

func coveredBy(hosts []string, name string) bool {
	for _, host := range hosts {
		if covers(host, name) {
			return true
		}
	}
	return false
}

// covers reports whether a host, which may begin with a wildcard, includes all that another host
// means.
func covers(wide, narrow string) bool {
	suffix, wildcard := strings.CutPrefix(wide, "*")
	if !wildcard {
		return wide == narrow
	}
	return strings.HasSuffix(narrow, suffix) && (len(narrow) >= len(wide) || !strings.HasPrefix(narrow, "*"))
}

// clientTLS lists the paths in a destination rule to its TLS settings.
var clientTLS = [][]Step{
	{{"trafficPolicy", "single"}, {"tls", "single"}},
	{{"trafficPolicy", "single"}, {"portLevelSettings", "list"}, {"tls", "single"}},
	{{"subsets", "list"}, {"trafficPolicy", "single"}, {"tls", "single"}},
	{{"subsets", "list"}, {"trafficPolicy", "single"}, {"portLevelSettings", "list"}, {"tls", "single"}},
}

// ownConfigMaps reports certificates that a destination rule takes from a ConfigMap of another
// namespace.
func ownConfigMaps(object, meta map[string]any) (problems []Problem) {
	namespace, known := meta["namespace"].(string)
	for _, steps := range clientTLS {
		for _, p := range places(steps, "", object) {
			tls, _ := p.item.(map[string]any)
			name, _ := tls["credentialName"].(string)
			if known && strings.HasPrefix(name, "configmap://") && !strings.HasPrefix(name, "configmap://"+namespace+"/") {
				problems = append(problems, Problem{
					Path: p.path + ".credentialName", Reason: "must name a ConfigMap of the own namespace", Hint: "write it as configmap://" + namespace + "/name",
				})
			}
		}
	}
	return problems
}

// primeTableSize uses Envoy's definition of a prime number, which includes 1.
func primeTableSize(object, _ map[string]any) []Problem {
	written, _ := scalarText(object["tableSize"])
	size, err := strconv.Atoi(written)
	if err != nil {
		return nil // not a number in range, which is reported elsewhere
	}
	for factor := 2; factor*factor <= size; factor++ {
		if size%factor == 0 {
			return []Problem{{Path: "tableSize", Reason: "must be a prime number, got " + written, Hint: "such as 65537"}}
		}
	}
	return nil
}

func stringList(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		s, _ := item.(string)
		list = append(list, s)
	}
	return list
}
