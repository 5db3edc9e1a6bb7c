package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
)

const reviews = `
resource "pgmesh_virtual_service" "reviews" {
  name = "reviews"
  spec {
    hosts = ["reviews.example"]
    http {
      timeout = "1m"
      route { 
        destination { host = "v1" }
        weight = 100
      }
    }
  }
}
`

// What the page says works as it stands: the rules are in the mesh, and a second plan rests.
func TestThePage(t *testing.T) {
	t.Parallel()
	examples := page(t)
	require.Len(t, examples, 6)
	rules, imports, waits, reads := examples[0], examples[1], examples[2], examples[3]
	p := start(t, "")
	p.write(strings.Replace(rules, `server = "mesh.example:15020"`, "", 1))
	p.tofu("validate")
	p.apply()
	p.rests()
	require.JSONEq(t, `{
		"hosts": ["reviews.shop"],
		"http": [
			{"match": [{"headers": {"end-user": {"exact": "jason"}}}], "route": [{"destination": {"host": "reviews.shop", "subset": "v2"}}]},
			{"timeout": "2s", "route": [{"destination": {"host": "reviews.shop", "subset": "v1"}}]}
		]
	}`, p.spec("vs", "shop", "reviews"))

	p.tofu("state", "rm", "pgmesh_virtual_service.reviews")
	begin, _, _ := strings.Cut(rules, `resource "pgmesh_virtual_service"`)
	p.write(strings.Replace(begin, `server = "mesh.example:15020"`, "", 1) + imports)
	p.tofu("plan", "-generate-config-out", "reviews.tf")
	require.Contains(t, p.apply(), "1 imported, 0 added, 0 changed, 0 destroyed")
	p.rests()

	p.write(strings.Replace(begin, `server = "mesh.example:15020"`, "", 1) + waits)
	p.apply()
	waited := unframed(p.tofu("state", "show", "data.pgmesh_rollout.done"))
	require.Contains(t, waited, "connected = 0")
	require.Contains(t, waited, "complete = true")
	p.rests()

	p.write(strings.Replace(begin, `server = "mesh.example:15020"`, "", 1) + reads)
	p.apply()
	require.JSONEq(t, `["v1", "v2"]`, p.tofu("output", "-json", "subsets"))
}

// What the page says of many resources works: mcp-client writes the imports, and they plan nothing.
func TestThePageOfManyResources(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	p.write(strings.Replace(page(t)[0], `server = "mesh.example:15020"`, "", 1))
	p.apply()
	p.mesh.Apply("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: reviews, namespace: test}\nspec: {hosts: [reviews.test], http: [{route: [{destination: {host: a}}]}]}\n")
	require.NoError(t, os.Remove(filepath.Join(p.dir, "terraform.tfstate")))
	p.write(header)
	text, err := os.ReadFile("../../docs/terraform.md")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^    mcp-client (get .* -o terraform) > imports.tf\n    tofu plan (-generate-config-out \S+)\n`).FindStringSubmatch(string(text))
	require.NotNil(t, command)
	imports := p.mesh.OK(strings.Fields(command[1])...)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "imports.tf"), []byte(imports), 0o600))
	require.Contains(t, p.tofu(append([]string{"plan", "-input=false"}, strings.Fields(command[2])...)...), "3 to import, 0 to add, 0 to change, 0 to destroy")
	require.Contains(t, p.apply(), "3 imported, 0 added, 0 changed, 0 destroyed")
	require.NoError(t, os.Remove(filepath.Join(p.dir, "imports.tf")))
	p.rests()
	require.Contains(t, p.tofu("state", "list"), "pgmesh_virtual_service.reviews")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	for mistake, want := range map[string][2]string{
		`timeuot = "1s"`:     {`timeout = "1m"`, `Unsupported argument`},
		`timeout = "1 hour"`: {`timeout = "1m"`, `line 14, in resource "pgmesh_virtual_service" "reviews": 14: timeout = "1 hour" spec.http[0].timeout: "1 hour" is not a duration`},
		`weight = -3`:        {`weight = 100`, `spec.http[0].route[0].weight`},
		`name = "Re views"`:  {`name = "reviews"`, `metadata.name`},
	} {
		p.write(header + strings.Replace(reviews, want[0], mistake, 1))
		require.Contains(t, p.fails("validate"), want[1])
	}
	require.NotContains(t, p.mesh.OK("get", "vs", "-A"), "reviews", "nothing was changed")
}

// A value that is known only when another resource is there does not keep the rest from being checked.
func TestUnknownValues(t *testing.T) {
	t.Parallel()
	later := `resource "terraform_data" "later" { input = "v1" }`
	p := start(t, later+strings.Replace(reviews, `host = "v1"`, `host = terraform_data.later.output`, 1))
	p.apply()
	p.rests()
	require.Contains(t, p.spec("vs", "default", "reviews"), `"v1"`)
	p.write(header + later + strings.NewReplacer(`host = "v1"`, `host = terraform_data.later.output`, `"1m"`, `"soon"`).Replace(reviews))
	require.Contains(t, p.fails("plan"), `"soon" is not a duration`)
}

// A change of somebody else is drift, and is never overwritten unseen.
func TestDriftAndConflicts(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	p.apply()
	require.NotContains(t, p.tofu("plan", "-input=false"), "outside of Terraform")
	p.mesh.OK("patch", "vs", "reviews", "--type", "json", "-p", `[{"op": "replace", "path": "/spec/http/0/timeout", "value": "4s"}]`)
	p.mesh.OK("patch", "vs", "reviews", "-m", "it was slow", "--type", "json", "-p", `[{"op": "replace", "path": "/spec/http/0/timeout", "value": "5s"}]`)
	out := p.tofu("plan", "-input=false")
	require.Contains(t, out, `"5s" -> "1m"`)
	told := unframed(out)
	require.Contains(t, told, "Warning: VirtualService default/reviews was changed outside of Terraform")
	require.Regexp(t, `The state is of revision 1; virtualservice default/reviews was changed in revision 3 by \S+ \(mcp-client[^)]*\) at \S+ \S+: "it was slow", after 1 other change\. mcp-client history virtualservice.networking.istio.io/reviews -n default --diff shows what`, told)
	require.Equal(t, 1, strings.Count(told, "was changed outside of Terraform"))

	p.tofu("plan", "-input=false", "-out", "plan")
	p.mesh.OK("patch", "vs", "reviews", "-m", "at three in the morning", "--type", "json", "-p", `[{"op": "replace", "path": "/spec/http/0/timeout", "value": "7s"}]`)
	refused := p.fails("apply", "-input=false", "plan")
	require.Contains(t, refused, "at three in the morning")
	require.Contains(t, refused, "Plan again")
	require.Contains(t, p.spec("vs", "default", "reviews"), `"7s"`)
	p.apply()
	require.Contains(t, p.spec("vs", "default", "reviews"), `"60s"`)

	require.NotContains(t, p.tofu("plan", "-input=false"), "outside of Terraform")

	p.tofu("plan", "-destroy", "-input=false", "-out", "plan")
	p.mesh.OK("patch", "vs", "reviews", "-m", "it is needed yet", "--type", "json", "-p", `[{"op": "replace", "path": "/spec/http/0/timeout", "value": "8s"}]`)
	refused = unframed(p.fails("apply", "-input=false", "plan"))
	require.Contains(t, refused, "The VirtualService is not deleted")
	require.Contains(t, refused, "it is needed yet")
	require.Contains(t, refused, "Plan again")
	require.Contains(t, p.spec("vs", "default", "reviews"), `"8s"`, "what somebody has changed since is not deleted unseen")

	p.mesh.OK("delete", "vs", "reviews", "-m", "nobody asks it")
	gone := unframed(p.tofu("plan", "-input=false"))
	require.Contains(t, gone, "will be created")
	require.Regexp(t, `virtualservice default/reviews was deleted in revision \d+ by .*: "nobody asks it"`, gone)
	p.apply()
	p.rests()
	p.tofu("destroy", "-auto-approve")
	require.NotContains(t, p.mesh.OK("get", "vs", "-A"), "reviews")
}

// Where much was changed, some of it is told of, and that there is more.
func TestManyDrifts(t *testing.T) {
	t.Parallel()
	p := start(t, strings.Replace(reviews, `name = "reviews"`, "count = 25\n name = \"reviews-${count.index}\"", 1))
	p.apply()
	p.mesh.Execute(`UPDATE mesh.resources SET labels = '{"by": "sql"}' WHERE kind = 'VirtualService'`)
	told := unframed(p.tofu("plan", "-input=false"))
	require.Len(t, regexp.MustCompile(`VirtualService default/reviews-\d+ was changed outside of Terraform`).FindAllString(told, -1), 20)
	require.Equal(t, 1, strings.Count(told, "More was changed outside of Terraform"))
	p.apply()
	require.NotContains(t, p.tofu("plan", "-input=false"), "outside of Terraform")
}

// Of a change that the server did not answer to in time nobody knows whether it was made, and the error says where to
// see it.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	p.apply()
	way := gate.Open(t, p.mesh.Address)
	p.write(strings.Replace(header, "provider \"pgmesh\" {}", "provider \"pgmesh\" {\n server = \""+way.Address()+"\"\n timeout = \"1s\"\n}", 1) + reviews)
	p.tofu("plan", "-destroy", "-input=false", "-out", "plan")
	way.Hold()
	refused := p.fails("apply", "-input=false", "plan")
	require.Contains(t, refused, "Whether the change was made is not known: mcp-client history virtualservice.networking.istio.io/reviews -n default shows it, and so does the next plan")
	way.Release()
	p.apply("-destroy")
	require.NotContains(t, p.mesh.OK("get", "vs", "-A"), "reviews")
}

// A resource that others look after is read as it stands, and one that is not there is an error.
func TestResourcesOfOthers(t *testing.T) {
	t.Parallel()
	read := func(what string) string {
		return header + "data \"pgmesh_resource\" \"it\" {\n" + what + "\n}\noutput \"it\" { value = data.pgmesh_resource.it }\n"
	}
	p := start(t, "")
	p.mesh.Apply("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: theirs, labels: {a: b}}\nspec: {hosts: [theirs.example], http: [{timeout: 1m, route: [{destination: {host: a}}]}]}\n")
	p.write(read("kind = \"vs\"\nname = \"theirs\""))
	p.apply()
	var it struct {
		Namespace, Spec     string
		Labels, Annotations map[string]string
		Revision            int64
	}
	require.NoError(t, json.Unmarshal([]byte(p.tofu("output", "-json", "it")), &it))
	require.Equal(t, "default", it.Namespace)
	require.Equal(t, map[string]string{"a": "b"}, it.Labels)
	require.Equal(t, map[string]string{}, it.Annotations)
	require.EqualValues(t, 1, it.Revision)
	require.JSONEq(t, p.spec("vs", "default", "theirs"), it.Spec)
	for what, want := range map[string]string{
		"kind = \"vs\"\nname = \"nobody\"":                               "there is no VirtualService default/nobody",
		"kind = \"gatewayclass\"\nname = \"a\"\nnamespace = \"default\"": "a GatewayClass has no namespace: leave it out",
		"kind = \"VirtualServise\"\nname = \"a\"":                        `did you mean "VirtualService"?`,
	} {
		p.write(read(what))
		require.Contains(t, p.fails("plan"), want)
	}
}

// Another spelling is no change, and what others wrote is read as they meant it.
func TestSpellings(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	p.apply()
	p.write(header + strings.Replace(reviews, `"1m"`, `"60s"`, 1))
	p.rests()
	p.write(header + strings.Replace(reviews, `"1m"`, `"61s"`, 1))
	require.Contains(t, p.apply(), "1 changed")
}

// A change that would lead nowhere is told of, where it was written.
func TestProblems(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	p.apply()
	p.write(header + strings.Replace(reviews, `{ host = "v1" }`, "{\n host = \"v1\"\n subset = \"v9\"\n}", 1))
	plan := unframed(p.tofu("plan"))
	require.Contains(t, plan, "Warning: The mesh would have a problem, unless the plan mends it elsewhere")
	require.Contains(t, plan, `subset = "v9" VirtualService default/reviews: spec.http[0].route[0].destination.subset: no DestinationRule declares subset "v9"`)
}

// What is new and leads nowhere is told when it is made, and what others still refer to before it goes.
func TestProblemsOfNewAndOld(t *testing.T) {
	t.Parallel()
	rule := "resource \"pgmesh_destination_rule\" \"v1\" {\n name = \"v1\"\n spec {\n host = \"v1\"\n subsets { name = \"v9\" }\n }\n}\n"
	route := strings.Replace(reviews, `{ host = "v1" }`, "{\n host = \"v1\"\n subset = \"v9\"\n}", 1)
	p := start(t, route)
	require.Contains(t, unframed(p.apply()), `Warning: The mesh has a problem, unless something of this apply mends it with pgmesh_virtual_service.reviews`)
	p.write(header + rule + route)
	p.apply()
	p.write(header + route)
	require.Contains(t, unframed(p.tofu("plan")), `Warning: The mesh would have a problem without this DestinationRule, unless the plan mends it elsewhere`)
}

// No block says as much as an empty one.
func TestWithoutASpec(t *testing.T) {
	t.Parallel()
	const nobody = "resource \"pgmesh_authorization_policy\" \"nobody\" {\n name = \"nobody\"\n}\n"
	p := start(t, nobody)
	p.apply()
	p.rests()
	p.write(header + strings.Replace(nobody, `name = "nobody"`, "name = \"nobody\"\n spec {}", 1))
	p.apply()
	p.rests()
	p.write(header + nobody)
	p.apply()
	p.rests()
}

// What is there already is not taken over without a word.
func TestWhatExists(t *testing.T) {
	t.Parallel()
	p := start(t, reviews)
	p.mesh.Apply("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: reviews}\nspec: {hosts: [theirs.example], http: [{route: [{destination: {host: a}}]}]}\n")
	refused := p.fails("plan", "-input=false")
	require.Contains(t, refused, "already exists, since revision 1")
	require.NotContains(t, refused, "Plan again")
	require.Contains(t, refused, "terraform import pgmesh_virtual_service.NAME default/reviews")
	require.Contains(t, p.fails("import", "pgmesh_virtual_service.reviews", "reviews"), "Write NAMESPACE/NAME")
	p.tofu("import", "pgmesh_virtual_service.reviews", "default/reviews")
	require.Contains(t, p.apply(), "1 changed")
	p.rests()
}

// Each kind, with all that tests of kinds have, is imported with a configuration that plans nothing.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	text, err := os.ReadFile("../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	p.mesh.Apply(string(text))
	imports := p.mesh.OK("get", "all", "-A", "-o", "terraform")
	p.write(header + imports)
	p.tofu("plan", "-input=false", "-generate-config-out", filepath.Join(p.dir, "generated.tf"))
	require.Contains(t, p.apply(), "0 added, 0 changed, 0 destroyed")
	p.rests()
	require.Greater(t, strings.Count(imports, "import {"), 29)
	require.NotEmpty(t, p.mesh.OK("get", "all", "-A", "-o", "name"))
	p.tofu("destroy", "-auto-approve")
	require.Empty(t, p.mesh.OK("get", "all", "-A", "-o", "name"))
}

// Mistakes of a join token are told before anything is made.
func TestMistakesOfJoinTokens(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for written, want := range map[string]string{
		`service_account = "api"` + "\n" + `expires_in = "10years"`: `expires_in: "10years" is not a time such as 24h or 7d`,
		`service_account = "api"` + "\n" + `uses = -3`:              "uses: -3: somebody has to join with it",
		`service_account = "api"` + "\n" + `workload_group = "api"`: "say either workload_group or service_account",
		`expires_in = "1h"`: "say either workload_group or service_account",
	} {
		p.write(header + "resource \"pgmesh_join_token\" \"it\" {\n namespace = \"shop\"\n" + written + "\n}\n")
		require.Contains(t, p.fails("validate"), want)
	}
	p.write(header + "variable \"group\" {}\nresource \"pgmesh_join_token\" \"it\" {\n namespace = \"shop\"\n workload_group = var.group\n expires_in = \"7d\"\n}\n")
	p.tofu("validate")
}

// A machine's user data has a token, which stays the same when it has been used, and goes when the
// resource goes.
func TestJoinTokens(t *testing.T) {
	t.Parallel()
	p := start(t, page(t)[4])
	p.mesh.GiveMembers()
	userData, err := os.ReadFile("../cloud-init/machine.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "machine.yaml"), userData, 0o600))
	secret := regexp.MustCompile(jointoken.Prefix + `[\w-]{20,}`)
	require.NotRegexp(t, secret, p.apply())
	given := p.evaluated("local.user_data")
	require.NotContains(t, given, "PUT-THE-TOKEN-HERE")
	token, err := jointoken.Parse(secret.FindString(given))
	require.NoError(t, err)
	p.rests()

	name := strings.TrimSpace(p.mesh.OK("token", "list", "-o", "name"))
	p.mesh.OK("token", "revoke", name)
	p.apply()
	other, err := jointoken.Parse(secret.FindString(p.evaluated("local.user_data")))
	require.NoError(t, err)
	require.NotEqual(t, token.Hash(), other.Hash(), "what was taken back is made anew")
	p.tofu("destroy", "-auto-approve")
	require.NotContains(t, p.mesh.OK("token", "list"), " valid ")
}

// What a caller may not do is said by the plan.
func TestRights(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	token := strings.TrimSpace(p.mesh.OK("token", "create", "terraform", "--scope", "write:shop"))
	p.write(strings.Replace(header, "provider \"pgmesh\" {}", "provider \"pgmesh\" {\n token = \""+token+"\"\n}", 1) + reviews)
	refused := p.fails("plan")
	require.Contains(t, refused, "default")
	require.NotContains(t, refused, token)
	p.write(strings.Replace(header, "provider \"pgmesh\" {}", "provider \"pgmesh\" {\n token = \""+token+"\"\n}", 1) +
		strings.Replace(reviews, `name = "reviews"`, "name = \"reviews\"\nnamespace = \"shop\"", 1))
	p.apply()
	p.rests()
}

func TestSettings(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	with := func(provider string) {
		p.write(strings.Replace(header, "provider \"pgmesh\" {}", "provider \"pgmesh\" {\n"+provider+"\n}", 1) + reviews)
	}
	with(`server = "127.0.0.1:1"`)
	require.Contains(t, p.fails("plan"), "cannot reach the server at 127.0.0.1:1")
	with("tls_ca = \"none.pem\"\ninsecure = false")
	require.Contains(t, p.fails("plan"), "none.pem")
	with(`context = "prod"`)
	require.Contains(t, p.fails("plan"), `there is no context "prod"`)
	with("timeout = \"soon\"")
	require.Contains(t, p.fails("plan"), `timeout: `)
	with("message = \"by the pipeline\"")
	p.apply()
	history := p.mesh.OK("history", "-o", "json")
	require.Contains(t, history, "by the pipeline")
	require.Contains(t, history, "terraform-provider-pgmesh/")
}
