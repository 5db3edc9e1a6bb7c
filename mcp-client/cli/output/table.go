package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// printTables prints one table per kind, in order of first occurrence, or goes on with it. If there are several, names
// include the kind.
func (p *Printer) printTables(resources []*kinds.Resource, statuses Statuses) error {
	ofKind := map[*kinds.Kind][]*kinds.Resource{}
	var order []*kinds.Kind
	for _, r := range resources {
		if len(ofKind[r.Kind]) == 0 {
			order = append(order, r.Kind)
		}
		ofKind[r.Kind] = append(ofKind[r.Kind], r)
	}
	all := len(p.tables)
	for _, kind := range order {
		if p.tables[kind] == nil {
			all++
		}
	}
	for i, kind := range order {
		if p.tables[kind] == nil && i+len(p.tables) > 0 {
			fmt.Fprintln(p.Out)
		}
		if err := p.printTable(kind, ofKind[kind], all > 1, statuses); err != nil {
			return err
		}
	}
	return nil
}

// printTable shows where resources come from if one is not the mesh's own, or that is asked for.
func (p *Printer) printTable(kind *kinds.Kind, resources []*kinds.Resource, qualified bool, statuses Statuses) error {
	wide := p.Output.Format == Wide
	shown := columnsOf(kind, wide)
	t, goesOn := p.table(kind)
	header := []string{"NAME"}
	if kind.Namespaced {
		header = []string{"NAMESPACE", "NAME"}
	}
	for _, c := range shown {
		header = append(header, c.title)
	}
	if !goesOn {
		t.origins = wide || slices.ContainsFunc(resources, func(r *kinds.Resource) bool { return r.Origin() != "" })
	}
	if t.origins {
		header = append(header, "ORIGIN")
	}
	header = append(append(header, statuses.columns()...), "AGE")
	for _, label := range p.LabelColumns {
		header = append(header, strings.ToUpper(label[strings.LastIndex(label, "/")+1:])) // as kubectl titles it
	}
	if p.Labels {
		header = append(header, "LABELS")
	}
	if !p.NoHeaders && !goesOn {
		t.Row(header...)
	}
	for _, r := range resources {
		cells, err := cellsOf(r, shown, wide)
		if err != nil {
			return err
		}
		name := r.Name
		if qualified {
			name = words.Kind(kind) + "/" + name
		}
		row := append([]string{name}, cells...)
		if t.origins {
			row = append(row, words.OrDash(r.Origin()))
		}
		if kind.Namespaced {
			row = append([]string{r.Namespace}, row...)
		}
		row = append(append(row, p.statusCells(statuses, r.Key())...), words.Age(r.CreateTime))
		for _, label := range p.LabelColumns {
			row = append(row, r.Labels[label])
		}
		if p.Labels {
			row = append(row, labelsText(r.Labels))
		}
		t.Row(row...)
	}
	return t.Flush()
}

// labelsText lists labels as selectors write them.
func labelsText(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	if len(pairs) == 0 {
		return "<none>" // like kubectl
	}
	return strings.Join(pairs, ",")
}

// column shows part of a kind's spec in tables: the values at a path of JSON names. A list stands
// for all its items.
type column struct {
	title, path string
	otherwise   string // shown if the field is not set
	wide        bool   // only with -o wide
}

// columns has the most interesting fields of each kind. Other kinds have only a name and an age.
var columns = map[string][]column{
	"VirtualService":        {{title: "GATEWAYS", path: "gateways", otherwise: "mesh"}, {title: "HOSTS", path: "hosts"}, {title: "DESTINATIONS", path: "http.route.destination.host", wide: true}},
	"DestinationRule":       {{title: "HOST", path: "host"}, {title: "SUBSETS", path: "subsets.name"}},
	"ServiceEntry":          {{title: "HOSTS", path: "hosts"}, {title: "PORTS", path: "ports.number"}, {title: "RESOLUTION", path: "resolution", otherwise: "NONE"}, {title: "LOCATION", path: "location", otherwise: "MESH_EXTERNAL", wide: true}, {title: "ENDPOINTS", path: "endpoints.address", wide: true}},
	"Gateway":               {{title: "HOSTS", path: "servers.hosts"}, {title: "PORTS", path: "servers.port.number"}},
	"Sidecar":               {{title: "EGRESS", path: "egress.hosts"}},
	"WorkloadEntry":         {{title: "ADDRESS", path: "address"}, {title: "LABELS", path: "labels", wide: true}, {title: "LOCALITY", path: "locality", wide: true}},
	"WorkloadGroup":         {{title: "LABELS", path: "metadata.labels"}},
	"EnvoyFilter":           {{title: "PATCHES", path: "configPatches.applyTo"}},
	"AuthorizationPolicy":   {{title: "ACTION", path: "action", otherwise: "ALLOW"}, {title: "SELECTOR", path: "selector.matchLabels"}},
	"PeerAuthentication":    {{title: "MODE", path: "mtls.mode", otherwise: "UNSET"}, {title: "SELECTOR", path: "selector.matchLabels"}},
	"RequestAuthentication": {{title: "ISSUERS", path: "jwtRules.issuer"}, {title: "SELECTOR", path: "selector.matchLabels"}},
	"ProxyConfig":           {{title: "SELECTOR", path: "selector.matchLabels"}},
	"Telemetry":             {{title: "SELECTOR", path: "selector.matchLabels"}},
	"WasmPlugin":            {{title: "URL", path: "url"}, {title: "PHASE", path: "phase", otherwise: "UNSPECIFIED_PHASE"}},
	"GatewayClass":          {{title: "CONTROLLER", path: "controllerName"}},
	"HTTPRoute":             {{title: "HOSTNAMES", path: "hostnames"}, {title: "PARENTS", path: "parentRefs.name"}, {title: "BACKENDS", path: "rules.backendRefs.name", wide: true}},
	"GRPCRoute":             {{title: "HOSTNAMES", path: "hostnames"}, {title: "PARENTS", path: "parentRefs.name"}, {title: "BACKENDS", path: "rules.backendRefs.name", wide: true}},
	"TLSRoute":              {{title: "HOSTNAMES", path: "hostnames"}, {title: "PARENTS", path: "parentRefs.name"}},
	"TCPRoute":              {{title: "PARENTS", path: "parentRefs.name"}},
	"UDPRoute":              {{title: "PARENTS", path: "parentRefs.name"}},
	"ReferenceGrant":        {{title: "FROM", path: "from.namespace"}, {title: "TO", path: "to.kind"}},
	"BackendTLSPolicy":      {{title: "TARGETS", path: "targetRefs.name"}, {title: "HOSTNAME", path: "validation.hostname"}},
	"XBackendTrafficPolicy": {{title: "TARGETS", path: "targetRefs.name"}, {title: "RETRIES", path: "retryConstraint.budget.percent"}, {title: "SESSION", path: "sessionPersistence.sessionName"}},
	"ListenerSet":           {{title: "PARENT", path: "parentRef.name"}, {title: "PORTS", path: "listeners.port"}},
	"InferencePool":         {{title: "SELECTOR", path: "selector.matchLabels"}, {title: "PORTS", path: "targetPorts.number"}},
}

// gatewayColumns are the columns of the Gateway API's Gateway, which has the same name as Istio's.
var gatewayColumns = []column{{title: "CLASS", path: "gatewayClassName"}, {title: "PORTS", path: "listeners.port"}, {title: "HOSTNAMES", path: "listeners.hostname", wide: true}}

var istioGateway, _ = kinds.Lookup("networking.istio.io", "Gateway")

func columnsOf(k *kinds.Kind, wide bool) []column {
	all := columns[k.Name]
	if k.Name == "Gateway" && k != istioGateway {
		all = gatewayColumns
	}
	return slices.DeleteFunc(slices.Clone(all), func(c column) bool { return c.wide && !wide })
}

// specTree is the spec of a resource as a tree of JSON.
func specTree(r *kinds.Resource) (spec any, err error) {
	text, err := r.SpecJSON()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("read the spec of %s: %w", r.Key(), err)
	}
	return spec, nil
}

func cellsOf(r *kinds.Resource, shown []column, wide bool) ([]string, error) {
	spec, err := specTree(r)
	if err != nil {
		return nil, err
	}
	cells := make([]string, len(shown))
	for i, c := range shown {
		cells[i] = c.cell(spec, wide)
	}
	return cells, nil
}

// maxValues is how many values the cell of a narrow table lists.
const maxValues = 3

func (c column) cell(spec any, wide bool) string {
	var values []string
	for _, v := range valuesAt(spec, strings.Split(c.path, ".")) {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	switch {
	case len(values) == 0:
		return cmp.Or(c.otherwise, "-")
	case wide:
		return strings.Join(values, ",")
	}
	return ShortList(values)
}

// ShortList lists the first values and counts the others.
func ShortList(values []string) string {
	if more := len(values) - maxValues; more > 0 {
		return fmt.Sprintf("%s +%d", strings.Join(values[:maxValues], ","), more)
	}
	return words.OrDash(strings.Join(values, ","))
}

// valuesAt returns the values at a path, in document order.
func valuesAt(tree any, path []string) []string {
	switch tree := tree.(type) {
	case []any:
		var values []string
		for _, item := range tree {
			values = append(values, valuesAt(item, path)...)
		}
		return values
	case map[string]any:
		if len(path) > 0 {
			return valuesAt(tree[path[0]], path[1:])
		}
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			pairs = append(pairs, fmt.Sprintf("%s=%v", key, tree[key]))
		}
		return pairs
	case nil:
		return nil
	}
	return []string{fmt.Sprint(tree)}
}
