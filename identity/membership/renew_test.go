package membership_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
)

// runs renews a membership until the test ends.
func runs(t *testing.T, m *membership.Membership, ask membership.Ask) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { _ = m.Run(ctx, ask) })
	t.Cleanup(func() { cancel(); wait.Wait() })
}

func TestCertificatesAreRenewedAtHalfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		mesh.lifetime = 10 * time.Hour
		var after []time.Duration
		for range 20 {
			member := join(t, membership.Options{}, mesh.gives(cart))
			s, began := member.Current(), time.Now()
			runs(t, member, mesh.gives(cart))
			<-s.Replaced()
			after = append(after, time.Since(began))
			require.NotEqual(t, s.Certificate.PrivateKey, member.Current().Certificate.PrivateKey, "each has a key of its own")
		}
		apart := map[time.Duration]bool{}
		for _, d := range after {
			require.GreaterOrEqual(t, d, 3*time.Hour+50*time.Minute)
			require.LessOrEqual(t, d, 6*time.Hour+10*time.Minute)
			apart[d.Round(time.Minute)] = true
		}
		require.Greater(t, len(apart), 5, "members that joined at once come apart")
	})
}

func TestRenewedCertificateSurvivesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
		member := join(t, o, mesh.gives(cart))
		s := member.Current()
		runs(t, member, mesh.gives(cart))
		<-s.Replaced()
		opened, err := membership.Open(o)
		require.NoError(t, err)
		require.Equal(t, member.Current().ChainPEM(), opened.Current().ChainPEM())
	})
}

// flaky is an Ask that fails until a test switches it, and records the times of its calls.
type flaky struct {
	inner membership.Ask

	mu    sync.Mutex
	works bool
	asked []time.Time
}

func (f *flaky) ask(ctx context.Context, csr []byte) (membership.Granted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, time.Now())
	if !f.works {
		return refuses(ctx, csr)
	}
	return f.inner(ctx, csr)
}

func TestFailedRenewalsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		mesh.lifetime = 24 * time.Hour
		registry := prometheus.NewPedanticRegistry()
		var log bytes.Buffer
		member := join(t, membership.Options{Metrics: membership.Metrics{Registerer: registry, NotAfter: "identity_not_after_seconds", Renewals: "identity_renewals_total"}, Log: slog.New(slog.NewTextHandler(&log, nil))}, mesh.gives(cart))
		f := &flaky{inner: mesh.gives(cart)}
		runs(t, member, f.ask)

		time.Sleep(25 * time.Hour) // in the bubble
		synctest.Wait()
		asked := f.asked
		require.Less(t, len(asked), 13*60/2, "at most every two and a half minutes in the end")
		require.Greater(t, len(asked), 13*60/6, "at least every five minutes")
		require.Less(t, asked[1].Sub(asked[0]), 2*time.Second, "soon at first")
		require.Contains(t, log.String(), "it is tried again")
		require.Contains(t, log.String(), "has expired and cannot be renewed: nobody accepts it any more; join again")
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP identity_renewals_total Attempts to have the certificate that says who this program is renewed, by outcome.
# TYPE identity_renewals_total counter
identity_renewals_total{outcome="failed"} `+strconv.Itoa(len(asked))+`
identity_renewals_total{outcome="renewed"} 0
`), "identity_renewals_total"))

		s := member.Current()
		f.mu.Lock()
		f.works = true
		f.mu.Unlock()
		<-s.Replaced()
		require.True(t, member.Current().NotAfter().After(time.Now().Add(23*time.Hour)))
	})
}

func TestOutdatedRootIsRenewedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		mesh.lifetime = 24 * time.Hour
		signs := mesh.active // which has not got the new root yet
		f := &flaky{inner: mesh.from(func() *authority.Authority { return signs }, cart), works: true}
		member := join(t, membership.Options{}, mesh.gives(cart))
		runs(t, member, f.ask)

		mesh.rotate()
		require.NoError(t, member.Learn(mesh.trust()))
		time.Sleep(10 * time.Minute) // in the bubble
		synctest.Wait()
		f.mu.Lock()
		require.NotEmpty(t, f.asked)
		require.Less(t, len(f.asked), 20, "certificates of the old root are of no use, and are not asked for again and again")
		signs = mesh.active
		f.mu.Unlock()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, mesh.active.Root().Raw, rootOf(t, member).Raw)
		f.mu.Lock()
		asked := len(f.asked)
		f.mu.Unlock()
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		require.Len(t, f.asked, asked, "and that was that")
	})
}

func TestCertificateOfAnotherProcessIsAdopted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
		member := join(t, o, mesh.gives(cart))
		runs(t, member, refuses)
		time.Sleep(2 * time.Hour) // in the bubble; it has expired
		s := member.Current()

		again := join(t, o, mesh.gives(cart))
		<-s.Replaced()
		require.Equal(t, again.Current().ChainPEM(), member.Current().ChainPEM())
		s = member.Current()
		time.Sleep(time.Second)
		join(t, o, mesh.gives(spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/admin")))
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		require.Same(t, s, member.Current(), "who is running stays who it is")
	})
}

func TestExpiredCertificateIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
		join(t, o, newMesh(t, "mesh.example").gives(cart))
		time.Sleep(time.Hour + time.Second) // in the bubble
		_, err := membership.Open(o)
		require.ErrorIs(t, err, membership.ErrExpired)
	})
}

// A member whose program runs joins again: the certificate counts at once, and a renewal that was
// under way does not replace it.
func TestAProgramAdoptsWhatJoinedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh(t, "mesh.example")
		mesh.lifetime = time.Hour
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
		member := join(t, o, mesh.gives(cart))
		before := member.Current()
		require.NoError(t, member.Adopt())
		require.Same(t, before, member.Current(), "nobody has")

		again := join(t, o, mesh.gives(cart)).Current()
		require.NoError(t, member.Adopt())
		require.Equal(t, again.ChainPEM(), member.Current().ChainPEM())
		<-before.Replaced()

		// The answer to a renewal comes when another has joined.
		var third *membership.State
		runs(t, member, func(ctx context.Context, csr []byte) (membership.Granted, error) {
			if third == nil {
				third = join(t, o, mesh.gives(cart)).Current()
			}
			return mesh.gives(cart)(ctx, csr)
		})
		<-member.Current().Replaced()
		opened, err := membership.Open(o)
		require.NoError(t, err)
		require.Equal(t, third.ChainPEM(), opened.Current().ChainPEM(), "the next start has it")

		other := join(t, o, mesh.gives(spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/admin"))).Current()
		now := member.Current()
		require.ErrorIs(t, member.Adopt(), membership.ErrOtherID)
		require.Same(t, now, member.Current())
		opened, err = membership.Open(o)
		require.NoError(t, err)
		require.Equal(t, other.ID, opened.Current().ID)
	})
}
