package resources_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

var ages = regexp.MustCompile(`(?m)\d+s$`)

func TestGetPrintsTables(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	for args, want := range map[[3]string]string{
		{"get", "vs"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
default     reviews   mesh       reviews.example.com   <age>
`,
		{"get", "virtualservices", "-A"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
default     reviews   mesh       reviews.example.com   <age>
prod        reviews   mesh       reviews.example.com   <age>
`,
		{"get", "vs", "-owide"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 DESTINATIONS   ORIGIN   AGE
default     ratings   mesh       ratings.example.com   ratings-v1     -        <age>
default     reviews   mesh       reviews.example.com   reviews-v1     -        <age>
`,
		{"get", "vs/prod/reviews", "dr/reviews"}: `NAMESPACE   NAME                     GATEWAYS   HOSTS                 AGE
prod        virtualservice/reviews   mesh       reviews.example.com   <age>

NAMESPACE   NAME                      HOST      SUBSETS       AGE
default     destinationrule/reviews   reviews   v1,v2,v3 +2   <age>
`,
		{"get", "gtw"}: `NAMESPACE   NAME   CLASS    PORTS     AGE
default     edge   pgmesh   80,8080   <age>
`,
		{"get", "gatewayclasses"}: `NAME     CONTROLLER             AGE
pgmesh   pgmesh.io/controller   <age>
`,
		{"get", "all", "-lapp"}: `NAMESPACE   NAME                     GATEWAYS   HOSTS                 AGE
default     virtualservice/ratings   mesh       ratings.example.com   <age>
default     virtualservice/reviews   mesh       reviews.example.com   <age>

NAMESPACE   NAME                                     CLASS    PORTS     AGE
default     gateway.gateway.networking.k8s.io/edge   pgmesh   80,8080   <age>
`,
		{"get", "vs", "-lapp in (ratings)"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
`,
	} {
		var given []string
		for _, a := range args {
			if a != "" {
				given = append(given, a)
			}
		}
		require.Equal(t, want, ages.ReplaceAllString(m.OK(given...), "<age>"), "%v", given)
	}
}

func TestGetOutputCanBeApplied(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	printed := clitest.WithoutTimes(m.OK("get", "vs", "reviews", "-n", "prod", "-o", "yaml"))
	require.Contains(t, printed, "reason: NotReported")
	require.Equal(t, clitest.VirtualService("prod", "reviews", "reviews-v2"), clitest.WithoutStatuses(printed))
	require.JSONEq(t, `{"controllerName": "pgmesh.io/controller"}`, m.OK("get", "gc", "pgmesh", "-o", "jsonpath={.spec}"))
	require.Equal(t, "gateway.gateway.networking.k8s.io/default/edge\n", m.OK("get", "gateways.gateway.networking.k8s.io", "-o", "name"))
	for _, format := range []string{"yaml", "json"} {
		everything := m.OK("get", "all", "-A", "-o", format)
		r := m.Pipe(everything, "apply", "-f", "-")
		require.Zero(t, r.Code, r.Err)
		require.Regexp(t, `^([a-z0-9.]+ \S+ unchanged\n){6}nothing to change\n$`, r.Out)
	}
	for _, reference := range []string{"virtualservice.networking.istio.io/prod/reviews", "gatewayclass.gateway.networking.k8s.io/pgmesh"} {
		require.Equal(t, reference+"\n", m.OK("get", reference, "-o", "name"))
	}
}

func TestGetMissingResource(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	for args, want := range map[[3]string]clitest.Result{
		{"get", "vs", "reviws"}:               {Code: 1, Out: "", Err: "error: VirtualService default/reviws: not found (did you mean \"reviews\"?)\n"},
		{"get", "vs/prod/ratings"}:            {Code: 1, Out: "", Err: "error: VirtualService prod/ratings: not found (there is one in the namespace default)\n"},
		{"get", "gc", "other-altogether"}:     {Code: 1, Out: "", Err: "error: GatewayClass other-altogether: not found\n"},
		{"get", "wasmplugins"}:                {Code: 0, Out: "", Err: "nothing found in namespace default\n"},
		{"get", "gateways", "-lapp=nothing"}:  {Code: 0, Out: "", Err: "nothing found in namespace default (the Gateway of gateway.networking.k8s.io is another kind: gtw)\n"},
		{"get", "gtw", "istios"}:              {Code: 1, Out: "", Err: "error: Gateway default/istios: not found (the Gateway of networking.istio.io is another kind: gw)\n"},
		{"get", "vs", "-lapp=nothing"}:        {Code: 0, Out: "", Err: "nothing found in namespace default\n"},
		{"get", "wasmplugins", "-oyaml"}:      {Code: 0, Out: "", Err: ""},
		{"get", "vs", "-l=a b"}:               {Code: 2, Out: "", Err: ""},
		{"get", "virtualservise"}:             {Code: 2, Out: "", Err: "error: unknown kind \"virtualservise\" (did you mean \"VirtualService\"?) (see mcp-client get --help)\n"},
		{"get", "vs/reviews", "vs"}:           {Code: 2, Out: "", Err: "error: \"vs\" is not of the form KIND/NAME, as the first argument is (see mcp-client get --help)\n"},
		{"get", "vs/reviews", "--labels=foo"}: {Code: 2, Out: "", Err: "error: unknown flag: --labels (see mcp-client get --help)\n"},
	} {
		var given []string
		for _, a := range args {
			if a != "" {
				given = append(given, a)
			}
		}
		got := m.Run(given...)
		if want.Err == "" {
			require.Equal(t, want.Code, got.Code, "%v: %s", given, got.Err)
			continue
		}
		require.Equal(t, want, got, "%v", given)
	}
	r := m.Run("get", "vs", "reviews", "nothing-like-it", "-o", "name")
	require.Equal(t, clitest.Result{Code: 1, Out: "virtualservice.networking.istio.io/default/reviews\n", Err: "error: VirtualService default/nothing-like-it: not found\n"}, r)
}

// A namespace that is misspelt has nothing in it, which is no answer. Who asks for one that is there, or for
// what has no namespace, is told no such thing.
func TestAMisspeltNamespaceIsTold(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	const note = "note: there is no resource in a namespace \"prd\", and no grant names it (did you mean \"prod\"?)\n"
	for args, want := range map[string]clitest.Result{
		"get virtualservices -n prd": {Err: "nothing found in namespace prd\n" + note},
		"get vs -n prd -o name":      {Err: note},
		"get vs,gc -n prd -o name":   {Out: "gatewayclass.gateway.networking.k8s.io/pgmesh\n", Err: note},
		"get all -n prd -o name":     {Out: "gatewayclass.gateway.networking.k8s.io/pgmesh\n", Err: note},
		"describe vs -n prd":         {Err: "nothing found in namespace prd\n" + note},
		"delete vs --all -n prd":     {Err: "nothing found in namespace prd\n" + note},
		"get wasmplugins -n prod":    {Err: "nothing found in namespace prod\n"},
		"get vs -n prod -l app=x":    {Err: "nothing found in namespace prod\n"},
		"get gc -n prd -o name":      {Out: "gatewayclass.gateway.networking.k8s.io/pgmesh\n"},
		"get gc -n prd -l app=x":     {Err: "nothing found in namespace prd\n"},
		"get vs reviews -n prd":      {Code: 1, Err: "error: VirtualService prd/reviews: not found (there is one in the namespace default)\n"},
		"get gw -A":                  {Err: "nothing found in any namespace (the Gateway of gateway.networking.k8s.io is another kind: gtw)\n"},
	} {
		require.Equal(t, want, m.Run(strings.Fields(args)...), args)
	}
	for args, want := range map[string]clitest.Result{
		"problems -n prd":                   {Err: "no problem found in namespace prd\n" + note},
		"analyze -n prd -o json":            {Out: "[]\n", Err: note},
		"export -n prd":                     {Err: note},
		"export -n prd FOLDER":              {Out: "0 resources in FOLDER\n", Err: note},
		"snapshot save FILE -n prd":         {Out: "0 resources in FILE\n", Err: note},
		"history -n prd":                    {Err: "no revision found\n" + note},
		"history vs/reviews -n prd":         {Err: "no revision found\n" + note},
		"history vs prod/x -n prd":          {Err: "no revision found\n"},
		"services -n prd":                   {Err: "no services found\n" + note},
		"services a.b -n prd":               {Code: 1, Err: note + "error: no service has the host \"a.b\"\n"},
		"export -n prod --kind wasmplugins": {},
		"history -n prod --author me":       {Err: "no revision found\n"},
	} {
		folder := filepath.Join(t.TempDir(), "new")
		replaced := strings.NewReplacer("FOLDER", folder, "FILE", folder)
		want.Out = replaced.Replace(want.Out)
		require.Equal(t, want, m.Run(strings.Fields(replaced.Replace(args))...), args)
	}
	w := m.Follow("get", "vs", "-n", "prd", "-w")
	require.Equal(t, strings.Split(strings.TrimSpace("nothing found in namespace prd\n"+note), "\n"), w.Lines(w.Err, 2))
}

func TestGetChoosesSortsAndShows(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "template")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, args := range map[string][]string{
		"default   ratings   mesh   ratings.example.com   <age>\ndefault   reviews   mesh   reviews.example.com   <age>\n": {"get", "vs", "--no-headers"},
		"default/ratings default/reviews ":       {"get", "vs", "--sort-by", "{.spec.http[0].route[0].destination.host}", "--field-selector", "metadata.namespace=default,metadata.name!=other", "-o", "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}"},
		"ratings <no value>;reviews <no value>;": {"get", "vs", "-o", `go-template={{range .items}}{{.metadata.name}} {{.spec.x}};{{end}}`},
		"VirtualService reviews-v1":              {"get", "vs/reviews", "-o", "go-template-file=" + file(`{{.kind}} {{(index (index .spec.http 0).route 0).destination.host}}`)},
		"reviews.example.com":                    {"get", "vs/reviews", "-o", "jsonpath-file=" + file(`{.spec.hosts[0]}`)},
		"reviews-v1   <none>\n":                  {"get", "vs/reviews", "-o", "custom-columns=HOST:.spec.http[0].route[0].destination.host,X:.x", "--no-headers"},
	} {
		require.Equal(t, want, ages.ReplaceAllString(m.OK(args...), "<age>"), "%v", args)
	}
	shown := m.OK("get", "vs", "-A", "--show-labels", "--field-selector", "metadata.namespace!=prod", "--sort-by", ".metadata.name")
	require.Regexp(t, `AGE +LABELS\ndefault +ratings .* app=ratings\ndefault +reviews .* app=reviews\n$`, shown)
	require.Regexp(t, `pgmesh +pgmesh.io/controller +\S+ +<none>\n$`, m.OK("get", "gc", "--show-labels"))
	for _, args := range [][]string{{"--field-selector", "a"}, {"--field-selector", "=b"}, {"--sort-by", "{"}, {"-o", "go-template={{.kind"}, {"-o", "go-template"}, {"-o", "go-template-file=/nowhere"}, {"-o", "jsonpath-file=/nowhere"}} {
		require.Equal(t, 2, m.Run(append([]string{"get", "vs"}, args...)...).Code, args)
	}
}

// A mistyped path is told, for it would find nothing.
func TestGetRefusesPathsThatFindNothing(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		`error: --sort-by: VirtualService.metadata has no field "creationTimestmp" (did you mean "creationTimestamp"?) (see mcp-client get --help)`: {"--sort-by", ".metadata.creationTimestmp"},
		`error: --field-selector: VirtualService.spec has no field "gatways" (did you mean "gateways"?) (see`:                                       {"--field-selector", "metadata.name=a,spec.gatways[0]!=edge"},
		`error: a status and a resourceVersion are not looked at while a watch goes on`:                                                             {"--field-selector", "status.proxies.refusing!=0", "-w"},
	} {
		r := clitest.Run(t.Context(), "", nil, append([]string{"get", "vs"}, args...)...)
		require.Equal(t, 2, r.Code, r.Err)
		require.Contains(t, r.Err, says)
	}
}

func TestGetGoesOn(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	w := m.Follow("get", "vs", "-w", "-A", "-l", "app!=hidden", "--field-selector", "metadata.namespace!=prod", "-o", "name")
	require.Equal(t, []string{"virtualservice.networking.istio.io/default/reviews"}, w.Lines(w.Out, 1))
	m.Apply(clitest.VirtualService("default", "hidden", "v1") + clitest.Separator + clitest.VirtualService("prod", "reviews", "v1"))
	m.Apply(clitest.VirtualService("default", "ratings", "v1"))
	require.Equal(t, []string{"virtualservice.networking.istio.io/default/ratings"}, w.Lines(w.Out, 1))
	m.OK("delete", "vs/reviews")
	require.Equal(t, []string{"virtualservice.networking.istio.io/default/reviews deleted"}, w.Lines(w.Out, 1))
	require.Equal(t, 130, w.Interrupt())
}

// Programs that follow get -w read one object after the other, from the first on.
func TestGetGoesOnWithObjects(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "a", "v1") + clitest.Separator + clitest.VirtualService("default", "b", "v1"))
	w := m.Follow("get", "vs", "-w", "-o", "jsonpath={.kind} {.metadata.name}{\"\\n\"}")
	require.Equal(t, []string{"VirtualService a", "VirtualService b"}, w.Lines(w.Out, 2))
	m.Apply(clitest.VirtualService("default", "c", "v1") + clitest.Separator + clitest.VirtualService("default", "d", "v1"))
	require.Equal(t, []string{"VirtualService c", "VirtualService d"}, w.Lines(w.Out, 2))
	m.OK("delete", "vs/c")
	require.Equal(t, []string{"virtualservice.networking.istio.io/default/c deleted"}, w.Lines(w.Err, 1))
	require.Equal(t, 130, w.Interrupt())
}

// What is the mesh's own is printed as imports for Terraform; what comes from registries and machines is counted.
func TestGetPrintsImportsForTerraform(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, `import {
  to = pgmesh_virtual_service.ratings
  id = "default/ratings"
}
import {
  to = pgmesh_virtual_service.reviews
  id = "default/reviews"
}
`, m.OK("get", "vs", "-o", "terraform"))
	everywhere := m.OK("get", "vs,dr,gtw,gatewayclasses", "-A", "-o", "terraform")
	for _, block := range []string{
		"to = pgmesh_virtual_service.default_reviews\n  id = \"default/reviews\"", "to = pgmesh_virtual_service.prod_reviews\n  id = \"prod/reviews\"",
		"to = pgmesh_virtual_service.ratings\n", "to = pgmesh_destination_rule.reviews\n", "to = pgmesh_gateway_api_gateway.edge\n", "to = pgmesh_gateway_class.pgmesh\n  id = \"pgmesh\"",
	} {
		require.Contains(t, everywhere, block)
	}
	m.Apply("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: mine}\nspec: {address: 10.0.0.1}\n")
	m.Execute(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	m.Register(m.Store())
	r := m.Run("get", "we", "-A", "-o", "terraform")
	require.Contains(t, r.Out, "pgmesh_workload_entry.mine")
	require.Equal(t, 1, strings.Count(r.Out, "import {"), r.Out)
	require.Regexp(t, "left out: [1-9][0-9]* resources? of registries or of machines", r.Err)

	for _, args := range [][]string{{"kinds"}, {"history"}, {"export"}, {"watch", "vs"}, {"get", "vs", "-w"}} {
		r := m.Run(append(args, "-o", "terraform")...)
		require.Equal(t, 2, r.Code, args)
		require.Contains(t, r.Err, "-o terraform is of ")
		require.Empty(t, r.Out)
	}
}
