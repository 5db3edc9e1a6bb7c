package settings

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// handlers are the kinds of probe, of which each probe has one.
var handlers = []string{"httpGet", "tcpSocket", "exec", "grpc"}

// probe reads a probe as a WorkloadGroup has it, plus further fields. Absent fields stay 0; package
// probe has the defaults.
func (r *reader) probe(n *yaml.Node, further map[string]func(key, value *yaml.Node)) *machinev1.Probe {
	p := &machinev1.Probe{}
	fields := map[string]func(key, value *yaml.Node){
		"httpGet":             func(_, value *yaml.Node) { p.How = &machinev1.Probe_Http{Http: r.httpGet(value)} },
		"tcpSocket":           func(_, value *yaml.Node) { p.How = &machinev1.Probe_Tcp{Tcp: r.tcpSocket(value)} },
		"exec":                func(_, value *yaml.Node) { p.How = &machinev1.Probe_Exec{Exec: r.exec(value)} },
		"grpc":                func(_, value *yaml.Node) { p.How = &machinev1.Probe_Grpc{Grpc: r.grpc(value)} },
		"initialDelaySeconds": func(key, value *yaml.Node) { p.InitialDelay = r.seconds(key.Value, value, 0) },
		"timeoutSeconds":      func(key, value *yaml.Node) { p.Timeout = r.seconds(key.Value, value, 1) },
		"periodSeconds":       func(key, value *yaml.Node) { p.Period = r.seconds(key.Value, value, 1) },
		"successThreshold":    func(key, value *yaml.Node) { p.SuccessThreshold = r.number(key.Value, value, 1, math.MaxInt32) },
		"failureThreshold":    func(key, value *yaml.Node) { p.FailureThreshold = r.number(key.Value, value, 1, math.MaxInt32) },
	}
	maps.Copy(fields, further)
	r.object(n, "field of a probe", fields)
	if n.Kind == yaml.MappingNode {
		r.oneHandler(n)
	}
	return p
}

func (r *reader) oneHandler(n *yaml.Node) {
	found := slices.DeleteFunc(slices.Clone(handlers), func(how string) bool { return !has(n, how) })
	switch {
	case len(found) == 0:
		r.problemf(n, "how is the service to be asked? A probe has one of %s", strings.Join(handlers, ", "))
	case len(found) > 1:
		r.problemf(n, "a probe asks in one way, and this has %s: choose one", strings.Join(found, " and "))
	}
}

// maxSeconds is a day, longer than any sensible probe setting.
const maxSeconds = 24 * 60 * 60

func (r *reader) seconds(name string, n *yaml.Node, least uint32) *durationpb.Duration {
	return durationpb.New(time.Duration(r.number(name, n, least, maxSeconds)) * time.Second)
}

func (r *reader) httpGet(n *yaml.Node) *machinev1.HTTPProbe {
	p := &machinev1.HTTPProbe{}
	r.object(n, "field of httpGet", map[string]func(key, value *yaml.Node){
		"scheme":      func(_, value *yaml.Node) { p.Scheme = r.scheme(value) },
		"host":        func(key, value *yaml.Node) { p.Host = r.text(key.Value, value) },
		"port":        func(key, value *yaml.Node) { p.Port = r.port(key.Value, value) },
		"path":        func(key, value *yaml.Node) { p.Path = r.text(key.Value, value) },
		"httpHeaders": func(_, value *yaml.Node) { p.Headers = r.headers(value) },
	})
	r.needsPort(n, "httpGet")
	return p
}

func (r *reader) scheme(n *yaml.Node) string {
	scheme := strings.ToUpper(r.text("scheme", n))
	if scheme != "HTTP" && scheme != "HTTPS" {
		r.problemf(n, "scheme: expected HTTP or HTTPS, not %s", kindOf(n))
	}
	return scheme
}

func (r *reader) headers(n *yaml.Node) (all []*machinev1.Header) {
	r.list(n, "httpHeaders as a list, each with a name and a value", func(item *yaml.Node) {
		h := &machinev1.Header{}
		r.object(item, "field of a header", map[string]func(key, value *yaml.Node){
			"name":  func(key, value *yaml.Node) { h.Name = r.text(key.Value, value) },
			"value": func(key, value *yaml.Node) { h.Value = r.text(key.Value, value) },
		})
		if item.Kind == yaml.MappingNode && h.Name == "" {
			r.problemf(item, "a header needs a name")
		}
		all = append(all, h)
	})
	return all
}

func (r *reader) tcpSocket(n *yaml.Node) *machinev1.TCPProbe {
	p := &machinev1.TCPProbe{}
	r.object(n, "field of tcpSocket", map[string]func(key, value *yaml.Node){
		"host": func(key, value *yaml.Node) { p.Host = r.text(key.Value, value) },
		"port": func(key, value *yaml.Node) { p.Port = r.port(key.Value, value) },
	})
	r.needsPort(n, "tcpSocket")
	return p
}

func (r *reader) exec(n *yaml.Node) *machinev1.ExecProbe {
	p := &machinev1.ExecProbe{}
	r.object(n, "field of exec", map[string]func(key, value *yaml.Node){
		"command": func(key, value *yaml.Node) { p.Command = r.command(key.Value, value) },
	})
	if n.Kind == yaml.MappingNode && !has(n, "command") {
		r.problemf(n, "exec needs a command: [PROGRAM, ARGUMENT]")
	}
	return p
}

func (r *reader) grpc(n *yaml.Node) *machinev1.GRPCProbe {
	p := &machinev1.GRPCProbe{}
	r.object(n, "field of grpc", map[string]func(key, value *yaml.Node){
		"port":    func(key, value *yaml.Node) { p.Port = r.port(key.Value, value) },
		"service": func(key, value *yaml.Node) { p.Service = r.text(key.Value, value) },
	})
	r.needsPort(n, "grpc")
	return p
}

func (r *reader) needsPort(n *yaml.Node, how string) {
	if n.Kind == yaml.MappingNode && !has(n, "port") {
		r.problemf(n, "%s needs a port", how)
	}
}
