// Package proxyconfig turns what MeshConfig and ProxyConfigs say of starting proxies into settings
// of the agent.
package proxyconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// askTimeout bounds the wait for discovery, which delays the start of a machine while none answers.
const askTimeout = time.Second

// Ask asks discovery for settings and saves the answer in a file. While discovery cannot be asked
// it returns the saved answer together with the error; the answer is nil if none was ever saved.
func Ask(ctx context.Context, discovery grpc.ClientConnInterface, request *machinev1.SettingsRequest, file string) (*machinev1.SettingsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := machinev1.NewMachineServiceClient(discovery).Settings(ctx, request)
	if status.Code(err) == codes.Unimplemented { // this discovery predates the call
		return &machinev1.SettingsResponse{}, nil
	}
	if err == nil {
		text, err := protojson.Marshal(answer)
		return answer, errors.Join(err, replace.File(file, text))
	}
	kept, unread := os.ReadFile(file)
	if errors.Is(unread, fs.ErrNotExist) {
		return nil, err
	}
	answer = &machinev1.SettingsResponse{}
	return answer, errors.Join(err, unread, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(kept, answer))
}

// Setting is a flag of mesh-agent run with the mesh's value, which applies unless the machine sets
// its own.
type Setting struct {
	Field string // the field of ProxyConfig it comes from
	Flag  string
	Value string
}

// byDiscovery lists the fields that discovery applies in what it sends, so that they are not
// reported as ignored.
var byDiscovery = []string{"tracing", "gatewayTopology", "proxyHeaders"}

// Read parses a ProxyConfig in JSON. It returns the names of the fields that neither the agent nor
// discovery uses; a field that cannot be read is an error and leaves the others in force.
func Read(text string) (settings []Setting, ignored []string, err error) {
	if text == "" {
		return nil, nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, nil, fmt.Errorf("read what the mesh says of how proxies are started: %w", err)
	}
	for _, field := range sortedKeys(fields) {
		read, known := readers[field]
		if !known {
			if !slices.Contains(byDiscovery, field) {
				ignored = append(ignored, field)
			}
			continue
		}
		some, wrong := read(fields[field])
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", field, wrong))
			continue
		}
		for _, s := range some {
			s.Field = field
			settings = append(settings, s)
		}
	}
	return settings, ignored, err
}

// reader turns the value of a field into settings.
type reader func(json.RawMessage) ([]Setting, error)

var readers = map[string]reader{
	"concurrency":              number("concurrency"),
	"drainDuration":            words("listener-drain-time"),
	"terminationDrainDuration": words("drain-time"),
	"parentShutdownDuration":   words("parent-shutdown-time"),
	"binaryPath":               words("envoy"),
	"serviceCluster":           words("service-cluster"),
	"statsdUdpAddress":         words("statsd"),
	"proxyAdminPort":           port("admin"),
	"statusPort":               port("status"),
	"fileFlushInterval":        words("file-flush-interval"),
	"fileFlushMinSizeKb":       number("file-flush-min-size"),
	"runtimeValues":            pairs("envoy-runtime"),
	"proxyMetadata":            pairs("envoy-env"),
	"proxyStatsMatcher":        statsMatcher,
	"connectionSettings":       connectionLimit,
}

func words(flag string) reader {
	return func(raw json.RawMessage) ([]Setting, error) {
		var text string
		err := json.Unmarshal(raw, &text)
		return []Setting{{Flag: flag, Value: text}}, err
	}
}

func number(flag string) reader {
	return func(raw json.RawMessage) ([]Setting, error) {
		var n int64
		err := json.Unmarshal(raw, &n)
		return []Setting{{Flag: flag, Value: strconv.FormatInt(n, 10)}}, err
	}
}

// port completes a port number with the loopback address.
func port(flag string) reader {
	return func(raw json.RawMessage) ([]Setting, error) {
		some, err := number(flag)(raw)
		some[0].Value = "127.0.0.1:" + some[0].Value
		return some, err
	}
}

func pairs(flag string) reader {
	return func(raw json.RawMessage) ([]Setting, error) {
		var all map[string]string
		err := json.Unmarshal(raw, &all)
		list := make([]string, 0, len(all))
		for _, name := range sortedKeys(all) {
			list = append(list, name+"="+all[name])
		}
		return []Setting{{Flag: flag, Value: row(list)}}, err
	}
}

func statsMatcher(raw json.RawMessage) (some []Setting, err error) {
	var m struct {
		Prefixes []string `json:"inclusionPrefixes"`
		Suffixes []string `json:"inclusionSuffixes"`
		Regexps  []string `json:"inclusionRegexps"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	for _, each := range []struct {
		flag   string
		values []string
	}{
		{"stats-inclusion-prefixes", m.Prefixes}, {"stats-inclusion-suffixes", m.Suffixes}, {"stats-inclusion-regexps", m.Regexps},
	} {
		if len(each.values) > 0 {
			some = append(some, Setting{Flag: each.flag, Value: row(each.values)})
		}
	}
	return some, nil
}

// connectionLimit reads the only connection setting that applies to a whole proxy; discovery
// applies the others.
func connectionLimit(raw json.RawMessage) ([]Setting, error) {
	var m struct {
		Limit json.RawMessage `json:"globalDownstreamConnectionLimit"`
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Limit == nil {
		return nil, err
	}
	return number("max-connections")(m.Limit)
}

// row joins values to the comma-separated list that a flag takes, quoted as CSV.
func row(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = v
		if strings.ContainsAny(v, ",\"\n") {
			quoted[i] = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
		}
	}
	return strings.Join(quoted, ",")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
