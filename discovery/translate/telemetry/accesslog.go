// Package telemetry is what proxies tell of requests and connections: access logs and traces.
package telemetry

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// AccessLogs returns the logs of requests and connections in a role: those of Telemetries, or else
// that of the MeshConfig, if it names a file.
func AccessLogs(v view.View, role mesh.Role) []*accesslogv3.AccessLog {
	return logged(destinations(v, role))
}

// ListenerLogs are for connections that no filter can log: those that no filter chain is for, and
// those whose handshake failed.
func ListenerLogs(v view.View, role mesh.Role) []*accesslogv3.AccessLog {
	if v.Config.GetDisableEnvoyListenerLog() {
		return nil
	}
	logs := destinations(v, role)
	lost := make([]destination, len(logs))
	failed := make([]destination, len(logs))
	for i, d := range logs {
		lost[i], failed[i] = d.only(unmatched), d.only(unshaken)
		if d.file != "" {
			failed[i].format = handshakeFormat(d.format)
		}
	}
	return logged(slices.Concat(lost, failed))
}

// destination is where entries of an access log go.
type destination struct {
	// file is a path, and format what a line of it is.
	file   string
	format *corev3.SubstitutionFormatString
	// logger writes elsewhere.
	logger *accesslogv3.AccessLog
	// filters say what is logged: what all of them let pass.
	filters []*accesslogv3.AccessLogFilter
}

// destinations lists where the access logs of a proxy go in a role.
func destinations(v view.View, role mesh.Role) (out []destination) {
	told := v.Mesh.Telemetry(v.Proxy).As(role)
	if !told.LogsSaid {
		if file := v.Config.GetAccessLogFile(); file != "" {
			out = append(out, destination{file: file, format: meshFormat(v.Config)})
		}
		return out
	}
	for _, l := range told.Logs {
		d, known := providerLog(v, l.Provider)
		if !known {
			continue
		}
		if l.Filter != "" {
			d = d.only(expression(l.Filter))
		}
		out = append(out, d)
	}
	return out
}

// only is the destination with one more filter.
func (d destination) only(filter *accesslogv3.AccessLogFilter) destination {
	d.filters = append([]*accesslogv3.AccessLogFilter{filter}, d.filters...)
	return d
}

var unmatched = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
	ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
}}

// unshaken is why a member of the mesh cannot get in, which is nowhere else to be read. What was no
// TLS at all is unmatched, too.
var unshaken = expression("connection.transport_failure_reason != '' && response.flags == 0")

// expression lets pass what an expression of CEL is true of.
func expression(cel string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name:       "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: message.Pack(&celv3.ExpressionFilter{Expression: cel})},
		},
	}}
}

// all lets pass what every one of some filters does.
func all(filters []*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	switch len(filters) {
	case 0:
		return nil
	case 1:
		return filters[0]
	default:
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: filters},
		}}
	}
}

func logged(to []destination) []*accesslogv3.AccessLog {
	var out []*accesslogv3.AccessLog
	for _, d := range to {
		log := &accesslogv3.AccessLog{Filter: all(d.filters)}
		if d.file != "" {
			log.Name = "envoy.access_loggers.file"
			log.ConfigType = &accesslogv3.AccessLog_TypedConfig{TypedConfig: message.Pack(&filelogv3.FileAccessLog{
				Path: d.file, AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: d.format},
			})}
		} else {
			log.Name, log.ConfigType = d.logger.GetName(), d.logger.GetConfigType()
		}
		out = append(out, log)
	}
	return out
}
