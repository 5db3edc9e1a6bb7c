package plugin_test

import (
	"fmt"
	"testing"
	"time"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
)

const (
	onRequests    = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	onConnections = "type.googleapis.com/envoy.extensions.filters.network.wasm.v3.Wasm"
)

// remote is a plugin's configuration, with the module elsewhere.
const remote = `"config": {"name": "p", "failure_policy": %q, "vm_config": {
	"code": {"remote": {"http_uri": {"uri": "oci://r.example/a:v1", "cluster": "_", "timeout": "7s"}, "sha256": "ABCD"}},
	"environment_variables": {"host_env_keys": ["HOME"], "key_values": {"OWN": "x", "ISTIO_META_WASM_IMAGE_PULL_SECRET": "{}", "ISTIO_META_WASM_IMAGE_PULL_POLICY": "Always",
		"ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION": "3", "ISTIO_META_OTHER": "y"}}}}`

func resource(t *testing.T, config string) []byte {
	t.Helper()
	m := &corev3.TypedExtensionConfig{}
	require.NoError(t, protojson.Unmarshal([]byte(`{"name": "shop.p", "typed_config": `+config+`}`), m))
	return packed(t, m)
}

func packed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	outer, err := anypb.New(m)
	require.NoError(t, err)
	body, err := proto.Marshal(outer)
	require.NoError(t, err)
	return body
}

func unpacked(t *testing.T, body []byte) *corev3.TypedExtensionConfig {
	t.Helper()
	outer, m := &anypb.Any{}, &corev3.TypedExtensionConfig{}
	require.NoError(t, proto.Unmarshal(body, outer))
	require.NoError(t, outer.UnmarshalTo(m))
	return m
}

func TestReadAndRewrite(t *testing.T) {
	t.Parallel()
	for _, typeURL := range []string{onRequests, onConnections} {
		p, err := plugin.Read(resource(t, fmt.Sprintf(`{"@type": %q, `+remote+`}`, typeURL, "FAIL_OPEN")))
		require.NoError(t, err)
		require.Equal(t, []any{"shop.p", "oci://r.example/a:v1", "abcd", "{}", plugin.Always, "3", 7 * time.Second, true, typeURL == onConnections},
			[]any{p.Name, p.URL, p.Digest, p.Credentials, p.Policy, p.Version, p.Timeout, p.FailOpen, p.Network})
		body, err := p.WithFile("/kept/a.wasm")
		require.NoError(t, err)
		require.Equal(t, "/kept/a.wasm", plugin.File(body))
		text := protojson.Format(unpacked(t, body))
		require.Contains(t, text, "OWN")
		require.Contains(t, text, "HOME")
		require.NotContains(t, text, "ISTIO_META")
		require.NotContains(t, text, "remote")
		again, err := plugin.Read(body)
		require.NoError(t, err)
		require.Nil(t, again)
	}
}

// A plugin that was written as fields, as EnvoyFilters have them, is read too.
func TestFieldsWithoutAType(t *testing.T) {
	t.Parallel()
	fields := &structpb.Struct{}
	require.NoError(t, protojson.Unmarshal([]byte(fmt.Sprintf(`{`+remote+`}`, "FAIL_CLOSED")), fields))
	inner, err := anypb.New(&udpav1.TypedStruct{TypeUrl: onRequests, Value: fields})
	require.NoError(t, err)
	p, err := plugin.Read(packed(t, &corev3.TypedExtensionConfig{Name: "shop.p", TypedConfig: inner}))
	require.NoError(t, err)
	require.Equal(t, "oci://r.example/a:v1", p.URL)
	require.False(t, p.FailOpen)
}

func TestWhatIsNotToBeFetched(t *testing.T) {
	t.Parallel()
	for _, config := range []string{
		`{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}`,
		`{"@type": "` + onRequests + `", "config": {"vm_config": {"code": {"local": {"filename": "/a.wasm"}}}}}`,
		`{"@type": "` + onRequests + `"}`,
	} {
		p, err := plugin.Read(resource(t, config))
		require.NoError(t, err, config)
		require.Nil(t, p, config)
	}
	_, err := plugin.Read([]byte("no message"))
	require.Error(t, err)
}

func TestStandIns(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		policy := map[bool]string{true: "FAIL_OPEN", false: "FAIL_RELOAD"}[open]
		for _, typeURL := range []string{onRequests, onConnections} {
			p, err := plugin.Read(resource(t, fmt.Sprintf(`{"@type": %q, `+remote+`}`, typeURL, policy)))
			require.NoError(t, err)
			body, version, err := p.StandIn()
			require.NoError(t, err)
			require.True(t, plugin.IsStandIn(version))
			m := unpacked(t, body)
			require.Equal(t, "shop.p", m.GetName())
			var rules any
			if typeURL == onRequests {
				f := &httprbacv3.RBAC{}
				require.NoError(t, m.GetTypedConfig().UnmarshalTo(f))
				rules = f.GetRules()
			} else {
				f := &networkrbacv3.RBAC{}
				require.NoError(t, m.GetTypedConfig().UnmarshalTo(f))
				rules = f.GetRules()
			}
			if open {
				require.Nil(t, rules)
			} else {
				require.NotNil(t, rules, "rules that are empty allow nobody")
			}
			file, err := p.WithFile("/gone.wasm")
			require.NoError(t, err)
			same, sameVersion, err := plugin.StandInFor(file)
			require.NoError(t, err)
			require.Equal(t, body, same)
			require.Equal(t, version, sameVersion)
		}
	}
}

// FuzzRead holds that whatever discovery sends is at most an error, and that Envoy is sent nothing
// that is for the agent.
func FuzzRead(f *testing.F) {
	for _, typeURL := range []string{onRequests, onConnections} {
		m := &corev3.TypedExtensionConfig{}
		if err := protojson.Unmarshal([]byte(fmt.Sprintf(`{"name": "p", "typed_config": {"@type": %q, `+remote+`}}`, typeURL, "FAIL_OPEN")), m); err != nil {
			f.Fatal(err)
		}
		outer, _ := anypb.New(m)
		body, _ := proto.Marshal(outer)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = plugin.File(body)
		_, _, _ = plugin.StandInFor(body)
		p, err := plugin.Read(body)
		if err != nil || p == nil {
			return
		}
		_, _, err = p.StandIn()
		require.NoError(t, err)
		rewritten, err := p.WithFile("/kept/a.wasm")
		require.NoError(t, err)
		require.Equal(t, "/kept/a.wasm", plugin.File(rewritten))
	})
}
