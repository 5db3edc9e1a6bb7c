// Package plugin reads which module a Wasm plugin wants from somewhere else, and rewrites the
// plugin so that its Envoy finds the module on this machine.
//
// What discovery says to the agent alone, as Istio does, travels in variables of the plugin's
// environment: how to log in to a registry, and when to ask it again. Envoy never sees them.
package plugin

import (
	"fmt"
	"maps"
	"strings"
	"time"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Type is the type of the resources that plugins are.
const Type = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"

// The variables that are for the agent.
const (
	ourVariables = "ISTIO_META_"
	pullSecret   = ourVariables + "WASM_IMAGE_PULL_SECRET"
	pullPolicy   = ourVariables + "WASM_IMAGE_PULL_POLICY"
	version      = ourVariables + "WASM_PLUGIN_RESOURCE_VERSION"
)

// Policy says when a place is asked again whose module is kept.
type Policy int

// Default asks again where an image has the tag latest. Always asks again for each new version of a
// plugin.
const (
	Default Policy = iota
	IfNotPresent
	Always
)

var policies = map[string]Policy{"IfNotPresent": IfNotPresent, "Always": Always}

// Plugin is a Wasm plugin whose module is elsewhere.
type Plugin struct {
	Name string // of the resource
	URL  string
	// Digest is the SHA-256 that the module must have, in hexadecimal; "" for any.
	Digest string
	// Credentials are in the form of Docker's config.json; "" for none.
	Credentials string
	// NoCredentials says that the plugin has a pull secret that discovery could not read.
	NoCredentials bool
	Policy        Policy
	Version       string // of the plugin, which changes with it
	Timeout       time.Duration
	FailOpen      bool
	Network       bool // for connections, not for HTTP requests

	filter proto.Message
	vm     *wasmv3.VmConfig
}

const defaultTimeout, longestTimeout = 30 * time.Second, 5 * time.Minute

// Read reads a resource. It returns nil for what is no Wasm plugin, or has its module on the
// machine.
func Read(body []byte) (*Plugin, error) {
	name, filter, config, err := open(body)
	if err != nil {
		return nil, err
	}
	vm := config.GetVmConfig()
	remote := vm.GetCode().GetRemote()
	if remote == nil {
		return nil, nil
	}
	p := &Plugin{
		Name: name, URL: remote.GetHttpUri().GetUri(), Digest: strings.ToLower(remote.GetSha256()), Timeout: defaultTimeout,
		FailOpen: failsOpen(config), filter: filter, vm: vm,
	}
	_, p.Network = filter.(*networkv3.Wasm)
	if p.Digest == "nil" { // which istiod writes for none
		p.Digest = ""
	}
	if t := remote.GetHttpUri().GetTimeout().AsDuration(); t > 0 {
		p.Timeout = min(t, longestTimeout)
	}
	p.readVariables(vm.GetEnvironmentVariables().GetKeyValues())
	return p, nil
}

// open returns a resource's name, its filter, and the part of that which is the plugin; nil for
// another filter.
func open(body []byte) (name string, filter proto.Message, config *wasmv3.PluginConfig, err error) {
	packed, resource := &anypb.Any{}, &corev3.TypedExtensionConfig{}
	if err := proto.Unmarshal(body, packed); err != nil {
		return "", nil, nil, err
	}
	if err := packed.UnmarshalTo(resource); err != nil {
		return "", nil, nil, err
	}
	filter, config, err = unpack(resource.GetTypedConfig())
	if err != nil {
		return "", nil, nil, fmt.Errorf("the plugin %s cannot be read: %w", resource.GetName(), err)
	}
	return resource.GetName(), filter, config, nil
}

func (p *Plugin) readVariables(all map[string]string) {
	secret, has := all[pullSecret]
	p.Credentials, p.NoCredentials = secret, has && secret == ""
	p.Policy, p.Version = policies[all[pullPolicy]], all[version]
}

// SameModule reports whether another plugin wants the same module in the same way.
func (p *Plugin) SameModule(other *Plugin) bool {
	return p.URL == other.URL && p.Digest == other.Digest && p.Credentials == other.Credentials && p.Version == other.Version && p.Policy == other.Policy
}

// failsOpen reports whether requests pass while the plugin cannot run.
func failsOpen(config *wasmv3.PluginConfig) bool {
	if p := config.GetFailurePolicy(); p != wasmv3.FailurePolicy_UNSPECIFIED {
		return p == wasmv3.FailurePolicy_FAIL_OPEN
	}
	return config.GetFailOpen() //nolint:staticcheck // what failure_policy replaced counts still
}

// unpack returns the filter, and the part of it that is the plugin; nil for another filter.
func unpack(packed *anypb.Any) (filter proto.Message, config *wasmv3.PluginConfig, err error) {
	typeURL, read := packed.GetTypeUrl(), packed.UnmarshalTo
	if inner, value, is := typedStruct(packed); is {
		typeURL, read = inner, func(m proto.Message) error { return fromStruct(value, m) }
	}
	switch typeURL[strings.LastIndexByte(typeURL, '/')+1:] {
	case "envoy.extensions.filters.http.wasm.v3.Wasm":
		w := &httpv3.Wasm{}
		err = read(w)
		return w, w.GetConfig(), err
	case "envoy.extensions.filters.network.wasm.v3.Wasm":
		w := &networkv3.Wasm{}
		err = read(w)
		return w, w.GetConfig(), err
	default:
		return nil, nil, nil
	}
}

// typedStruct reads a configuration that was written as fields, without its type being known.
func typedStruct(packed *anypb.Any) (typeURL string, value *structpb.Struct, is bool) {
	var old udpav1.TypedStruct
	if packed.MessageIs(&old) && packed.UnmarshalTo(&old) == nil {
		return old.GetTypeUrl(), old.GetValue(), true
	}
	var now xdsv3.TypedStruct
	if packed.MessageIs(&now) && packed.UnmarshalTo(&now) == nil {
		return now.GetTypeUrl(), now.GetValue(), true
	}
	return "", nil, false
}

func fromStruct(value *structpb.Struct, m proto.Message) error {
	text, err := protojson.Marshal(value)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, m)
}

// WithFile returns the resource with the module in a file, and without what is for the agent alone.
func (p *Plugin) WithFile(path string) ([]byte, error) {
	p.vm.Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
		Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
	}}
	if env := p.vm.GetEnvironmentVariables(); env != nil {
		maps.DeleteFunc(env.GetKeyValues(), func(name, _ string) bool { return strings.HasPrefix(name, ourVariables) })
		if len(env.GetKeyValues())+len(env.GetHostEnvKeys()) == 0 {
			p.vm.EnvironmentVariables = nil
		}
	}
	return pack(p.Name, p.filter)
}

// pack returns a resource.
func pack(name string, filter proto.Message) ([]byte, error) {
	inner, err := anypb.New(filter)
	if err != nil {
		return nil, err
	}
	outer, err := anypb.New(&corev3.TypedExtensionConfig{Name: name, TypedConfig: inner})
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(outer)
}

// File returns the file that a resource has its module in; "" if it is no plugin that has one.
func File(body []byte) string {
	_, _, config, err := open(body)
	if err != nil {
		return ""
	}
	return config.GetVmConfig().GetCode().GetLocal().GetFilename()
}
