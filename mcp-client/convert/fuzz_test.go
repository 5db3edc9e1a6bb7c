package convert_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// seeds adds the inputs of the golden files of a source.
func seeds(f *testing.F, source convert.Source) {
	f.Helper()
	inputs, err := filepath.Glob("testdata/" + string(source) + "/*.in.*")
	require.NoError(f, err)
	require.NotEmpty(f, inputs)
	for _, in := range inputs {
		data, err := os.ReadFile(in)
		require.NoError(f, err)
		f.Add(data)
	}
}

// converts holds that a text is converted to what is valid, or refused.
func converts(source convert.Source) func(*testing.T, []byte) {
	return func(t *testing.T, text []byte) {
		o := options
		o.From = source
		r, err := convert.Files([]convert.File{{Name: "fuzz", Data: text}}, nil, o)
		if err != nil {
			return
		}
		for _, d := range r.Documents {
			again, err := d.YAML()
			require.NoError(t, err)
			_, err = kinds.Parse("again.yaml", again)
			require.NoError(t, err)
		}
	}
}

func FuzzIstio(f *testing.F) {
	seeds(f, convert.Istio)
	f.Fuzz(converts(convert.Istio))
}

func FuzzIngress(f *testing.F) {
	seeds(f, convert.Ingress)
	f.Fuzz(converts(convert.Ingress))
}

func FuzzNGINX(f *testing.F) {
	seeds(f, convert.NGINX)
	f.Fuzz(converts(convert.NGINX))
}

func FuzzHAProxy(f *testing.F) {
	seeds(f, convert.HAProxy)
	f.Fuzz(converts(convert.HAProxy))
}

func FuzzKubernetes(f *testing.F) {
	seeds(f, convert.Kubernetes)
	f.Fuzz(converts(convert.Kubernetes))
}

func FuzzConsul(f *testing.F) {
	seeds(f, convert.Consul)
	f.Fuzz(converts(convert.Consul))
}

func FuzzKuma(f *testing.F) {
	seeds(f, convert.Kuma)
	f.Fuzz(converts(convert.Kuma))
}
