package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// checks are the rules that no jsonpath can express: they return what is wrong with an object in its normal form, with paths from the object
// on. The database has the same in SQL.
var checks = map[string]func(object, meta map[string]any) []Problem{
	"budget-interval":     budgetInterval,
	"condition-addresses": conditionAddresses,
	"match-count":         matchCount,
	"overlapping-hosts":   overlappingHosts,
	"rate-interval":       rateInterval,
	"sni-hosts":           sniHosts,
	"own-config-maps":     ownConfigMaps,
	"prime-table-size":    primeTableSize,
	"localities":          localities,
	"timeouts":            timeouts,
}

// overlappingHosts finds the hosts of a virtual service that another before them covers, or is covered by.
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

// sniHosts finds the names by which connections are told apart that are none of the hosts of the virtual service.
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

// covers says whether a host, which may have a wildcard in front, means all that another means.
func covers(wide, narrow string) bool {
	suffix, wildcard := strings.CutPrefix(wide, "*")
	if !wildcard {
		return wide == narrow
	}
	return strings.HasSuffix(narrow, suffix) && (len(narrow) >= len(wide) || !strings.HasPrefix(narrow, "*"))
}

// clientTLS are the ways from a destination rule to what says how to connect with TLS.
var clientTLS = [][]Step{
	{{"trafficPolicy", "single"}, {"tls", "single"}},
	{{"trafficPolicy", "single"}, {"portLevelSettings", "list"}, {"tls", "single"}},
	{{"subsets", "list"}, {"trafficPolicy", "single"}, {"tls", "single"}},
	{{"subsets", "list"}, {"trafficPolicy", "single"}, {"portLevelSettings", "list"}, {"tls", "single"}},
}

// ownConfigMaps finds certificates that a destination rule takes from a ConfigMap of another namespace.
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

// primeTableSize is as Envoy sees it, to which 1 is a prime number.
func primeTableSize(object, _ map[string]any) []Problem {
	written, _ := scalarText(object["tableSize"])
	size, err := strconv.Atoi(written)
	if err != nil {
		return nil // is none that is in range, which is told elsewhere
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
