// Package extension puts the modules and scripts of users among Envoy's filters.
//
// A filter in a listener names its configuration, which is a resource of its own. So Envoy refuses
// a bad configuration alone, and not the listener with it; and a listener does not change when a
// module does. The form of both is Istio's, which agents read.
package extension

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	tcpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Configs are the configurations of the extensions that are for a proxy.
func Configs(v view.View) []*corev3.TypedExtensionConfig {
	all := v.Mesh.Extensions(v.Proxy)
	if len(all) == 0 {
		return nil
	}
	out := make([]*corev3.TypedExtensionConfig, 0, len(all))
	for _, e := range all {
		out = append(out, &corev3.TypedExtensionConfig{Name: e.Name, TypedConfig: message.Pack(configOf(v, e))})
	}
	return out
}

func configOf(v view.View, e *mesh.Extension) proto.Message {
	switch {
	case e.Spec.GetLua() != nil:
		return &luav3.Lua{DefaultSourceCode: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: e.Spec.GetLua().GetInlineCode()},
		}}
	case e.OnRequests():
		return &httpwasmv3.Wasm{Config: pluginOf(v, e)}
	default:
		return &tcpwasmv3.Wasm{Config: pluginOf(v, e)}
	}
}

func pluginOf(v view.View, e *mesh.Extension) *wasmv3.PluginConfig {
	w := e.Spec.GetWasm()
	return &wasmv3.PluginConfig{
		Name: e.Resource.Namespace + "." + e.Resource.Name, RootId: w.GetPluginName(), Configuration: settings(w.GetPluginConfig()),
		FailurePolicy: failurePolicies[w.GetFailStrategy()],
		Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
			Runtime: "envoy.wasm.runtime.v8", Code: code(w), EnvironmentVariables: environment(v, e),
		}},
	}
}

var failurePolicies = map[extensions.FailStrategy]wasmv3.FailurePolicy{
	extensions.FailStrategy_FAIL_CLOSE:  wasmv3.FailurePolicy_FAIL_CLOSED,
	extensions.FailStrategy_FAIL_OPEN:   wasmv3.FailurePolicy_FAIL_OPEN,
	extensions.FailStrategy_FAIL_RELOAD: wasmv3.FailurePolicy_FAIL_RELOAD,
}

// settings are what the module reads as its configuration: JSON, always the same for the same
// fields.
func settings(config *structpb.Struct) *anypb.Any {
	if len(config.GetFields()) == 0 {
		return nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(config.AsMap()); err != nil {
		return nil // a number that JSON has no word for, and so no document could bring
	}
	return message.Pack(wrapperspb.String(strings.TrimSuffix(b.String(), "\n")))
}

// moduleTimeout is how long an agent may take to fetch a module, as in Istio.
const moduleTimeout = 30 * time.Second

// code is where the module is. Agents fetch what is not a file of the machine, so Envoy needs no
// cluster for it.
func code(w *extensions.WasmConfig) *corev3.AsyncDataSource {
	at := mesh.ModuleURL(w.GetUrl())
	if path, onMachine := strings.CutPrefix(at, mesh.ModuleFile); onMachine {
		return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: message.File(path)}}
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{Uri: at, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: "_"}, Timeout: durationpb.New(moduleTimeout)},
		Sha256:  w.GetSha256(),
	}}}
}

// What agents read of the environment of a module, beside mesh.PullSecretVariable, and take out of
// it.
const (
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
)

// environment is that of the module's machine. Where the module is fetched, it has what the agent
// has to know for that: Envoy is given what it does not fetch as it is, so nothing else is there.
func environment(v view.View, e *mesh.Extension) *wasmv3.EnvironmentVariables {
	out := &wasmv3.EnvironmentVariables{KeyValues: map[string]string{}}
	for _, variable := range e.Spec.GetWasm().GetVmConfig().GetEnv() {
		switch variable.GetValueFrom() {
		case extensions.EnvValueSource_INLINE:
			out.KeyValues[variable.GetName()] = variable.GetValue()
		case extensions.EnvValueSource_HOST:
			out.HostEnvKeys = append(out.HostEnvKeys, variable.GetName())
		}
	}
	if e.IsFetched() {
		forAgents(v, e, out.KeyValues)
	}
	return out
}

// forAgents says how a module is fetched. A secret that is named and not there is empty: the agent
// then fetches nothing.
func forAgents(v view.View, e *mesh.Extension, variables map[string]string) {
	variables[versionVariable] = e.Version
	if policy := e.Spec.GetWasm().GetImagePullPolicy(); policy != extensions.PullPolicy_UNSPECIFIED_POLICY {
		variables[policyVariable] = policy.String()
	}
	if _, pulls := e.PullSecret(); pulls {
		variables[mesh.PullSecretVariable] = ""
		if s := v.Mesh.PullSecret(e, v.Proxy); s != nil {
			variables[mesh.PullSecretVariable] = string(s.Registries)
		}
	}
}
