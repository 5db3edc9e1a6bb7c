package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		virtualService("default", "first", "b"),
		`VirtualService default/first: metadata.name: duplicate of document 1, line 1`,
	},
}

func service(rest string) string {
	return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x}\nspec:\n  hosts: [a]\n" + rest
}

func TestMistakeIsReportedAndNothingStored(t *testing.T) {
	t.Parallel()
	m := start(t)
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{
				"good.yaml": virtualService("default", "good", "a"),
				"bad.yaml":  virtualService("default", "first", "a") + both + mistake.document,
			})

			r := m.run("apply", "-f", dir)

			require.Equal(t, 3, r.code)
			require.Empty(t, r.out)
			place := filepath.Join(dir, "bad.yaml") + ": document 2, "
			require.True(t, strings.HasPrefix(r.err, place+"line "), r.err)
			require.Contains(t, r.err, mistake.told)
			require.True(t, strings.HasSuffix(r.err, "error: nothing was changed, because of the mistake above\n"), r.err)
			require.Zero(t, m.stored())
		})
	}
}

func TestAllMistakesOfAllFilesAreReported(t *testing.T) {
	t.Parallel()
	m := start(t)
	files := map[string]string{}
	for name, mistake := range mistakes {
		files[strings.ReplaceAll(name, " ", "-")+".yaml"] = virtualService("default", "first", "a") + both + mistake.document
	}

	r := m.run("apply", "-f", folder(t, files))

	require.Equal(t, 3, r.code)
	for _, mistake := range mistakes {
		require.Contains(t, r.err, mistake.told)
	}
	require.Contains(t, r.err, fmt.Sprintf("because of the %d mistakes above", len(mistakes)))
	require.Zero(t, m.stored())
}

func TestResourceInTwoFilesIsRefused(t *testing.T) {
	t.Parallel()
	m := start(t)
	dir := folder(t, map[string]string{
		"a.yaml": virtualService("default", "reviews", "a"),
		"b.yaml": virtualService("default", "ratings", "a") + both + virtualService("default", "reviews", "b"),
	})

	r := m.run("apply", "-f", dir)

	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, filepath.Join(dir, "b.yaml")+": document 2, line 17: VirtualService default/reviews: metadata.name: duplicate of "+
		filepath.Join(dir, "a.yaml")+", document 1, line 1 (name each resource once)\n")
	require.Zero(t, m.stored())
}

func TestServerRefusalsLookLikeClientRefusals(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.execute(`CREATE FUNCTION refuse_all() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION USING ERRCODE = 'MS001', MESSAGE = 'no', DETAIL = jsonb_build_array(jsonb_build_object(
				'kind', NEW.kind, 'namespace', NEW.namespace, 'name', NEW.name, 'path', 'spec.hosts', 'reason', 'is not yours', 'hint', 'ask'));
		END $$;
		CREATE TRIGGER refuse_all BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION refuse_all()`)
	file := filepath.Join(folder(t, map[string]string{"a.yaml": both + both + virtualService("default", "reviews", "a")}), "a.yaml")

	r := m.run("apply", "-f", file)

	require.Equal(t, result{3, "", file + ": document 2, line 3: VirtualService default/reviews: spec.hosts: is not yours (ask)\n" +
		"error: nothing was changed, because of the mistake above\n"}, r)
}
