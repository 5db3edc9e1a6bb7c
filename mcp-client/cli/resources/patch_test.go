package resources_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := m.Run("patch", "vs", "reviews", "ratings", "-p", `{"metadata": {"labels": {"tier": "front", "app": null}}, "spec": {"gateways": ["mesh"]}}`, "-m", "fronts")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice default/ratings configured\nrevision 2\n", r.Out)
	m.Await(2)
	require.JSONEq(t, `[{"tier":"front"}, ["mesh"]]`, m.OK("get", "vs/reviews", "-o", "jsonpath=[{.metadata.labels}, {.spec.gateways}]"))

	r = m.Run("patch", "vs/reviews", "--type", "json", "-p", `[{op: test, path: /spec/gateways/0, value: mesh}, {op: replace, path: /spec/http/0/route/0/destination/host, value: v7}, {op: remove, path: /spec/gateways}]`)
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "v7", route(t, m, "reviews"))
	r = m.Run("patch", "vs/reviews", "--type=json", "-p", `[{"op": "test", "path": "/spec/hosts/0", "value": "other"}]`)
	require.Equal(t, clitest.Result{Code: 1, Err: "error: VirtualService default/reviews: testing value /spec/hosts/0 failed: test failed\n"}, r)

	r = m.Run("patch", "vs/reviews", "-p", `{"spec": {"htp": []}}`)
	require.Equal(t, 3, r.Code)
	require.NotContains(t, r.Err, "document 1", "the resource is in no file")
	require.Regexp(t, "^VirtualService default/reviews: spec.htp: ", r.Err)
	require.Contains(t, r.Err, `VirtualService default/reviews: spec.htp: unknown field "htp" (did you mean "http"?)`)
	r = m.Run("patch", "vs/reviews", "-p", `{"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}}`)
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "virtualservice default/reviews was changed in revision 3")
	require.Contains(t, r.Err, "the object has been modified: get it again")
	require.Equal(t, "virtualservice default/reviews configured\ndry run: nothing was changed\n", m.Run("patch", "vs/reviews", "-p", `{"metadata": {"resourceVersion": "3", "labels": {"x": "y"}}}`, "--dry-run").Out)
	require.Contains(t, m.Run("patch", "vs/reviews", "-p", `{"metadata": {"name": "other"}}`).Err, "it would be another resource")
	require.Contains(t, m.Run("patch", "vs/gone", "-p", `{"spec": {}}`).Err, "not found")
	for _, args := range [][]string{
		{"vs/reviews"},
		{"vs", "-p", "{}"},
		{"vs/reviews", "-p", "[]"},
		{"vs/reviews", "-p", "{", "--type=json"},
		{"vs/reviews", "-p", "{}", "--type=json"},
		{"vs/reviews", "-p", "{}", "--type=strategic"},
		{"vs/reviews", "-p", "{}", "--patch-file", "x"},
	} {
		r := m.Run(append([]string{"patch"}, args...)...)
		require.Equal(t, 2, r.Code, "%v: %s", args, r.Err)
	}
	require.Contains(t, m.Run("patch", "vs/reviews", "-p", "{}", "--type=strategic").Err, "--type strategic is not known: there are merge and json")
}

func TestLabelAndAnnotate(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice default/ratings configured\nrevision 2\n", withoutWarnings(m.OK("label", "vs", "reviews", "ratings", "tier=front", "gone-")))
	m.Await(2)
	require.JSONEq(t, `{"app":"reviews","tier":"front"}`, m.OK("get", "vs/reviews", "-o", "jsonpath={.metadata.labels}"))
	require.Equal(t, clitest.Result{Code: 1, Err: "error: VirtualService default/reviews: labels has app=reviews already: --overwrite replaces it\n"}, m.Run("label", "vs/reviews", "app=other"))
	m.OK("label", "vs/reviews", "app=other", "tier-", "--overwrite")
	m.Await(3)
	require.JSONEq(t, `{"app":"other"}`, m.OK("get", "vs/reviews", "-o", "jsonpath={.metadata.labels}"))
	m.OK("annotate", "vs/reviews", "example.com/note=a=b c")
	m.Await(4)
	require.Equal(t, `a=b c`, m.OK("get", "vs/reviews", "-o", `jsonpath={.metadata.annotations.example\.com/note}`))
	require.Contains(t, m.OK("annotate", "vs/reviews", "example.com/note-"), "configured")
	for _, args := range [][]string{{"vs/reviews"}, {"a=b"}, {"vs/reviews", "a=b", "c"}, {"vs/reviews", "=b"}, {"vs/reviews", "a=b", "a-"}} {
		require.Equal(t, 2, m.Run(append([]string{"label"}, args...)...).Code, args)
	}
	require.Equal(t, 3, m.Run("label", "vs/reviews", "a b=c").Code)
}
