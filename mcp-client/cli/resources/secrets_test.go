package resources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// meshWithSecrets has two secrets, one of which has a label.
func meshWithSecrets(t *testing.T) *clitest.Mesh {
	t.Helper()
	m := clitest.Start(t)
	m.Apply(`{apiVersion: v1, kind: Secret, metadata: {name: edge, namespace: gateways, labels: {app: edge}}, stringData: {password: hidden}}
---
{apiVersion: v1, kind: Secret, metadata: {name: plain, namespace: default}, stringData: {password: hidden}}
`)
	return m
}

// What get of secrets lists may be deleted, so no flag is passed over that narrows it.
func TestGetOfSecretsHonoursItsFlagsOrRefusesThem(t *testing.T) {
	t.Parallel()
	m := meshWithSecrets(t)
	require.Equal(t, "secret/gateways/edge\n", m.OK("get", "secrets", "-A", "-l", "app=edge", "-o", "name"))
	require.Equal(t, "secret/default/plain\nsecret/gateways/edge\n", m.OK("get", "secrets", "-A", "-o", "name"))
	require.Empty(t, m.OK("get", "secrets", "-A", "-l", "app=zzz", "-o", "name"))
	require.Equal(t, 2, m.Run("get", "secrets", "-A", "-l", "a b").Code)
	require.Regexp(t, `^default +plain +Opaque .*\n$`, m.OK("get", "secrets", "--no-headers"))
	require.Equal(t, clitest.Result{}, m.Run("get", "secret", "gone", "--ignore-not-found"))
	require.Equal(t, clitest.Result{Out: "secret/default/plain\n"}, m.Run("get", "secret", "gone", "plain", "--ignore-not-found", "-o", "name"))
	require.Equal(t, clitest.Result{}, m.Run("get", "secret", "gone", "--ignore-not-found", "-o", "json"))
	for _, flag := range []string{"--field-selector=a=b", "--origin=x", "--sort-by=.name", "-w", "-Lapp", "--show-labels"} {
		r := m.Run("get", "secrets", flag)
		require.Equal(t, 2, r.Code, flag)
		require.Contains(t, r.Err, "get of secrets does not take --")
	}
	require.Contains(t, m.OK("delete", m.OK("get", "secrets", "-A", "-l", "app=edge", "-o", "jsonpath=secret/{[0].metadata.namespace}/{[0].metadata.name}")), "secret gateways/edge deleted")
}

// One secret that is named has its name where every resource has it.
func TestASecretThatIsNamedIsAnObject(t *testing.T) {
	t.Parallel()
	m := meshWithSecrets(t)
	require.Equal(t, "gateways/edge edge edge", m.OK("get", "secret/edge", "-n", "gateways", "-o", "jsonpath={.metadata.namespace}/{.metadata.name} {.metadata.labels.app} {.name}"))
	require.Equal(t, "NAME    KEYS\nplain   [\"password\"]\n", m.OK("get", "secret", "plain", "-o", "custom-columns=NAME:.metadata.name,KEYS:.keys"))
	require.Contains(t, m.OK("get", "secret", "plain", "-o", "yaml"), "metadata:\n  name: plain\n  namespace: default\n")
	require.NotContains(t, m.OK("get", "secret", "plain", "-o", "json"), "hidden")
	require.Equal(t, "edge", m.OK("get", "secrets", "-A", "-o", "jsonpath={[1].metadata.name}"), "a list is one")
	require.Equal(t, clitest.Result{Code: 1, Err: "error: Secret default/edge: not found\n"}, m.Run("get", "secret", "edge", "-o", "json"))
}

func TestCommandsThatTakeNoSecretsSaySo(t *testing.T) {
	t.Parallel()
	m := meshWithSecrets(t)
	for args, says := range map[string]string{
		"wait secret/plain --for=create": "this command does not take secrets: ",
		"history secret plain":           "this command does not take secrets: ",
		"label secret/plain a=b":         "this command does not take secrets: ",
		"label secrets --all a=b":        "this command does not take secrets: ",
		"annotate secret plain a=b":      "this command does not take secrets: ",
		"patch secret plain -p {}":       "this command does not take secrets: ",
		"edit secret plain":              "this command does not take secrets: ",
		"get vs,secret":                  "vs is no secret: ask for secrets by themselves",
		"get secret,vs":                  "vs is no secret: ask for secrets by themselves",
		"delete secrets --all":           "delete takes secrets by their names alone: ",
		"delete secrets -l app=edge":     "delete takes secrets by their names alone: ",
	} {
		r := m.Run(strings.Fields(args)...)
		require.Equal(t, 2, r.Code, "%s: %s", args, r.Err)
		require.Contains(t, r.Err, says, args)
	}
}
