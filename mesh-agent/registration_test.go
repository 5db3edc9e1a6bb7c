package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/register"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// member is one with flags and a file.
func memberOf(t *testing.T, folder string, file *settings.File, args ...string) *member {
	t.Helper()
	m := &member{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	m.declare(flags)
	require.NoError(t, flags.Parse(append([]string{"--state-dir", folder}, args...)))
	m.registration.file = &configFlag{file: file}
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
	m := memberOf(t, folder, nil)
	require.Empty(t, m.services(), "it joined for no group")
	require.NoError(t, m.state.SaveGroup("cart"))
	require.Equal(t, []string{"cart"}, groupsOf(m.services()))
	require.Equal(t, []string{"ads", "web"}, groupsOf(memberOf(t, folder, nil, "--group", "ads,web").services()), "a flag says more")

	file := &settings.File{Services: []settings.Service{
		{Group: "web", Labels: map[string]string{"app": "web", "tier": "front"}, Weight: 7}, {Group: "ads", Labels: map[string]string{"app": "ads", "rack": "7"}},
	}}
	require.Equal(t, []string{"web", "ads"}, groupsOf(memberOf(t, folder, file).services()), "so does the file")
	both := memberOf(t, folder, file, "--group", "ads,cart", "--weight", "3", "--labels", "app=any,team=blue")
	services := both.services()
	require.Equal(t, []string{"web", "ads", "cart"}, groupsOf(services))
	require.EqualValues(t, 7, services[0].Weight)
	require.EqualValues(t, 3, services[2].Weight)

	o := bootstrap.Options{Labels: both.options.Labels}
	require.NoError(t, both.addPlacement(&o))
	require.Equal(t, map[string]string{"app": "web", "tier": "front", "rack": "7", "team": "blue"}, o.Labels, "the proxy is what its services are, the first of them first")
	require.Equal(t, map[string]string{"app": "any", "team": "blue"}, both.options.Labels)

	// Joining again without a group removes the stored one.
	require.NoError(t, m.state.SaveGroup(""))
	require.NoError(t, m.state.SaveGroup(""))
	require.Empty(t, m.services())
}

func TestLocality(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metadata.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"region":"eu-west-1","availabilityZone":"eu-west-1a"}`), 0o600))
	o := bootstrap.Options{}
	require.NoError(t, memberOf(t, t.TempDir(), nil, "--metadata-file", file).addPlacement(&o))
	require.Equal(t, "eu-west-1/eu-west-1a", o.Locality)
	o = bootstrap.Options{Locality: "here"}
	require.NoError(t, memberOf(t, t.TempDir(), nil, "--metadata-file", file).addPlacement(&o))
	require.Equal(t, "here", o.Locality)
	require.ErrorContains(t, memberOf(t, t.TempDir(), nil, "--metadata-file", "/no/such/file").addPlacement(&bootstrap.Options{}), "--metadata-file: open /no/such/file")
	require.ErrorContains(t, memberOf(t, t.TempDir(), nil, "--group", "shop/web").addPlacement(&bootstrap.Options{}), "write the name alone")
}
