package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	uptime   = "SELECT uptime FROM mesh_internal.workload_clock"
	live     = "SELECT count(*)::int FROM mesh_internal.workload_sessions WHERE ended IS NULL"
	services = "SELECT count(*)::int FROM mesh_internal.workload_instances"
	present  = "SELECT count(*)::int FROM mesh.resources WHERE kind = 'WorkloadEntry'"
	state    = "SELECT state FROM mesh.registered_machines"
)

// A machine whose discovery is lost keeps its entry for the grace period. Another discovery may
// take it over, without a revision.
func TestASessionIsHandedOver(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	first := s.discovery("eu-1")
	first.told(here("m1", "10.0.0.1", 1))
	first.told(here("m2", "10.0.0.2", 1))
	before := b.newest()
	first.leave()
	eventually(b, 0, live)
	require.Equal(t, []string{"gone", "gone"}, list[string](b, state))
	require.Len(t, b.entries(), 2)
	require.NotZero(t, one[time.Time](b, "SELECT min(gone_at) FROM mesh.registered_machines"))

	second := s.discovery("eu-2")
	outcomes, err := second.tell(here("m1", "10.0.0.1", 2), here("m2", "10.0.0.2", 2))
	require.NoError(t, err)
	require.Equal(t, "web-10.0.0.1", outcomes[0].GetEntry())
	require.Equal(t, []string{"here", "here"}, list[string](b, state))
	require.Equal(t, before, b.newest())
	eventually(b, 1, "SELECT count(*)::int FROM mesh_internal.workload_sessions") // nobody needs the first any more
}

// Unknown health does not replace known health, whoever reports it, and makes no revision.
func TestUnknownHealthChangesNothing(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	first, second := s.discovery("eu-1"), s.discovery("eu-2")
	is := func(health machinev1.Health, detail string) func(*machinev1.Change) {
		return func(c *machinev1.Change) { c.Service.Health, c.Service.Detail = health, detail }
	}
	unknown := is(machinev1.Health_HEALTH_UNSPECIFIED, "")
	const health = "SELECT health || detail FROM mesh.registered_machines"
	first.told(here("m1", "10.0.0.1", 1, unknown))
	require.Equal(t, "unknown", one[string](b, health), "nobody has known yet")
	for i, c := range []struct {
		known  func(*machinev1.Change)
		stands string
	}{
		{is(machinev1.Health_HEALTH_HEALTHY, ""), "healthy"}, {is(machinev1.Health_HEALTH_UNHEALTHY, ": 500"), "unhealthy: 500"},
	} {
		since := int64(10 * (i + 1))
		first.told(here("m1", "10.0.0.1", since, c.known))
		before := b.newest()
		first.told(here("m1", "10.0.0.1", since, unknown))
		second.told(here("m1", "10.0.0.1", since+1, unknown))
		second.told(gone(here("m1", "10.0.0.1", since+1)))
		second.told(here("m1", "10.0.0.1", since+2, unknown))
		require.Equal(t, c.stands, one[string](b, health))
		require.Equal(t, before, b.newest())
	}
	second.told(left(here("m1", "10.0.0.1", 30)))
	second.told(here("m1", "10.0.0.1", 31, unknown))
	require.Equal(t, "unknown", one[string](b, health))
}

// Whoever reports first: the later stream of a machine counts, and reports about earlier ones are
// superseded.
func TestTheLaterStreamCounts(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	one, two := s.discovery("eu-1"), s.discovery("eu-2")
	old, renewed := here("m1", "10.0.0.1", 5), here("m1", "10.0.0.2", 9)
	require.Equal(t, "web-10.0.0.2", two.told(renewed).GetEntry())
	for _, late := range []*machinev1.Change{old, gone(old), left(old)} {
		require.True(t, one.told(late).GetSuperseded())
	}
	require.Equal(t, []string{"web-10.0.0.2"}, b.entries())

	two.told(left(renewed))
	require.True(t, one.told(old).GetSuperseded(), "it has left since")
	require.Empty(t, b.entries())
	two.told(gone(here("m2", "10.0.0.3", 9)))
	require.True(t, one.told(here("m2", "10.0.0.3", 5)).GetSuperseded(), "it has come and gone since")
	require.Equal(t, "web-10.0.0.3", one.told(here("m2", "10.0.0.3", 10)).GetEntry())
	require.Equal(t, "web-10.0.0.2", two.told(renewed).GetEntry(), "a service may come back on the same stream")

	three := s.discovery("eu-2") // of the same streams, after the session broke
	require.Equal(t, "web-10.0.0.2", three.told(renewed).GetEntry())
	require.True(t, two.told(gone(renewed)).GetSuperseded(), "the session before it is late")
	require.Equal(t, []string{"web-10.0.0.2", "web-10.0.0.3"}, b.entries())
}

// A discovery without machines costs the database nothing.
func TestADiscoveryWithoutMachinesHasNoSession(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	s.discovery("eu-1")
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "discovery=eu-1") }, limit, 10*time.Millisecond)
	s.discovery("eu-2").told(here("m1", "10.0.0.1", 1))
	require.Equal(t, []string{"eu-2"}, list[string](b, "SELECT discovery FROM mesh_internal.workload_sessions"))
}

func TestLostMachinesAreRemovedAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(quick)
	d := s.discovery("eu")
	_, err := d.tell(here("m1", "10.0.0.1", 1), here("m2", "10.0.0.2", 1), here("m3", "10.0.0.3", 1))
	require.NoError(t, err)
	begun := time.Now()
	require.Equal(t, "web-10.0.0.1", d.told(gone(here("m1", "10.0.0.1", 1))).GetEntry(), "it may come back")
	d.told(left(here("m2", "10.0.0.2", 1)))
	eventually(b, 1, present)
	require.Greater(t, time.Since(begun), quick.Grace-3*quick.RefreshInterval, "but for rounds of a server that was held up")
	eventually(b, 1, services)
	require.Equal(t, []string{"web-10.0.0.3"}, b.entries())
	require.Equal(t, "pgmesh registry", one[string](b, "SELECT author FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
	d.leave()
	eventually(b, 0, services)
	eventually(b, 0, "SELECT count(*)::int FROM mesh_internal.workload_sessions")
	require.Empty(t, b.entries())
}

// A killed server does not end its sessions. Another server notices when their lease is over, and
// then the grace period begins.
func TestTheSessionsOfADeadServerEnd(t *testing.T) {
	t.Parallel()
	b := begin(t)
	dead, other := b.serve(quick), b.serve(quick)
	dead.discovery("eu-1").told(here("m1", "10.0.0.1", 1))
	other.discovery("eu-2").told(here("m2", "10.0.0.2", 1))
	eventually(b, true, "SELECT uptime > 0 FROM mesh_internal.workload_clock")
	at := time.Now()
	dead.kill()
	eventually(b, 1, live)
	require.Greater(t, time.Since(at), quick.Lease/2)
	eventually(b, 1, present)
	require.Greater(t, time.Since(at), quick.Grace+quick.Lease/2)
	require.Equal(t, []string{"web-10.0.0.2"}, b.entries())
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	d := s.discovery("eu")
	d.told(here("m1", "10.0.0.1", 1))
	s.stop()
	require.Equal(t, codes.Unavailable, status.Code(d.ended()))
	require.Equal(t, 0, one[int](b, live))
	require.Equal(t, []string{"web-10.0.0.1"}, b.entries())
}

// However many servers watch, and however often they restart, the clock runs no faster than time,
// and stands still while none runs.
func TestTheClockRunsNoFasterThanTime(t *testing.T) {
	t.Parallel()
	b := begin(t)
	o := patient
	o.RefreshInterval = 10 * time.Millisecond
	begun := time.Now()
	servers := []*server{b.serve(o), b.serve(o), b.serve(o)}
	servers[0].discovery("eu").told(here("m1", "10.0.0.1", 1))
	for i := range 6 {
		before := one[int64](b, uptime)
		eventually(b, true, "SELECT uptime > $1 FROM mesh_internal.workload_clock", before)
		if i%2 == 0 {
			servers[i%3].kill()
			servers[i%3] = b.serve(o)
		}
	}
	eventually(b, true, "SELECT uptime > 500 FROM mesh_internal.workload_clock")
	require.Less(t, one[int64](b, uptime), time.Since(begun).Milliseconds())
	for _, s := range servers {
		s.stop()
	}
	stood := one[int64](b, uptime)
	require.Eventually(t, func() bool { return time.Since(begun) > 2*time.Second }, limit, 10*time.Millisecond)
	back := time.Now()
	b.serve(o)
	eventually(b, true, "SELECT uptime > $1 FROM mesh_internal.workload_clock", stood)
	require.LessOrEqual(t, one[int64](b, uptime)-stood, time.Since(back).Milliseconds(), "whoever comes later does not know how long nobody was there")
}

// Times in the database are for people to read. No machine is removed because of them.
func TestClocksThatJumpRemoveNobody(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(quick)
	d := s.discovery("eu")
	d.told(here("m1", "10.0.0.1", 1))
	d.told(here("m2", "10.0.0.2", 1))
	for _, jump := range []string{"- interval '10 years'", "+ interval '20 years'"} {
		d.told(gone(here("m1", "10.0.0.1", 1)))
		b.exec("UPDATE mesh_internal.workload_instances SET registered_at = registered_at " + jump + ", gone_at = gone_at " + jump)
		b.exec("UPDATE mesh_internal.workload_sessions SET begun_at = begun_at " + jump)
		before := one[int64](b, uptime)
		eventually(b, true, "SELECT uptime >= $1 FROM mesh_internal.workload_clock", before+quick.Grace.Milliseconds()/3)
		require.Equal(t, 2, one[int](b, services))
		d.told(here("m1", "10.0.0.1", 1))
	}
	d.told(gone(here("m1", "10.0.0.1", 1)))
	eventually(b, 1, services)
}

// While Postgres is away nothing is lost. A quiet stream survives, and one with a change ends.
func TestPostgresIsAwayForLongerThanTheGracePeriod(t *testing.T) {
	t.Parallel()
	own := pgtest.Server(t)
	b := beginOn(t, own.URL)
	s := b.serve(quick)
	quiet, talks := s.discovery("eu-1"), s.discovery("eu-2")
	quiet.told(here("m1", "10.0.0.1", 1))
	talks.told(here("m2", "10.0.0.2", 1))
	vanished := here("m3", "10.0.0.3", 1)
	talks.told(vanished)
	talks.told(gone(vanished))
	clock := one[int64](b, uptime)
	before, session := b.newest(), one[int64](b, "SELECT id FROM mesh_internal.workload_sessions WHERE discovery = 'eu-1'")
	own.Kill()
	stopped := time.Now()
	_, err := talks.tell(here("m2", "10.0.0.2", 1, func(c *machinev1.Change) { c.Service.Health = machinev1.Health_HEALTH_UNHEALTHY }))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "cannot reach its database")
	_, err = s.discovery("eu-3").tell(here("m4", "10.0.0.4", 1))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Eventually(t, func() bool { return time.Since(stopped) > quick.Grace+quick.Lease+time.Second/2 }, limit, 50*time.Millisecond)
	own.Start()

	b = beginAgain(b)
	again := s.discovery("eu-2")
	outcomes, err := again.tell(here("m2", "10.0.0.2", 1))
	require.NoError(t, err)
	require.Equal(t, "web-10.0.0.2", outcomes[0].GetEntry())
	require.Equal(t, "web-10.0.0.1", quiet.told(here("m1", "10.0.0.1", 1)).GetEntry(), "its stream and its session are still there")
	require.Equal(t, session, one[int64](b, "SELECT id FROM mesh_internal.workload_sessions WHERE discovery = 'eu-1' AND ended IS NULL"))
	require.Equal(t, before, b.newest())
	require.Less(t, one[int64](b, uptime)-clock, (quick.Grace + quick.Lease).Milliseconds(), "the time away did not pass")
	eventually(b, 2, present) // who was gone before is, after the rest of its time
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2"}, b.entries())
}

// beginAgain starts a bundle on the same database after that was away.
func beginAgain(b *bundle) *bundle {
	b.t.Helper()
	again := *b
	require.Eventually(b.t, func() bool {
		config := b.conn.Config().Copy()
		conn, err := connectTo(b, config)
		again.conn = conn
		return err == nil
	}, limit, 20*time.Millisecond)
	return &again
}

// A standby that is behind replaces the primary: what it lacks is reported again.
func TestADatabaseThatLostChangesGetsThemAgain(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	b := beginOn(t, pair.Primary.URL)
	s := b.serveOn(patient, pair.URL("read-write"))
	known := s.discovery("eu-1")
	known.told(here("m1", "10.0.0.1", 1))
	pair.CaughtUp()
	pair.Sever()
	known.told(here("m2", "10.0.0.2", 1))
	known.told(left(here("m1", "10.0.0.1", 1)))
	unknown := s.discovery("eu-2")
	unknown.told(here("m3", "10.0.0.3", 1))
	pair.Primary.Kill()
	pair.Promote()
	for _, d := range []*discovery{known, unknown} {
		err := d.ended()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "tell of every machine")
	}
	b = beginStandby(b, pair)
	require.Equal(t, []string{"web-10.0.0.1"}, b.entries(), "which has left, and is gone since its session was ended")
	require.Equal(t, "gone", one[string](b, state))
	again := s.discovery("eu-1")
	_, err := again.tell(here("m2", "10.0.0.2", 1), here("m3", "10.0.0.3", 1))
	require.NoError(t, err)
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2", "web-10.0.0.3"}, b.entries())
}
