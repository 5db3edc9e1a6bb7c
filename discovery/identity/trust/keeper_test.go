package trust_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/identity"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cart = identity.Workload{TrustDomain: servetest.Domain, Namespace: "shop", ServiceAccount: "cart"}

// follow runs a keeper whose operator brings the roots. mcp-server tells it who was revoked.
func follow(t *testing.T, a *servetest.Authority, folder string, roots []byte) (*trust.Keeper, func()) {
	t.Helper()
	own := a.Leaf("spiffe://mesh.example/pgmesh/discovery/test", servetest.NewMachine(t, "").Key)
	conn, err := grpc.NewClient(a.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, Certificates: []tls.Certificate{*own},
	})))
	require.NoError(t, err)
	k := trust.New(trust.Options{
		Server: conn, Roots: func() []byte { return roots }, Folder: folder, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	return k, func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, conn.Close())
	}
}

// knows waits until the state of a keeper meets a condition.
func knows(t *testing.T, k *trust.Keeper, is func(*trust.State) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		state, changed := k.Watch()
		if state != nil && is(state) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(t, "it does not come")
		}
	}
}

func TestTheTrustOutlivesARestart(t *testing.T) {
	t.Parallel()
	a, folder := servetest.NewAuthority(t), filepath.Join(t.TempDir(), "state")
	k, stop := follow(t, a, folder, a.Root().RootsPEM())
	knows(t, k, func(s *trust.State) bool { return s.Domain == servetest.Domain && s.Revocation(cart, "m1") == nil })
	a.Tell(func(told *identityv1.Trust) { told.Revoked = []*identityv1.Revocation{{Enrolment: "m1"}} })
	knows(t, k, func(s *trust.State) bool { return s.Revocation(cart, "m1") != nil })
	require.Nil(t, k.State().Revocation(cart, "m2"))
	require.Eventually(t, func() bool { _, err := k.Authority(); return err == nil }, 20*time.Second, 5*time.Millisecond)
	before, err := k.Authority()
	require.NoError(t, err)
	stop()
	a.Stop()

	k, stop = follow(t, a, folder, a.Root().RootsPEM())
	defer stop()
	require.NotNil(t, k.State().Revocation(cart, "m1"), "at once, and without mcp-server")
	after, err := k.Authority()
	require.NoError(t, err)
	require.Equal(t, before.Certificate().SerialNumber, after.Certificate().SerialNumber)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
	}
	require.Len(t, files, 2, "nothing is left lying about")
}

// An authority of a root that the operator does not trust is no use to anybody.
func TestAnAuthorityOfAnotherRootDoesNotSign(t *testing.T) {
	t.Parallel()
	a, other := servetest.NewAuthority(t), servetest.NewAuthority(t)
	k, stop := follow(t, a, t.TempDir(), other.Root().RootsPEM())
	defer stop()
	knows(t, k, func(s *trust.State) bool { return s.Domain == servetest.Domain })
	require.Eventually(t, func() bool {
		_, err := k.Authority()
		require.ErrorIs(t, err, trust.ErrNoAuthority)
		return err.Error() != "it has no authority to sign with: it waits for mcp-server"
	}, 20*time.Second, 5*time.Millisecond)
	_, err := k.Authority()
	require.ErrorContains(t, err, "it does not lead to any of the roots")
}

// An unreadable folder costs a request to mcp-server, and not the start.
func TestABrokenFolderIsBegunAnew(t *testing.T) {
	t.Parallel()
	a, folder := servetest.NewAuthority(t), t.TempDir()
	for _, name := range []string{"authority.pem", "told.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("{broken"), 0o600))
	}
	k, stop := follow(t, a, folder, a.Root().RootsPEM())
	defer stop()
	require.Eventually(t, func() bool { _, err := k.Authority(); return err == nil }, 20*time.Second, 5*time.Millisecond)
}

// An authority is replaced at half of its life, and signs nothing after its end.
func TestAnAuthorityIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	a.Lifetime = 3 * time.Second
	k, stop := follow(t, a, t.TempDir(), a.Root().RootsPEM())
	defer stop()
	var first time.Time
	require.Eventually(t, func() bool {
		held, err := k.Authority()
		if err == nil && first.IsZero() {
			first = held.NotAfter()
		}
		return err == nil && held.NotAfter().After(first)
	}, 20*time.Second, 5*time.Millisecond)
	require.True(t, time.Now().Before(first), "the one before would have done")
	a.Stop()
	require.Eventually(t, func() bool {
		_, err := k.Authority()
		return err != nil && strings.Contains(err.Error(), "the one that it had has ended at")
	}, 20*time.Second, 5*time.Millisecond)
}
