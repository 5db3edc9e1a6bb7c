package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// machineWith is one with these flags and this file.
func machineWith(t *testing.T, folder string, file *settings.File, args ...string) *Machine {
	t.Helper()
	m := &Machine{File: file}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	m.Flags(flags)
	require.NoError(t, flags.Parse(append([]string{"--state-dir", folder}, args...)))
	return m
}

func groupsOf(services []register.Service) (all []string) {
	for _, s := range services {
		all = append(all, s.Group)
	}
	return all
}

func TestServices(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	m := machineWith(t, folder, nil)
	require.Empty(t, m.Services(), "it joined for no group")
	require.NoError(t, m.State.SaveGroup("cart"))
	require.Equal(t, []string{"cart"}, groupsOf(m.Services()))
	require.Equal(t, []string{"ads", "web"}, groupsOf(machineWith(t, folder, nil, "--group", "ads,web").Services()), "a flag says more")

	file := &settings.File{Services: []settings.Service{
		{Group: "web", Labels: map[string]string{"app": "web", "tier": "front"}, Weight: 7}, {Group: "ads", Labels: map[string]string{"app": "ads", "rack": "7"}},
	}}
	require.Equal(t, []string{"web", "ads"}, groupsOf(machineWith(t, folder, file).Services()), "so does the file")
	both := machineWith(t, folder, file, "--group", "ads,cart", "--weight", "3", "--labels", "app=any,team=blue")
	services := both.Services()
	require.Equal(t, []string{"web", "ads", "cart"}, groupsOf(services))
	require.EqualValues(t, 7, services[0].Weight)
	require.EqualValues(t, 3, services[2].Weight)

	o := bootstrap.Options{Labels: both.Given.Labels}
	require.NoError(t, both.place(&o))
	require.Equal(t, map[string]string{"app": "web", "tier": "front", "rack": "7", "team": "blue"}, o.Labels, "the proxy is what its services are, the first of them first")
	require.Equal(t, map[string]string{"app": "any", "team": "blue"}, both.Given.Labels)

	// Joining again without a group removes the stored one.
	require.NoError(t, m.State.SaveGroup(""))
	require.NoError(t, m.State.SaveGroup(""))
	require.Empty(t, m.Services())
}

func TestLocality(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metadata.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"region":"eu-west-1","availabilityZone":"eu-west-1a"}`), 0o600))
	o := bootstrap.Options{}
	require.NoError(t, machineWith(t, t.TempDir(), nil, "--metadata-file", file).place(&o))
	require.Equal(t, "eu-west-1/eu-west-1a", o.Locality)
	o = bootstrap.Options{Locality: "here"}
	require.NoError(t, machineWith(t, t.TempDir(), nil, "--metadata-file", file).place(&o))
	require.Equal(t, "here", o.Locality)
	require.ErrorContains(t, machineWith(t, t.TempDir(), nil, "--metadata-file", "/no/such/file").place(&bootstrap.Options{}), "--metadata-file: open /no/such/file")
	require.ErrorContains(t, machineWith(t, t.TempDir(), nil, "--group", "shop/web").place(&bootstrap.Options{}), "write the name alone")
}

func TestAGatewayCarriesTheNameOfItsGateway(t *testing.T) {
	t.Parallel()
	m := machineWith(t, t.TempDir(), nil, "--role", "gateway", "--gateway", "edge", "--labels", "app=x")
	o := bootstrap.Options{Role: bootstrap.Gateway, Labels: m.Given.Labels}
	require.NoError(t, m.place(&o))
	require.Equal(t, map[string]string{"app": "x", "gateway.networking.k8s.io/gateway-name": "edge"}, o.Labels)
	o.Role = bootstrap.Sidecar
	require.ErrorContains(t, m.place(&o), "--gateway edge is for a proxy with --role gateway")
}
