package kinds_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestStreamReadsWhatParseReads(t *testing.T) {
	t.Parallel()
	text := everyKind(t)
	want, err := kinds.Parse("f", text)
	require.NoError(t, err)
	var got []*kinds.Document
	err = kinds.Parser{DefaultNamespace: "default"}.Stream("f", bytes.NewReader(text), func(d *kinds.Document, wrong kinds.Errors) error {
		require.Empty(t, wrong)
		got = append(got, d)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, d := range got {
		require.Equal(t, want[i].Resource.Key(), d.Resource.Key())
		require.Equal(t, string(want[i].Spec), string(d.Spec))
		require.Equal(t, []int{want[i].Index, want[i].Line}, []int{d.Index, d.Line})
		again, err := d.YAML()
		require.NoError(t, err)
		written, err := kinds.Parse("f", again)
		require.NoError(t, err)
		require.Equal(t, string(d.Spec), string(written[0].Spec))
	}
}

func TestStreamContinuesAfterViolations(t *testing.T) {
	t.Parallel()
	entry := func(name string) string {
		return "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: " + name + ", annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}}, spec: {address: 1.2.3.4}}\n"
	}
	for _, c := range []struct {
		text       string
		read, want []string
	}{
		{"", nil, nil},
		{entry("a") + "---\n" + entry("A_") + "---\n" + entry("a") + "---\n" + entry("b") + "---\nx: [\n", []string{"a", "b"}, []string{
			`f: document 2, line 3: WorkloadEntry default/A_: metadata.name: "A_" is not a valid name`,
			`f: document 3, line 5: WorkloadEntry default/a: metadata.name: duplicate of document 1, line 1`,
			`not valid YAML`,
		}},
		{
			"  {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [" + strings.ReplaceAll(`{"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": {"name": "a"}, "spec": {"address": "1.2.3.4"}}`, "\n", "") + "]} x",
			[]string{"a"},
			[]string{"f: document 2, line 1: not valid YAML"},
		},
	} {
		var read, wrong []string
		err := kinds.Parser{DefaultNamespace: "default"}.Stream("f", strings.NewReader(c.text), func(d *kinds.Document, errs kinds.Errors) error {
			if d != nil {
				require.Empty(t, d.Resource.Annotations)
				read = append(read, d.Resource.Name)
			}
			for _, v := range errs {
				wrong = append(wrong, v.Error())
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, c.read, read)
		require.Len(t, wrong, len(c.want), wrong)
		for i, w := range c.want {
			require.Contains(t, wrong[i], w)
		}
	}
	stop := errors.New("stop")
	require.ErrorIs(t, kinds.Parser{}.Stream("f", strings.NewReader(entry("a")), func(*kinds.Document, kinds.Errors) error { return stop }), stop)
}

func TestForeignKindsAreLeftOut(t *testing.T) {
	t.Parallel()
	var foreign []string
	p := kinds.Parser{DefaultNamespace: "default", Foreign: func(apiVersion, kind string) { foreign = append(foreign, apiVersion+" "+kind) }}
	documents, err := p.Parse("f", []byte(`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 1.2.3.4}}
- {apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: a}, spec: {address: 1.2.3.4}}
- {apiVersion: networking.example.com/v1, kind: Gateway, metadata: {name: a}, spec: {}}
---
{apiVersion: apps/v1, kind: Deployment}
`))
	require.NoError(t, err)
	require.Len(t, documents, 1)
	require.Equal(t, []string{"v1 Service", "networking.example.com/v1 Gateway", "apps/v1 Deployment"}, foreign)

	_, err = p.Parse("f", []byte("{apiVersion: networking.istio.io/v1, kind: VirtualServce, metadata: {name: a}}\n---\n{apiVersion: networking.istio.io/v9, kind: VirtualService, metadata: {name: a}}\n---\n{kind: Service}"))
	require.ErrorContains(t, err, `unknown kind "VirtualServce"`)
	require.ErrorContains(t, err, `unknown version "v9"`)
	require.ErrorContains(t, err, "apiVersion: required field is missing")
}
