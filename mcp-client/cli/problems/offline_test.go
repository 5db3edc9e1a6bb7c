package problems_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestFilesAreAnalyzedWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"a.yaml":    clitest.VirtualService("default", "a", "gone.example.com"),
		"b/b.yaml":  "# a comment\n" + clitest.VirtualService("default", "b", "here.example.com"),
		"entry.yml": `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: here}, spec: {hosts: [here.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`,
		"rule.yml":  `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: lost}, spec: {host: lost.example.com}}`,
	})
	analyze := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"analyze"}, args...)...)
	}
	r := analyze(dir)
	require.Equal(t, 1, r.Code)
	require.Equal(t, "what to do about them: -o wide\nerror: there are problems of severity error\n", r.Err)
	require.Contains(t, analyze(dir, "-o", "wide").Out, "(if the mesh has it already, have its server look: mcp-client analyze --live)")
	require.Regexp(t, `error +unknown-host +\S+/a.yaml:14: VirtualService default/a +spec.http\[0\].route\[0\].destination.host +no ServiceEntry in these files has the name "gone.example.com"`, r.Out)
	require.Regexp(t, `warning +unknown-host +\S+/rule.yml:1: DestinationRule default/lost +spec.host +no ServiceEntry`, r.Out)
	require.NotContains(t, r.Out, "b.yaml")
	require.Equal(t, clitest.Result{Err: "no problem found in 2 resources\n"}, analyze(filepath.Join(dir, "b"), filepath.Join(dir, "entry.yml")))
	require.Zero(t, analyze(filepath.Join(dir, "rule.yml")).Code, "warnings are no errors")

	var sarif struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	r = analyze(dir, "-o", "sarif")
	require.Equal(t, 1, r.Code)
	require.NoError(t, json.Unmarshal([]byte(r.Out), &sarif))
	require.Equal(t, "2.1.0", sarif.Version)
	require.Len(t, sarif.Runs[0].Results, 2)
	first := sarif.Runs[0].Results[0]
	require.Equal(t, "unknown-host error "+filepath.Join(dir, "a.yaml"), first.RuleID+" "+first.Level+" "+first.Locations[0].PhysicalLocation.ArtifactLocation.URI)
	require.Equal(t, 14, first.Locations[0].PhysicalLocation.Region.StartLine)
	require.Equal(t, "unknown-host", sarif.Runs[0].Tool.Driver.Rules[0].ID)
	require.Contains(t, analyze(dir, "-o", "github").Out, "::error title=unknown-host,file="+filepath.Join(dir, "a.yaml")+",line=14::VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry")

	wrong := clitest.Run(t.Context(), "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec: {htp: []}\n", nil, "analyze", "-", "-o", "json")
	require.Equal(t, 1, wrong.Code)
	require.Contains(t, wrong.Out, `"code": "invalid"`)
	require.Contains(t, wrong.Out, `unknown field \"htp\"`)
	require.Equal(t, 2, clitest.Run(t.Context(), "", nil, "get", "vs", "-o", "sarif").Code)
}

// A mistake in one document hides nothing of the others, and what it may have is told as not read.
func TestAMistakeHidesNoOtherProblem(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"a.yaml":  "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec: {htp: []}\n---\n" + clitest.VirtualService("default", "a", "gone.example.com"),
		"b.yaml":  "spec: [\n",
		"c.yaml":  clitest.VirtualService("default", "c", "lost.example.com"),
		"c2.yaml": clitest.VirtualService("default", "c", "lost.example.com"),
	})
	r := clitest.Run(t.Context(), "", nil, "analyze", dir)
	require.Equal(t, 1, r.Code)
	require.Regexp(t, `error +invalid +\S+/a.yaml:\d+: VirtualService default/x .*unknown field "htp"`, r.Out)
	require.Regexp(t, `error +invalid +\S+/b.yaml:\d+: .*not valid YAML`, r.Out)
	require.Regexp(t, `error +invalid +\S+/c2.yaml:1: VirtualService default/c +metadata.name +duplicate of `, r.Out)
	require.Regexp(t, `error +unknown-host +\S+/a.yaml:\d+: VirtualService default/a .*no ServiceEntry in these files has the name "gone.example.com", as far as the files can be read`, r.Out)
	require.Regexp(t, `error +unknown-host +\S+/c.yaml:14: VirtualService default/c `, r.Out)
}

// With --live, files are tried on what the server has, and it says what they would bring.
func TestFilesAreAnalyzedOnTopOfAMesh(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(goneEntry + "\n---\n" + clitest.VirtualService("default", "older", "nowhere.example.com"))
	before := m.Everything()
	good := clitest.Folder(t, map[string]string{"good.yaml": clitest.VirtualService("default", "a", "gone.example.com")})
	require.Equal(t, 1, m.Run("analyze", good).Code, "by the files alone")
	for _, flag := range []string{"--live", "--use-kube"} {
		require.Equal(t, clitest.Result{Err: "no new problem found in 1 resource\n"}, m.Run("analyze", flag, good), "what was wrong before is not brought by the files")
	}
	older := clitest.VirtualService("default", "older", "nowhere.example.com")
	require.Equal(t, clitest.Result{Err: "note: the mesh has 1 problem with these already: see mcp-client problems -A\nno new problem found in 1 resource\n"}, m.Pipe(older, "analyze", "--live", "-"))
	bad := clitest.Folder(t, map[string]string{
		"bad.yaml": "# of us\n" + clitest.VirtualService("default", "b", "lost.example.com"),
		"two.yaml": `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: second}, spec: {hosts: [older.example.com], http: [
			{route: [{destination: {host: gone.example.com, port: {number: 81}}}]}, {route: [{destination: {host: gone.example.com}}]}]}}`,
		"x.yaml": "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec: {htp: []}\n",
	})
	r := m.Run("analyze", "--live", bad)
	require.Equal(t, 1, r.Code, r.Err)
	require.Regexp(t, `error +unknown-host +\S+/bad.yaml:15: VirtualService default/b +spec.http\[0\].route\[0\].destination.host +no ServiceEntry that namespace "default" can see has the host "lost.example.com"`, r.Out)
	for _, code := range []string{"host-conflict", "unknown-port", "unreachable-route"} { // which only the server finds
		require.Regexp(t, code+` +\S+/two.yaml:[12]: VirtualService default/second `, r.Out)
	}
	require.Regexp(t, `error +invalid +\S+/x.yaml:\d: `, r.Out)
	require.NotContains(t, r.Out, "nowhere.example.com")
	require.Contains(t, m.Run("analyze", "--live", bad, "-o", "github").Out, "::error title=unknown-host,file="+filepath.Join(bad, "bad.yaml")+",line=15::")
	require.Contains(t, m.Run("analyze", "--live", bad, "-o", "sarif").Out, `"ruleId": "unknown-host"`)
	require.Contains(t, m.Run("analyze", "--live", bad, "-o", "json").Out, `"code": "unknown-host"`)
	require.Equal(t, before, m.Everything(), "nothing was changed")

	require.Equal(t, 2, m.Run("analyze", "--live").Code)
	m.Execute(`INSERT INTO mesh.settings (name, value, namespace) VALUES ('strict_references', 'on', 'default')`)
	strict := m.Run("analyze", "--live", bad)
	require.Equal(t, 1, strict.Code, strict.Err)
	require.Regexp(t, `error +refused +\S+/bad.yaml:15: VirtualService default/b .*"lost.example.com"`, strict.Out)
}

// A pull request may have many problems, and none of them is in the mesh to be listed later.
func TestAllProblemsOfATryAreListed(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	var documents strings.Builder
	for i := range 203 {
		fmt.Fprintf(&documents, "---\n%s", clitest.VirtualService("default", fmt.Sprintf("v%03d", i), fmt.Sprintf("gone-%d.example.com", i)))
	}
	some, _, _ := strings.Cut(documents.String(), "name: v030")
	r := m.Pipe(some[:strings.LastIndex(some, "---")], "analyze", "--live", "-")
	require.Equal(t, 30, strings.Count(r.Out, "unknown-host"))
	require.NotContains(t, r.Err, "more problems")
	r = m.Pipe(documents.String(), "analyze", "--live", "-")
	require.Equal(t, 200, strings.Count(r.Out, "unknown-host"))
	require.Contains(t, r.Err, "warning: and 3 more problems, which the server does not list: mend these first")
	r = m.Pipe(documents.String(), "apply", "--dry-run", "-f", "-")
	require.Equal(t, 11, strings.Count(r.Err, "warning: "))
	require.Contains(t, r.Err, "warning: and 193 more problems (see mcp-client problems; of a dry run: mcp-client analyze --live FILES)")
}

func TestAServerAnalyzesToo(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "a", "gone.example.com"))
	r := m.Run("analyze", "-A")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Out, "unknown-host")
	require.Contains(t, m.Run("analyze", "-o", "github").Out, "::error title=unknown-host::VirtualService default/a: spec.http[0]")
}
