package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

func tree(t *testing.T, text []byte) (tree map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&tree))
	return tree
}

func rootOf(t *testing.T, k *kinds.Kind) (*schema.Type, tftypes.Type) {
	t.Helper()
	root, known := schema.Root(k.Group, k.Name)
	require.True(t, known)
	return root, spec.Block(root, "").Type().TerraformType(t.Context())
}

// document is a spec in its normal form.
type document struct {
	kind *kinds.Kind
	spec map[string]any
}

// valid returns the documents that tests of kinds take, of every kind.
func valid(t *testing.T) (all []document) {
	t.Helper()
	files, err := filepath.Glob("../../../kinds/testdata/valid/*.yaml")
	require.NoError(t, err)
	for _, file := range append(files, "../../../kinds/testdata/every-kind.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var read struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
				Spec       map[string]any
			}
			err := decoder.Decode(&read)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			kind, err := kinds.ByAPIVersion(read.APIVersion, read.Kind)
			require.NoError(t, err, file)
			written, err := json.Marshal(read.Spec)
			require.NoError(t, err)
			root, _ := rootOf(t, kind)
			spec := tree(t, written)
			if spec == nil {
				spec = map[string]any{}
			}
			normal, problems := schema.Check(root, "spec", spec)
			require.Empty(t, problems, file)
			all = append(all, document{kind, normal.(map[string]any)})
		}
	}
	require.Greater(t, len(all), 100)
	return all
}

// What is stored reads back from Terraform as it was.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[*kinds.Kind]bool{}
	for _, d := range valid(t) {
		seen[d.kind] = true
		root, as := rootOf(t, d.kind)
		value, err := spec.Value(root, d.spec, as)
		require.NoError(t, err, d.kind)
		reading, err := spec.Read(root, "spec", value)
		require.NoError(t, err, d.kind)
		require.Empty(t, reading.Problems)
		require.Empty(t, reading.Unknown)
		require.Equal(t, withoutNone(d.spec), withoutNone(spec.Keep(root, d.spec, reading.Tree)), d.kind)
		again, err := spec.Value(root, reading.Tree, as)
		require.NoError(t, err, d.kind)
		require.True(t, value.Equal(again), d.kind)
	}
	for _, k := range kinds.All() {
		require.True(t, seen[k], k)
	}
}

// withoutNone leaves out empty lists and maps: no block is as good as none.
func withoutNone(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, member := range tree {
			list, isList := member.([]any)
			if object, is := member.(map[string]any); (!isList || len(list) > 0) && (!is || len(object) > 0) {
				kept[name] = withoutNone(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(tree))
		for i, item := range tree {
			kept[i] = withoutNone(item)
		}
		return kept
	}
	return tree
}

// Names are what Terraform takes, and no two fields of a message share one.
func TestNames(t *testing.T) {
	t.Parallel()
	argument, fields := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`), 0
	for _, typ := range schema.Types() {
		taken := map[string]string{}
		for _, f := range typ.Fields {
			name := spec.FieldName(&f)
			require.Regexp(t, argument, name)
			require.NotEqual(t, "dynamic", name, "HCL has it for itself")
			require.Empty(t, taken[name], "%s: %s and %s are one", typ.Name, f.Name, taken[name])
			taken[name] = f.Name
			fields++
			if f.Map && f.Type == schema.Message {
				for _, member := range schema.Types()[f.TypeRef].Fields {
					require.NotEqual(t, spec.Key, spec.FieldName(&member))
				}
			}
		}
	}
	require.Greater(t, fields, 1000)
	for name, want := range map[string]string{
		"jwksUri": "jwks_uri", "wellKnownCACertificates": "well_known_ca_certificates", "meshMTLS": "mesh_mtls", "http": "http", "h2UpgradePolicy": "h2_upgrade_policy",
		"HTTPRoute": "http_route", "XBackendTrafficPolicy": "x_backend_traffic_policy",
	} {
		require.Equal(t, want, terraform.Name(name))
	}
	require.Equal(t, "consecutive_5xx_errors", spec.FieldName(&schema.Field{Name: "consecutive5xxErrors", Aliases: []string{"consecutive_5xx_errors"}}))
	require.Equal(t, "mesh_mtls", spec.FieldName(&schema.Field{Name: "meshMTLS", Aliases: []string{"mesh_mTLS"}}))
	types := map[string]bool{}
	for _, k := range kinds.All() {
		require.False(t, types[terraform.ResourceType(k)], k)
		types[terraform.ResourceType(k)] = true
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	k, err := kinds.ByName("VirtualService")
	require.NoError(t, err)
	root, _ := rootOf(t, k)
	whole := &schema.Type{Fields: []schema.Field{
		{Name: "name", Type: schema.String},
		{Name: "labels", Type: schema.String, Map: true},
		{Name: "spec", Type: schema.Message, TypeRef: root.Name},
	}}
	routes := path.Root("spec").AtName("http")
	for at, want := range map[string]path.Path{
		"name":                                   path.Root("name"),
		`labels["a.b/c"]`:                        path.Root("labels").AtMapKey("a.b/c"),
		"spec.http[0].retries.perTryTimeout":     routes.AtListIndex(0).AtName("retries").AtName("per_try_timeout"),
		"spec.hosts[1]":                          path.Root("spec").AtName("hosts").AtListIndex(1),
		"spec.http[0].match[2].headers.x.prefix": routes.AtListIndex(0).AtName("match").AtListIndex(2).AtName("headers"),
		"spec.http[3].rout":                      routes.AtListIndex(3),
		"spec.http[0].headers.request.set.x":     routes.AtListIndex(0).AtName("headers").AtName("request").AtName("set").AtMapKey("x"),
		"":                                       path.Empty(),
	} {
		require.Equal(t, want.String(), spec.Place(whole, at).String(), at)
	}
}

// A value that means the same keeps its spelling, and one that does not is the new one.
func TestKeep(t *testing.T) {
	t.Parallel()
	k, err := kinds.ByName("VirtualService")
	require.NoError(t, err)
	root, _ := rootOf(t, k)
	before := tree(t, []byte(`{"hosts": ["a"], "http": [{"timeout": "1m", "retries": {"attempts": 3, "perTryTimeout": "500ms"}}, {"timeout": "2m"}]}`))
	now := tree(t, []byte(`{"hosts": ["a", "b"], "http": [{"timeout": "60s", "retries": {"attempts": 4, "perTryTimeout": "0.500s"}}, {"timeout": "121s"}]}`))
	require.Equal(t, tree(t, []byte(`{"hosts": ["a", "b"], "http": [{"timeout": "1m", "retries": {"attempts": 4, "perTryTimeout": "500ms"}}, {"timeout": "121s"}]}`)), spec.Keep(root, before, now))
	require.Equal(t, now, spec.Keep(root, nil, now))

	filter, err := kinds.ByName("EnvoyFilter")
	require.NoError(t, err)
	root, _ = rootOf(t, filter)
	patch := func(number string) map[string]any {
		return tree(t, []byte(`{"configPatches": [{"patch": {"value": {"a": `+number+`}}}]}`))
	}
	require.Equal(t, patch("1.0"), spec.Keep(root, patch("1.0"), patch("1")))
	require.Equal(t, patch("9007199254740993"), spec.Keep(root, patch("9007199254740993"), patch("9007199254740992")), "the admin API has no such number")
	require.Equal(t, patch("2"), spec.Keep(root, patch("1.0"), patch("2")))
}

func TestWhatIsNoTree(t *testing.T) {
	t.Parallel()
	k, err := kinds.ByName("WasmPlugin")
	require.NoError(t, err)
	root, as := rootOf(t, k)
	value, err := spec.Value(root, map[string]any{"url": "oci://a"}, as)
	require.NoError(t, err)
	with := func(name string, v any) tftypes.Value {
		var members map[string]tftypes.Value
		require.NoError(t, value.Copy().As(&members))
		members[name] = tftypes.NewValue(as.(tftypes.Object).AttributeTypes[name], v)
		return tftypes.NewValue(as, members)
	}
	reading, err := spec.Read(root, "spec", with("plugin_config", `{"a": `))
	require.NoError(t, err)
	require.Len(t, reading.Problems, 1)
	require.Equal(t, "spec.pluginConfig", reading.Problems[0].Path)
	require.Contains(t, reading.Problems[0].Reason, "not JSON")
	reading, err = spec.Read(root, "spec", with("plugin_config", `{} {}`))
	require.NoError(t, err)
	require.Contains(t, reading.Problems[0].Reason, "there is more")
	reading, err = spec.Read(root, "spec", with("url", tftypes.UnknownValue))
	require.NoError(t, err)
	require.Equal(t, []string{"spec.url"}, reading.Unknown)
	require.NotContains(t, reading.Tree, "url")
}
