package problems_test

import (
	"encoding/json"
	"path/filepath"
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
	require.Equal(t, "error: there are problems of severity error\n", r.Err)
	require.Regexp(t, `error +unknown-host +\S+/a.yaml:1: VirtualService default/a +spec.http\[0\].route\[0\].destination.host +no ServiceEntry in these files has the name "gone.example.com"`, r.Out)
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
	require.Equal(t, 1, first.Locations[0].PhysicalLocation.Region.StartLine)
	require.Equal(t, "unknown-host", sarif.Runs[0].Tool.Driver.Rules[0].ID)
	require.Contains(t, analyze(dir, "-o", "github").Out, "::error title=unknown-host,file="+filepath.Join(dir, "a.yaml")+",line=1::VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry")

	wrong := clitest.Run(t.Context(), "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec: {htp: []}\n", nil, "analyze", "-", "-o", "json")
	require.Equal(t, 1, wrong.Code)
	require.Contains(t, wrong.Out, `"code": "invalid"`)
	require.Contains(t, wrong.Out, `unknown field \"htp\"`)
	require.Equal(t, 2, clitest.Run(t.Context(), "", nil, "get", "vs", "-o", "sarif").Code)
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
