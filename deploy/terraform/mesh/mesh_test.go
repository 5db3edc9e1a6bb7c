package mesh_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A change may have been made though the answer never came. The error says that nobody knows, and the history does.
func TestAChangeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := clitest.Start(t)
	way := gate.Open(t, server.Address)
	m := connect(t, way.Address())
	k, err := kinds.ByName("VirtualService")
	require.NoError(t, err)
	r := &mesh.Resource{Key: kinds.Key{Kind: k, Namespace: "shop", Name: "reviews"}, Spec: map[string]any{
		"hosts": []any{"reviews.example"}, "http": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "a"}}}}},
	}}
	_, err = m.Apply(t.Context(), r, true)
	require.NoError(t, err)
	way.Hold()
	_, err = m.Apply(t.Context(), r, true)
	require.ErrorContains(t, err, "did not answer within 1s")
	require.NotContains(t, err.Error(), "is not known", "a dry run changes nothing")
	_, err = m.Apply(t.Context(), r, false)
	require.ErrorContains(t, err, "Whether the change was made is not known: "+mesh.HistoryOf(r.Key)+" shows it, and so does the next plan")
	way.Release()
	poll.Eventually(t, func(ctx context.Context) error {
		_, err := m.Get(ctx, r.Key)
		return err
	})
	text, err := m.Changed(t.Context(), r.Key, 0)
	require.NoError(t, err)
	require.Contains(t, text, "revision 1")
	_, err = m.Changed(t.Context(), r.Key, 1)
	require.ErrorIs(t, err, mesh.ErrAbsent)
}

func connect(t *testing.T, address string) *mesh.Mesh {
	t.Helper()
	s := session.New(strings.NewReader(""), output.NewPrinter(io.Discard, io.Discard, os.Getenv), os.Getenv)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.DeclareFlags(flags)
	for name, value := range map[string]string{"server": address, "insecure": "true", "timeout": "1s"} {
		require.NoError(t, flags.Set(name, value))
	}
	require.NoError(t, s.Complete(flags))
	m, err := mesh.Connect(s, "")
	require.NoError(t, err)
	return m
}
