package standardmetrics

import (
	"cmp"
	"strings"
)

// Workload is what metrics call one end of a connection. A field that is not known is empty.
type Workload struct {
	Namespace string
	// Service and Revision are Istio's canonical ones.
	Service, Revision string
	// App and Version are the labels of these names.
	App, Version string
	Cluster      string
}

// The labels of a workload that name its service and revision, those first that count first.
var (
	serviceLabels  = []string{"service.istio.io/canonical-name", "app.kubernetes.io/name", "app"}
	revisionLabels = []string{"service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"}
)

// WorkloadOf is the workload with some labels.
func WorkloadOf(labels map[string]string, namespace, cluster string) Workload {
	return Workload{
		Namespace: namespace, Cluster: cluster,
		Service: first(labels, serviceLabels), Revision: cmp.Or(first(labels, revisionLabels), "latest"),
		App: labels["app"], Version: labels["version"],
	}
}

func first(labels map[string]string, names []string) string {
	for _, name := range names {
		if value := labels[name]; value != "" {
			return value
		}
	}
	return ""
}

// AliasKey is where a machine that asks for a certificate says, in the metadata of its request, what
// metrics are to call it.
const AliasKey = "pgmesh-alias"

const (
	// within separates the fields of a workload, and those of an endpoint's tag.
	within = ";"
	// maxField bounds a field. Values of labels have 63 bytes, and namespaces too.
	maxField = 63
)

// Encode writes the workload as ParseWorkload reads it.
func (w Workload) Encode() string {
	fields := []string{w.Namespace, w.Service, w.Revision, w.App, w.Version, w.Cluster}
	for i, field := range fields {
		fields[i] = plain(field)
	}
	return strings.Join(fields, within)
}

// plain cuts a field to its bound, and replaces what could end it, or would have a meaning in a
// format of Envoy's.
func plain(field string) string {
	field = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:", c) {
			return c
		}
		return '_'
	}, field)
	return field[:min(len(field), maxField)]
}

// ParseWorkload reads what Encode wrote, of whomever: fields have no more than plain characters.
func ParseWorkload(text string) (Workload, bool) {
	fields := strings.Split(text, within)
	if len(fields) != 6 {
		return Workload{}, false
	}
	for i, field := range fields {
		fields[i] = plain(field)
	}
	return Workload{Namespace: fields[0], Service: fields[1], Revision: fields[2], App: fields[3], Version: fields[4], Cluster: fields[5]}, true
}

// parseEndpoint reads the tag of an endpoint: workload;namespace;service;revision;cluster. Such a
// tag has no labels, so the service stands for the app, and the revision for the version.
func parseEndpoint(text string) Workload {
	fields := strings.Split(text, within)
	if len(fields) != 5 {
		return Workload{}
	}
	name := cmp.Or(fields[2], fields[0])
	return Workload{
		Namespace: fields[1], Service: name, Revision: cmp.Or(fields[3], "latest"), App: fields[2], Version: fields[3], Cluster: fields[4],
	}
}
