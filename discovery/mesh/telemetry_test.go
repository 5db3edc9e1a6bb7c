package mesh_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// collectors is a mesh with providers of all sorts.
const collectors = `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  extensionProviders:
  - {name: file, envoyFileAccessLog: {path: /var/log/access}}
  - {name: als, envoyHttpAls: {service: col.ops, port: 4317}}
  - {name: zipkin, zipkin: {service: col.ops, port: 9411}}
  - {name: Otel, opentelemetry: {service: ops/col.ops, port: 4317}}
  - {name: lost, zipkin: {service: gone.ops, port: 9411}}
  - {name: closed, zipkin: {service: col.ops, port: 1}}
  - {name: gate, envoyExtAuthzGrpc: {service: col.ops, port: 4317}}
`

const collector = `
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: col, namespace: ops}
spec:
  hosts: [col.ops]
  ports: [{number: 4317, name: grpc, protocol: GRPC}, {number: 9411, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.9.9}]
  resolution: STATIC
---
`

func tells(namespace, name, spec string) string {
	return "---\n" + resourceOf("Telemetry", namespace, name, spec)
}

// said describes what a proxy of a shop, app web, tells in a role.
func said(m *mesh.Mesh, role mesh.Role) string {
	told := m.Telemetry(sidecar("shop", map[string]string{"app": "web"})).As(role)
	var out []string
	if told.LogsSaid && len(told.Logs) == 0 {
		out = append(out, "no logs")
	}
	for _, l := range told.Logs {
		out = append(out, strings.TrimSpace("log "+l.Provider.Spec.GetName()+" "+l.Filter))
	}
	if told.Trace != nil {
		out = append(out, traced(told.Trace))
	}
	for _, m := range told.Metrics {
		text := []string{"metrics " + m.Provider.Spec.GetName()}
		for _, o := range m.Overrides {
			text = append(text, fmt.Sprintf("%s:%t%v", o.Metric, o.Disabled, o.Tags))
		}
		out = append(out, strings.Join(text, " "))
	}
	return strings.Join(out, ", ")
}

func traced(trace *mesh.Trace) string {
	out := []string{"trace " + trace.Provider.Spec.GetName()}
	if trace.Disabled {
		out[0] = "no traces"
	}
	if trace.Sampling != nil {
		out = append(out, fmt.Sprintf("%g%%", *trace.Sampling))
	}
	if len(trace.Tags) > 0 {
		out = append(out, fmt.Sprint(slices.Sorted(maps.Keys(trace.Tags))))
	}
	flags := map[string]bool{"apart": trace.WithoutRequestID, "bare": trace.WithoutWorkload, "alone": trace.WithoutPropagation}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if flags[flag] {
			out = append(out, flag)
		}
	}
	return strings.Join(out, " ")
}

func TestWhatAProxyTells(t *testing.T) {
	t.Parallel()
	const (
		defaults = "  defaultProviders: {accessLogging: [envoy], tracing: [zipkin], metrics: [prometheus]}\n"
		web      = "selector: {matchLabels: {app: web}}, "
		file     = "accessLogging: [{providers: [{name: file}]}]"
		als      = "accessLogging: [{providers: [{name: als}]}]"
	)
	for name, c := range map[string]struct{ defaults, telemetries, client, server string }{
		"nothing":                                     {"", "", "", ""},
		"another namespace":                           {"", tells("bank", "a", file), "", ""},
		"the defaults":                                {defaults, "", "log envoy, trace zipkin, metrics prometheus", "log envoy, trace zipkin, metrics prometheus"},
		"defaults of one sort":                        {"  defaultProviders: {accessLogging: [file, als]}\n", "", "log als, log file", "log als, log file"},
		"the root namespace":                          {"", tells("istio-system", "a", file), "log file", "log file"},
		"instead of a default":                        {defaults, tells("istio-system", "a", file+", metrics: []"), "log file, trace zipkin, metrics prometheus", "log file, trace zipkin, metrics prometheus"},
		"the namespace counts":                        {"", tells("istio-system", "a", file) + tells("shop", "a", als), "log als", "log als"},
		"the workload counts":                         {"", tells("shop", "a", file) + tells("shop", "b", web+als), "log als", "log als"},
		"the last of several":                         {"", tells("shop", "a", web+file) + tells("shop", "b", web+als), "log als", "log als"},
		"the older general one":                       {"", tells("shop", "a", file) + tells("shop", "b", als), "log file", "log file"},
		"not those of the root namespace that select": {"", tells("istio-system", "a", web+file), "", ""},
		"two at once":                                 {"", tells("shop", "a", "accessLogging: [{providers: [{name: file}, {name: als}]}]"), "log als, log file", "log als, log file"},
		"by mode": {
			"", tells("shop", "a", "accessLogging: [{match: {mode: CLIENT}, providers: [{name: file}]}, {match: {mode: SERVER}, providers: [{name: als}]}]"),
			"log file", "log als",
		},
		"one mode alone":              {"", tells("shop", "a", "accessLogging: [{match: {mode: CLIENT}, providers: [{name: file}]}]"), "log file", ""},
		"a filter":                    {"", tells("shop", "a", "accessLogging: [{providers: [{name: file}], filter: {expression: 'response.code >= 500'}}]"), "log file response.code >= 500", "log file response.code >= 500"},
		"a filter of what is before":  {defaults, tells("shop", "a", "accessLogging: [{filter: {expression: 'response.code >= 500'}}]"), "log envoy response.code >= 500, trace zipkin, metrics prometheus", "log envoy response.code >= 500, trace zipkin, metrics prometheus"},
		"the filter that is last":     {"", tells("istio-system", "a", "accessLogging: [{providers: [{name: file}], filter: {expression: 'response.code >= 400'}}]") + tells("shop", "a", file), "log file", "log file"},
		"off":                         {"", tells("istio-system", "a", file) + tells("shop", "a", "accessLogging: [{disabled: true}]"), "no logs", "no logs"},
		"off by default":              {"  defaultProviders: {accessLogging: [envoy]}\n", tells("shop", "a", "accessLogging: [{disabled: true}]"), "no logs", "no logs"},
		"off for servers":             {"  defaultProviders: {accessLogging: [envoy]}\n", tells("shop", "a", "accessLogging: [{match: {mode: SERVER}, disabled: true}]"), "", "no logs"},
		"on again":                    {"", tells("istio-system", "a", "accessLogging: [{providers: [{name: file}], disabled: true}]") + tells("shop", "a", "accessLogging: [{disabled: false}]") + tells("shop", "b", web+file), "log file", "log file"},
		"nobody that is known":        {"", tells("shop", "a", "accessLogging: [{providers: [{name: nobody}]}]"), "", ""},
		"nobody that takes logs":      {"", tells("shop", "a", "accessLogging: [{providers: [{name: zipkin}]}]"), "", ""},
		"in whatever case":            {"", tells("shop", "a", "tracing: [{providers: [{name: OTEL}]}]"), "trace Otel", "trace Otel"},
		"traces":                      {"", tells("istio-system", "a", "tracing: [{providers: [{name: zipkin}], randomSamplingPercentage: 5, customTags: {a: {literal: {value: b}}}}]") + tells("shop", "a", "tracing: [{randomSamplingPercentage: 7}]"), "trace zipkin 7% [a]", "trace zipkin 7% [a]"},
		"tags replace each other":     {defaults, tells("istio-system", "a", "tracing: [{customTags: {a: {literal: {value: b}}}}]") + tells("shop", "a", "tracing: [{customTags: {c: {literal: {value: d}}}}]"), "log envoy, trace zipkin [c], metrics prometheus", "log envoy, trace zipkin [c], metrics prometheus"},
		"no provider of traces":       {"", tells("shop", "a", "tracing: [{randomSamplingPercentage: 7}]"), "no traces 7%", "no traces 7%"},
		"an unknown one":              {"  defaultProviders: {tracing: [zipkin]}\n", tells("shop", "a", "tracing: [{providers: [{name: nobody}]}]"), "no traces", "no traces"},
		"one whose service is gone":   {"", tells("shop", "a", "tracing: [{providers: [{name: lost}]}]"), "no traces", "no traces"},
		"one whose port is closed":    {"", tells("shop", "a", "tracing: [{providers: [{name: closed}]}]"), "no traces", "no traces"},
		"traces of clients":           {"", tells("istio-system", "a", "tracing: [{providers: [{name: zipkin}]}]") + tells("shop", "a", "tracing: [{match: {mode: SERVER}, disableSpanReporting: true}]"), "trace zipkin", "no traces"},
		"traces again":                {"", tells("istio-system", "a", "tracing: [{providers: [{name: zipkin}], disableSpanReporting: true}]") + tells("shop", "a", "tracing: [{disableSpanReporting: false}]"), "trace zipkin", "trace zipkin"},
		"how traces are told":         {"", tells("shop", "a", "tracing: [{providers: [{name: zipkin}], useRequestIdForTraceSampling: false}]"), "trace zipkin apart", "trace zipkin apart"},
		"without tags of the mesh":    {"", tells("shop", "a", "tracing: [{providers: [{name: zipkin}], enableIstioTags: false}]"), "trace zipkin bare", "trace zipkin bare"},
		"without telling others":      {"", tells("shop", "a", "tracing: [{providers: [{name: zipkin}], disableContextPropagation: true}]"), "trace zipkin alone", "trace zipkin alone"},
		"metrics":                     {"", tells("shop", "a", "metrics: [{providers: [{name: prometheus}]}]"), "metrics prometheus", "metrics prometheus"},
		"no metrics of servers":       {"", tells("shop", "a", "metrics: [{providers: [{name: prometheus}], overrides: [{match: {mode: SERVER}, disabled: true}]}]"), "metrics prometheus", ""},
		"no metrics":                  {"  defaultProviders: {metrics: [prometheus]}\n", tells("shop", "a", "metrics: [{overrides: [{disabled: true}]}]"), "", ""},
		"metrics of one sort":         {"", tells("istio-system", "a", "metrics: [{providers: [{name: prometheus}], overrides: [{disabled: true}]}]") + tells("shop", "a", "metrics: [{overrides: [{match: {metric: REQUEST_COUNT}, disabled: false}]}]"), "metrics prometheus REQUEST_COUNT:false[]", "metrics prometheus REQUEST_COUNT:false[]"},
		"tags of metrics, one by one": {"", tells("istio-system", "a", "metrics: [{providers: [{name: prometheus}], overrides: [{match: {metric: REQUEST_COUNT}, tagOverrides: {a: {value: x}, b: {value: y}}}]}]") + tells("shop", "a", "metrics: [{overrides: [{match: {metric: REQUEST_COUNT, mode: CLIENT}, disabled: true, tagOverrides: {b: {operation: REMOVE}}}]}]"), "metrics prometheus REQUEST_COUNT:true[{a x false} {b  true}]", "metrics prometheus REQUEST_COUNT:false[{a x false} {b y false}]"},
		"a metric of one's own":       {"", tells("shop", "a", "metrics: [{providers: [{name: prometheus}], overrides: [{match: {customMetric: mine}, disabled: true}]}]"), "metrics prometheus mine:true[]", "metrics prometheus mine:true[]"},
		"what is elsewhere":           {"", tells("shop", "a", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: entry}], "+file), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t, collectors+c.defaults+collector+c.telemetries)
			require.Equal(t, c.client, said(m, mesh.AsClient), "as a client")
			require.Equal(t, c.server, said(m, mesh.AsServer), "as a server")
		})
	}
}

func TestATelemetryThatDidNotChangeSaysTheSame(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	web := sidecar("shop", map[string]string{"app": "web"})
	const logs = "accessLogging: [{providers: [{name: file}]}]"
	first := mesh.Build(apply(t, store, collectors+collector+tells("shop", "a", logs)), nil)
	second := mesh.Build(apply(t, store, tells("bank", "a", logs)), first)
	require.False(t, second.SortsLike(first), "another proxy may be in another class")
	require.Same(t, first.Telemetry(web), second.Telemetry(web))
	third := mesh.Build(apply(t, store, tells("shop", "a", "accessLogging: [{providers: [{name: als}]}]")), second)
	require.True(t, third.SortsLike(second), "the same Telemetries for the same proxies")
	require.NotSame(t, second.Telemetry(web), third.Telemetry(web))
	require.Equal(t, "log als", said(third, mesh.AsServer))
	fourth := mesh.Build(apply(t, store, strings.ReplaceAll(collector, "10.0.9.9", "10.0.9.8")), third)
	require.Same(t, third.Telemetry(web), fourth.Telemetry(web), "endpoints are no matter")
	fifth := mesh.Build(apply(t, store, strings.ReplaceAll(collector, "4317", "4318")), fourth)
	require.Empty(t, said(fifth, mesh.AsServer), "the port is gone")
	require.Nil(t, build(t, "").Telemetry(web))
}

func TestTelemetryThatDoesNotMeanWhatItSays(t *testing.T) {
	t.Parallel()
	m := build(t, strings.ReplaceAll(collectors, "{name: file,", "{name: envoy, envoyFileAccessLog: {}}\n  - {name: zipkin, zipkin: {service: col.ops, port: 9411}}\n  - {name: file,")+
		"  defaultProviders: {tracing: [nobody], accessLogging: [envoy]}\n"+collector+
		tells("shop", "a", "accessLogging: [{providers: [{name: file}, {name: zipkin}]}], tracing: [{}, {providers: [{name: lost}]}], metrics: [{providers: [{name: statsd}]}]")+
		tells("shop", "b", "tracing: [{providers: [{name: nobody}]}]")+
		tells("bank", "a", "selector: {matchLabels: {app: web}}, tracing: [{providers: [{name: zipkin}]}]")+tells("bank", "b", "selector: {matchLabels: {app: web}}"))
	var lines []string
	for _, p := range m.Problems() {
		lines = append(lines, fmt.Sprintf("%s %s %s", p.Of, p.Path, p.Reason))
	}
	require.Equal(t, []string{
		`MeshConfig istio-system/mesh spec.extensionProviders[7] nothing can be sent to the provider "closed": the service "col.ops" has no port 1. Correct the provider's port`,
		`MeshConfig istio-system/mesh spec.extensionProviders[6] nothing can be sent to the provider "lost": no ServiceEntry has the service "gone.ops". Make one, or correct the provider's service`,
		`MeshConfig istio-system/mesh spec.extensionProviders[1] is without effect for telemetry: another provider has the name "zipkin", too. Rename one of them`,
		`Telemetry shop/a spec.accessLogging[0].providers[1].name no access logs go there: the extension provider "zipkin" takes none. Name one of "als", "envoy", "file"`,
		`Telemetry shop/a spec.tracing[1].providers[0].name no traces go there: nothing can be sent to the extension provider "lost": no ServiceEntry has the service "gone.ops". Make one, or correct the provider's service`,
		`Telemetry shop/a spec.metrics[0].providers[0].name no metrics go there: the MeshConfig has no extension provider "statsd". Add it there, or name one of "prometheus"`,
		`Telemetry shop/b spec is without effect: the older Telemetry shop/a is for all proxies of the namespace, too, and of several the oldest counts. Remove one of the two, or have it select workloads`,
		`MeshConfig istio-system/mesh spec.defaultProviders.tracing[0] no traces go there: the MeshConfig has no extension provider "nobody". Add it there, or name one of "closed", "lost", "Otel", "zipkin"`,
	}, lines)
}

func TestProvidersThatEnvoyWouldRefuse(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]string{
		"envoyFileAccessLog: {logFormat: {text: '50%'}}":                                                                                                          `its logFormat.text has a "%" at 3 that begins no command`,
		"envoyFileAccessLog: {logFormat: {labels: {a: {b: '%x'}}}}":                                                                                               `its logFormat.labels.a.b has a "%" at 1`,
		"envoyOtelAls: {service: col.ops, port: 4317, logFormat: {labels: {a: '%x'}}}":                                                                            `its logFormat.labels.a has a "%" at 1`,
		"zipkin: {service: col.ops, port: 9411, timeout: 0s}":                                                                                                     "its timeout is not above zero",
		"zipkin: {service: col.ops, port: 9411, headers: [{name: 'a b', value: c}]}":                                                                              `its header "a b" has a name that no header`,
		"zipkin: {service: col.ops, port: 9411, headers: [{name: a, envName: 'B)'}]}":                                                                             `its header "a" has a name that no header, or no variable, can have`,
		`opentelemetry: {service: col.ops, port: 9411, http: {path: /a, headers: [{name: a, value: "b\nc"}]}}`:                                                    `its header "a" has a value that no header can have`,
		"opentelemetry: {service: col.ops, port: 4317, grpc: {initialMetadata: [{name: a, value: 'b%'}]}}":                                                        `its grpc.initialMetadata "a" has a "%"`,
		"opentelemetry: {service: col.ops, port: 4317, dynatraceSampler: {tenant: a, clusterId: 1}}":                                                              "its dynatraceSampler has nobody to ask",
		"opentelemetry: {service: col.ops, port: 4317, dynatraceSampler: {tenant: a, clusterId: 1, httpService: {service: gone.ops, port: 1, http: {path: /a}}}}": `no ServiceEntry has the service "gone.ops"`,
	} {
		m := build(t, collectors+"  - {name: odd, "+provider+"}\n"+collector+tells("shop", "a", "tracing: [{customTags: {a: {formatter: {value: '%'}}}}]"))
		require.Condition(t, func() bool {
			return slices.ContainsFunc(m.Problems(), func(p mesh.Problem) bool {
				return p.Path == "spec.extensionProviders[7]" && strings.Contains(p.Reason, `nothing can be sent to the provider "odd": `+want)
			})
		}, "%s: %v", provider, m.Problems())
		require.Contains(t, fmt.Sprint(m.Problems()), "spec.tracing[0].customTags.a.formatter.value has a")
	}
}

func TestTheFormatOfTheMeshsOwnLog(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"accessLogFormat: '%PROTOCOL% 100%%'":                                 "",
		"accessLogFormat: '50% of it'":                                        `has a "%" at 3 that begins no command`,
		"accessLogEncoding: JSON, accessLogFormat: '{\"a\": \"%PROTOCOL%\"}'": "",
		"accessLogEncoding: JSON, accessLogFormat: '{\"a\": \"%x\"}'":         `has a "%" at 1 that begins no command`,
	} {
		var found string
		for _, p := range build(t, resourceOf("MeshConfig", "istio-system", "mesh", settings)).Problems() {
			require.Equal(t, "spec.accessLogFormat", p.Path)
			found = p.Reason
		}
		require.Equal(t, want == "", found == "", settings)
		require.Contains(t, found, want)
	}
}
