package resources_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

const convertedGateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {selector: {a: b}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`

const convertedService = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.example.com]
  gateways: [edge]
  http: [{fault: {abort: {httpStatus: 503}}, route: [{destination: {host: web.shop.mesh, port: {number: 80}}}]}]
`

func TestConvertPrintsWhatApplyTakes(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	r := clitest.Run(t.Context(), convertedGateway+clitest.Separator+convertedService, nil, "convert", "-f", "-")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "warning: standard input: document 2, line 6: VirtualService shop/web: spec.http[0].fault: a route has no faults")
	require.Contains(t, r.Out, "kind: HTTPRoute")
	require.Contains(t, r.Out, "- name: edge")
	applied := m.Pipe(r.Out, "apply", "-f", "-")
	require.Zero(t, applied.Code, applied.Err)

	r = clitest.Run(t.Context(), convertedGateway+clitest.Separator+convertedService, nil, "convert", "-f", "-", "-o", "json")
	var list struct{ Items []struct{ Kind string } }
	require.NoError(t, json.Unmarshal([]byte(r.Out), &list))
	require.Len(t, list.Items, 2)
	require.Equal(t, "Gateway", list.Items[0].Kind)
}

func TestConvertReadsTheServer(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(convertedGateway + clitest.Separator + convertedService)
	r := m.Run("convert", "virtualservice/web", "-n", "shop")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "warning: VirtualService shop/web: spec.http[0].fault: a route has no faults")
	require.Contains(t, r.Err, "note: VirtualService shop/web: spec.gateways: the Gateway shop/edge is not among what is converted")
	require.NotContains(t, r.Out, "kind: Gateway\n")
	require.Contains(t, m.OK("convert", "all", "-A"), "kind: Gateway\n")
	require.Equal(t, 1, m.Run("convert", "virtualservice/gone", "-n", "shop").Code)
}

func TestConvertSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"a.yaml": convertedGateway + clitest.Separator + convertedService, "wrong.yaml": "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: {host: [a]}\n",
		"odd.txt": "what is this?", "nginx/nginx.conf": "http {\n  include conf.d/*.conf;\n}\n", "nginx/conf.d/a.conf": "server { listen 80; location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; } }\n",
		"broken.conf": "server {",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		args []string
		code int
		told string
	}{
		"strict":        {[]string{"-f", at("a.yaml"), "--strict"}, 3, "error: 1 thing would be lost, and --strict lets nothing be\n"},
		"invalid":       {[]string{"-f", at("wrong.yaml")}, 3, `unknown field "host"`},
		"unknown":       {[]string{"-f", at("odd.txt")}, 1, "it is not known what this is: say --from istio, ingress, nginx"},
		"unknown from":  {[]string{"-f", at("a.yaml"), "--from", "apache"}, 2, "--from apache: there is istio, ingress, nginx"},
		"broken":        {[]string{"-f", at("broken.conf")}, 1, "broken.conf: line 1: the file ends within a block"},
		"nothing named": {nil, 2, "name either files with -f, or what to read from the server"},
		"both named":    {[]string{"vs", "-f", at("a.yaml")}, 2, "name either files with -f, or what to read from the server"},
		"nothing there": {[]string{"-f", at("a.yaml"), "--from", "ingress"}, 1, "there is nothing that could be converted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := clitest.Run(t.Context(), "", nil, append([]string{"convert"}, c.args...)...)
			require.Equal(t, c.code, r.Code, r.Err)
			require.Contains(t, r.Err, c.told)
			require.Empty(t, r.Out)
		})
	}
	// What is included by a file of a folder is converted once.
	r := clitest.Run(t.Context(), "", nil, "convert", "-R", "-f", at("nginx"), "--strict")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "name: 10-0-0-1.default.mesh")
	require.NotContains(t, r.Out, "default-2")
}

const (
	ofConsulHCL  = "Kind = \"service-intentions\"\nName = \"web\"\nSources = [{ Name = \"shop\", Action = \"deny\" }]\n"
	ofConsulYAML = "Kind: service-intentions\nName: cart\nSources: [{Name: shop, Action: deny}]\n"
	ofConsulJSON = `{"Kind": "service-intentions", "Name": "pay", "Sources": [{"Name": "shop", "Action": "deny"}]}`
	ofNGINX      = "server { listen 80; location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; } }\n"
	ofHAProxy    = "frontend web\n  bind :80\n  mode http\n  default_backend b\nbackend b\n  mode http\n  server s 10.0.0.1:80\n"
)

// Of a folder, all files of the format are read; what is not read of it is told.
func TestFoldersAreReadInTheFormatOfFrom(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"consul/web.hcl": ofConsulHCL, "consul/deep/cart.yaml": ofConsulYAML, "consul/pay.json": ofConsulJSON,
		"nginx/nginx.conf": "http {\n  include params;\n  include conf.d/*.site;\n}\n", "nginx/conf.d/a.site": ofNGINX, "nginx/params": "", "nginx/ci.yaml": "on: push\n",
		"haproxy/haproxy.cfg": ofHAProxy, "haproxy/README.md": "# HAProxy", "haproxy/map.lst": "x",
	})
	for from, c := range map[string]struct{ has, left string }{
		"consul":  {"AuthorizationPolicy", ""},
		"nginx":   {"HTTPRoute", "1 file is not read, since the ending is none of .conf: " + filepath.Join(dir, "nginx", "ci.yaml")},
		"haproxy": {"HTTPRoute", "2 files are not read, since the ending is none of .cfg: " + filepath.Join(dir, "haproxy", "README.md") + ", " + filepath.Join(dir, "haproxy", "map.lst")},
	} {
		at := filepath.Join(dir, from)
		r := clitest.Run(t.Context(), "", nil, "convert", "-R", "-f", at, "--from", from)
		require.Zero(t, r.Code, r.Err)
		require.Contains(t, r.Out, "kind: "+c.has, from)
		m := clitest.Start(t)
		imported := m.Run("import", "--from", from, at)
		require.Zero(t, imported.Code, imported.Err)
		require.NotZero(t, m.Stored(), from)
		if c.left != "" {
			require.Contains(t, r.Err, c.left)
			require.Contains(t, imported.Err, c.left)
			require.Equal(t, 3, clitest.Run(t.Context(), "", nil, "convert", "-R", "-f", at, "--from", from, "--strict").Code, from)
			require.Equal(t, 3, m.Run("import", "--from", from, at, "--strict").Code, from)
			continue
		}
		for _, service := range []string{"web", "cart", "pay"} {
			require.Contains(t, r.Out, service, "the intentions of each file")
		}
		require.NotContains(t, imported.Err, "not read")
	}
}

// Files are named with -f and without it, in each command that takes some.
func TestFilesAreTakenInEitherWay(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{"web/nginx.conf": ofNGINX, "mesh/deep/a.yaml": clitest.VirtualService("default", "a", "a")})
	nginx, mesh := filepath.Join(dir, "web", "nginx.conf"), filepath.Join(dir, "mesh")
	run := func(args ...string) clitest.Result { return clitest.Run(t.Context(), "", nil, args...) }
	require.Equal(t, run("convert", "-f", nginx), run("convert", nginx))
	require.Contains(t, run("convert", nginx).Out, "kind: HTTPRoute")
	require.Contains(t, run("convert", filepath.Join(dir, "gone.conf")).Err, "unknown kind")
	require.Equal(t, run("analyze", mesh), run("analyze", "-R", "-f", mesh))
	require.Contains(t, run("analyze", "-f", mesh).Out, "unknown-host")
	require.Equal(t, "1 resource is valid\n", run("validate", "-R", "-f", mesh).Out)
	m := clitest.Start(t)
	r := m.Run("import", "-R", "-f", mesh)
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, 1, m.Stored())
}

// What cannot be read says what can read it.
func TestFilesOfOthersAreToldHowToImport(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{"c/web.hcl": ofConsulHCL, "n/web.conf": ofNGINX, "h/web.cfg": ofHAProxy, "mesh/deep/a.yaml": clitest.VirtualService("default", "a", "a")})
	run := func(args ...string) clitest.Result { return clitest.Run(t.Context(), "", nil, args...) }
	for at, from := range map[string]string{"c/web.hcl": "consul", "n/web.conf": "nginx", "h/web.cfg": "haproxy"} {
		file := filepath.Join(dir, at)
		for _, args := range [][]string{{"apply", "-f", file}, {"validate", file}, {"delete", "-f", file}} {
			r := run(args...)
			require.Equal(t, 3, r.Code, "%s: %s", args, r.Err)
			require.Contains(t, r.Err, file+": it has no resources in YAML or JSON (mcp-client import --from "+from+" "+file+" converts what it has)\n")
			require.Contains(t, r.Err, "mistake", "and no more of its syntax")
			require.NotContains(t, r.Err, "mistakes")
		}
		r := run("apply", "-f", filepath.Dir(file))
		require.Equal(t, 1, r.Code)
		require.Contains(t, r.Err, "mcp-client import --from "+from+" "+filepath.Dir(file))
	}
	mesh := filepath.Join(dir, "mesh")
	require.Contains(t, run("apply", "-f", mesh).Err, "but in the folders below: -R reads "+filepath.Join(mesh, "deep", "a.yaml")+", too")
	m := clitest.Start(t)
	r := m.Run("import", filepath.Join(dir, "c", "web.hcl"))
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "mcp-client import --from consul ")
}
