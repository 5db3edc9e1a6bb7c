package resources_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// mistakes are common mistakes in the second document of a file, and the messages for them.
var mistakes = map[string]struct{ document, told string }{
	"an unknown kind": {
		"apiVersion: networking.istio.io/v1\nkind: VirtualServise\nmetadata: {name: x}\nspec: {}\n",
		`line 18: VirtualServise default/x: kind: unknown kind "VirtualServise" (did you mean "VirtualService"?)`,
	},
	"an unknown field": {
		service("  http:\n  - route:\n    - destination: {host: a}\n      wieght: 5\n"),
		`line 25: VirtualService default/x: spec.http[0].route[0].wieght: unknown field "wieght" (did you mean "weight"?)`,
	},
	"an unknown enum": {
		"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x}\nspec:\n  hosts: [a]\n  resolution: STATIK\n",
		`line 22: ServiceEntry default/x: spec.resolution: unknown value "STATIK" (did you mean "STATIC"?`,
	},
	"a wrong type": {
		service("  http:\n    route: no\n"),
		`line 22: VirtualService default/x: spec.http: expected a list, got an object`,
	},
	"a missing field": {
		service("  http:\n  - route:\n    - weight: 5\n"),
		`VirtualService default/x: spec.http[0].route[0].destination: required field is missing`,
	},
	"a weight below 0": {
		service("  http:\n  - route:\n    - destination: {host: a}\n      weight: -5\n"),
		`line 25: VirtualService default/x: spec.http[0].route[0].weight: must be between 0 and 2147483647, got -5`,
	},
	"an empty host list": {
		"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x}\nspec:\n  hosts: []\n",
		`line 21: ServiceEntry default/x: spec.hosts: must have at least 1 item, has 0`,
	},
	"the same resource again": {
		clitest.VirtualService("default", "first", "b"),
		`VirtualService default/first: metadata.name: duplicate of document 1, line 1`,
	},
}

func service(rest string) string {
	return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec:\n  hosts: [a]\n" + rest
}

func TestMistakeIsReportedAndNothingStored(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := clitest.Folder(t, map[string]string{
				"good.yaml": clitest.VirtualService("default", "good", "a"),
				"bad.yaml":  clitest.VirtualService("default", "first", "a") + clitest.Separator + mistake.document,
			})

			r := m.Run("apply", "-f", dir)

			require.Equal(t, 3, r.Code)
			require.Empty(t, r.Out)
			place := filepath.Join(dir, "bad.yaml") + ": document 2, "
			require.True(t, strings.HasPrefix(r.Err, place+"line "), r.Err)
			require.Contains(t, r.Err, mistake.told)
			require.True(t, strings.HasSuffix(r.Err, "error: nothing was changed, because of the mistake above\n"), r.Err)
			require.Zero(t, m.Stored())
		})
	}
}

func TestAllMistakesOfAllFilesAreReported(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	files := map[string]string{}
	for name, mistake := range mistakes {
		files[strings.ReplaceAll(name, " ", "-")+".yaml"] = clitest.VirtualService("default", "first", "a") + clitest.Separator + mistake.document
	}

	r := m.Run("apply", "-f", clitest.Folder(t, files))

	require.Equal(t, 3, r.Code)
	for _, mistake := range mistakes {
		require.Contains(t, r.Err, mistake.told)
	}
	require.Contains(t, r.Err, fmt.Sprintf("because of the %d mistakes above", len(mistakes)))
	require.Zero(t, m.Stored())
}

func TestResourceInTwoFilesIsRefused(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	dir := clitest.Folder(t, map[string]string{
		"a.yaml": clitest.VirtualService("default", "reviews", "a"),
		"b.yaml": clitest.VirtualService("default", "ratings", "a") + clitest.Separator + clitest.VirtualService("default", "reviews", "b"),
	})

	r := m.Run("apply", "-f", dir)

	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, filepath.Join(dir, "b.yaml")+": document 2, line 17: VirtualService default/reviews: metadata.name: duplicate of "+
		filepath.Join(dir, "a.yaml")+", document 1, line 1 (name each resource once; if the files are alternatives, name the one that you choose, such as "+filepath.Join(dir, "b.yaml")+")\n")
	require.Zero(t, m.Stored())
}

func TestServerRefusalsLookLikeClientRefusals(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`CREATE FUNCTION refuse_all() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'no', DETAIL = jsonb_build_array(jsonb_build_object(
				'kind', NEW.kind, 'namespace', NEW.namespace, 'name', NEW.name, 'path', 'spec.hosts', 'reason', 'is not yours', 'hint', 'ask'));
		END $$;
		CREATE TRIGGER refuse_all BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION refuse_all()`)
	file := filepath.Join(clitest.Folder(t, map[string]string{"a.yaml": clitest.Separator + clitest.Separator + clitest.VirtualService("default", "reviews", "a")}), "a.yaml")

	r := m.Run("apply", "-f", file)

	require.Equal(t, clitest.Result{Code: 3, Out: "", Err: file + ": document 2, line 3: VirtualService default/reviews: spec.hosts: is not yours (ask)\n" +
		"error: nothing was changed, because of the mistake above\n"}, r)
}
