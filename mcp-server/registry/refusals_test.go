package registry_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Each refusal says what to do, and affects nobody else: another machine in the same message is
// registered.
func TestARefusedMachineDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	for i, refused := range []struct {
		says   string
		change func(*machinev1.Change)
	}{
		{"there is no WorkloadGroup shop/webs: write it, or correct the group", func(c *machinev1.Change) { c.Service.Group = "webs" }},
		{"have the service account web, and this one has cart: join with a token for the group", func(c *machinev1.Change) { c.ServiceAccount = "cart" }},
		{"this one has none", func(c *machinev1.Change) { c.ServiceAccount = "" }},
		{`there is no WorkloadGroup other/web`, func(c *machinev1.Change) { c.Namespace = "other" }},
		{`"Shop" is not a valid namespace`, func(c *machinev1.Change) { c.Namespace = "Shop" }},
		{`"" is not a valid namespace`, func(c *machinev1.Change) { c.Namespace = "" }},
		{`"" is not the name of a WorkloadGroup`, func(c *machinev1.Change) { c.Service.Group = "" }},
		{`"web" is not`, func(c *machinev1.Change) { c.Service = nil }},
		{`"a b" is not the id of a machine`, func(c *machinev1.Change) { c.Machine = "a b" }},
		{`" is not the id of a machine: at most 253 bytes`, func(c *machinev1.Change) { c.Machine = strings.Repeat("m", 300) }},
		{"does not say since when", func(c *machinev1.Change) { c.Since = 0 }},
		{`"" is not an IP address by which others reach the machine: give the agent one`, func(c *machinev1.Change) { c.Address = "" }},
		{`"web.example" is not an IP address`, func(c *machinev1.Change) { c.Address = "web.example" }},
		{`"10.0.0.1/24" is not an IP address`, func(c *machinev1.Change) { c.Address = "10.0.0.1/24" }},
		{`"fe80::1%eth0" is not an IP address`, func(c *machinev1.Change) { c.Address = "fe80::1%eth0" }},
		{"0.0.0.0 is an address that nobody can connect to", func(c *machinev1.Change) { c.Address = "0.0.0.0" }},
		{"ff02::1 is an address that nobody can connect to", func(c *machinev1.Change) { c.Address = "ff02::1" }},
		{`"eu/a/b/c" is not a locality: write REGION`, func(c *machinev1.Change) { c.Locality = "eu/a/b/c" }},
		{`"a b" is not the name of a network`, func(c *machinev1.Change) { c.Network = "a b" }},
		{`70000 is not a port, for "http"`, func(c *machinev1.Change) { c.Service.Ports = map[string]uint32{"http": 70000} }},
		{`0 is not a port, for "http"`, func(c *machinev1.Change) { c.Service.Ports = map[string]uint32{"http": 0} }},
		{`"no spaces" is not a valid label value`, func(c *machinev1.Change) { c.Labels = map[string]string{"a": "no spaces"} }},
		{`"-" is not a valid label key`, func(c *machinev1.Change) { c.Service.Labels = map[string]string{"-": "x"} }},
		{"labels of the machine have more than 16 KiB", func(c *machinev1.Change) {
			c.Labels = map[string]string{}
			for i := range 1000 {
				c.Labels[fmt.Sprintf("label-%d", i)] = "a value that is rather long"
			}
		}},
		{`spec.ports`, func(c *machinev1.Change) { c.Service.Ports = map[string]uint32{"not a name": 80} }}, // which the rules of the kind find
		{"\uFFFD", func(c *machinev1.Change) { c.Address = "\x00" }},
	} {
		if refused.says == `"web" is not` {
			refused.says = `"" is not the name of a WorkloadGroup`
		}
		bad := here(fmt.Sprintf("bad-%d", i), "10.1.0.1", 1, refused.change)
		good := here(fmt.Sprintf("good-%d", i), fmt.Sprintf("10.0.0.%d", i+1), 1)
		changes, at := []*machinev1.Change{bad, good}, 0
		if rand.N(2) == 0 {
			changes, at = []*machinev1.Change{good, bad}, 1
		}
		outcomes, err := d.tell(changes...)
		require.NoError(t, err, refused.says)
		require.Contains(t, outcomes[at].GetRefused(), refused.says)
		require.Empty(t, outcomes[at].GetEntry())
		require.Equal(t, fmt.Sprintf("web-10.0.0.%d", i+1), outcomes[1-at].GetEntry(), refused.says)
		require.Empty(t, outcomes[1-at].GetRefused())
	}
	require.NotContains(t, strings.Join(b.entries(), " "), "10.1.0.1")
}

func TestAMachineThatIsRefusedIsRegisteredWhenThatIsPutRight(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	lone := here("m1", "10.0.0.1", 1, func(c *machinev1.Change) { c.Service.Group = "api" })
	require.Contains(t, d.told(lone).GetRefused(), "there is no WorkloadGroup shop/api")
	const problems = "SELECT severity || ' ' || code || ' ' || namespace || '/' || name || ': ' || message FROM mesh.problems WHERE kind = 'Machine'"
	require.Equal(t, []string{"warning machine-refused shop/m1: it is not registered for the WorkloadGroup api: there is no WorkloadGroup shop/api: write it, or correct the group in the configuration of the agent"}, list[string](b, problems))
	b.group("api", `{"template": {"serviceAccount": "cart"}}`)
	require.Empty(t, b.entries())
	require.Contains(t, d.told(lone).GetRefused(), "have the service account cart, and this one has web")
	b.group("api", `{"template": {"service_account": "web"}}`)
	require.Equal(t, []string{"api-10.0.0.1"}, b.entries(), "in the transaction that puts it right")
	require.Empty(t, list[string](b, problems))
	require.Equal(t, "api-10.0.0.1", d.told(lone).GetEntry())
}

func TestAWorkloadEntryOfPeopleIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	b.exec(`INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('shop', 'web-10.0.0.1', '10.9.9.9')`)
	m := here("m1", "10.0.0.1", 1)
	require.Equal(t, "somebody has written a WorkloadEntry shop/web-10.0.0.1, which stays as it is: delete or rename that one", d.told(m).GetRefused())
	d.told(gone(m))
	d.told(here("m1", "10.0.0.1", 2))
	require.Equal(t, "10.9.9.9", one[string](b, "SELECT address FROM mesh.workload_entries"))
	b.exec("DELETE FROM mesh.workload_entries")
	require.Equal(t, "10.0.0.1", one[string](b, "SELECT address FROM mesh.workload_entries"), "the machine has waited for it")
}

func TestOneAddressIsOfOneMachine(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	d := s.discovery("eu")
	require.Equal(t, "web-10.0.0.1", d.told(here("m1", "10.0.0.1", 5)).GetEntry())
	require.Regexp(t, "^the machine m1 of the WorkloadGroup web has the address 10.0.0.1 already", d.told(here("m2", "10.0.0.1", 9)).GetRefused())
	require.Equal(t, "web-10.0.0.1-b", d.told(here("m3", "10.0.0.1", 9, func(c *machinev1.Change) { c.Network = "b" })).GetEntry(), "which is another in another network")
	const of = "SELECT annotations ->> 'mesh.pgmesh.io/machine' FROM mesh.resources WHERE name = 'web-10.0.0.1'"
	require.Equal(t, "m1", one[string](b, of))
	d.told(gone(here("m1", "10.0.0.1", 5)))
	require.Equal(t, "m2", one[string](b, of), "who is there comes before who is gone")
	require.Contains(t, d.told(here("m1", "10.0.0.1", 10)).GetRefused(), "the machine m2")
	d.told(left(here("m2", "10.0.0.1", 9)))
	require.Equal(t, "m1", one[string](b, of))
}

func TestAStrangerTakesNothingFromAMachine(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	require.NotEmpty(t, d.told(here("m1", "10.0.0.1", 5)).GetEntry())
	stranger := here("m1", "10.6.6.6", 6, func(c *machinev1.Change) { c.ServiceAccount = "cart" })
	for _, c := range []*machinev1.Change{stranger, gone(stranger), left(stranger)} {
		require.Contains(t, d.told(c).GetRefused(), "have the service account web")
		require.Equal(t, []string{"web-10.0.0.1"}, b.entries())
	}
	stranger.Machine = "m2" // and who comes first with the name of another does not keep it
	stranger.Since = 1 << 60
	d.told(stranger)
	require.Equal(t, "web-10.0.0.2", d.told(here("m2", "10.0.0.2", 5)).GetEntry())
}

func TestNamespacesMayHaveSoManyMachines(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	b.exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('shop', 'registered_machines_max', '2')")
	outcomes, err := d.tell(here("m1", "10.0.0.1", 1), here("m2", "10.0.0.2", 1), here("m3", "10.0.0.3", 1))
	require.NoError(t, err)
	require.Equal(t, "the namespace shop has as many services of machines as it may have: remove some, or raise the setting registered_machines_max", outcomes[2].GetRefused())
	require.Len(t, b.entries(), 2)
	require.Equal(t, "web-10.0.0.2", d.told(here("m2", "10.0.0.2", 2)).GetEntry(), "who is there stays")
	d.told(left(here("m1", "10.0.0.1", 1)))
	require.Equal(t, "web-10.0.0.3", d.told(here("m3", "10.0.0.3", 1)).GetEntry())
}

func TestNamesOfEntriesAreNames(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	long := strings.Repeat("a", 253)
	b.group(long, web)
	seen := map[string]bool{}
	for i, m := range []struct{ group, address, network, entry string }{
		{"web", "10.0.0.1", "", `^web-10\.0\.0\.1$`},
		{"web", "fd00::1", "", `^web-fd00--1$`},
		{"web", "FD00:0:0::2", "", `^web-fd00--2$`},
		{"web", "fd00::", "", `^web-fd00-[0-9a-f]{12}$`},
		{"web", "::1", "", `^web---1$`},
		{"web", "10.0.0.1", "vpc", `^web-10\.0\.0\.1-vpc$`},
		{"web", "10.0.0.1", "VPC", `^web-10\.0\.0\.1-vpc-[0-9a-f]{12}$`},
		{"web", "10.0.0.1", "projects/x_y/net.", `^web-10\.0\.0\.1-projects-x-y-net-[0-9a-f]{12}$`},
		{"web", "10.0.0.1", "ü", `^web-10\.0\.0\.1-[0-9a-f]{12}$`},
		{long, "10.0.0.1", "", `^a{240}-[0-9a-f]{12}$`},
		{long, "10.0.0.2", "", `^a{240}-[0-9a-f]{12}$`},
		{"web", "10.0.0.3", strings.Repeat("n", 253), `^web-10\.0\.0\.3-n+-[0-9a-f]{12}$`},
	} {
		o := d.told(here(fmt.Sprint("m", i), m.address, 1, func(c *machinev1.Change) { c.Network, c.Service.Group = m.network, m.group }))
		require.Regexp(t, m.entry, o.GetEntry(), "%v: %s", m, o.GetRefused())
		require.LessOrEqual(t, len(o.GetEntry()), 253)
		require.False(t, seen[o.GetEntry()], o.GetEntry())
		seen[o.GetEntry()] = true
	}
	require.Len(t, b.entries(), len(seen))
}

func TestARevokedMachineIsNoEndpoint(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	m1 := here("m1", "10.0.0.1", 1, func(c *machinev1.Change) { c.Enrolment = "m-1" })
	m2 := here("m2", "10.0.0.2", 1, func(c *machinev1.Change) { c.Enrolment = "m-2" })
	_, err := d.tell(m1, m2)
	require.NoError(t, err)
	b.exec("INSERT INTO mesh.certificates (id, at, server, identity, enrolment) VALUES (gen_random_uuid(), now(), 'eu', 'spiffe://mesh/ns/shop/sa/web', 'm-1')")
	b.exec("SELECT mesh.revoke_machine('m-1', 'stolen')")
	require.Equal(t, []string{"web-10.0.0.2"}, b.entries())
	require.Equal(t, "the machine was revoked: restore it, mcp-client identity restore m-1, or stop its agent", d.told(m1).GetRefused())
	b.exec("SELECT mesh.restore_machine('m-1')")
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2"}, b.entries())
	b.exec("SELECT mesh.revoke_identity('shop', 'web')")
	require.Empty(t, b.entries())
	require.Contains(t, d.told(m2).GetRefused(), "identity restore shop/web")
	b.exec("SELECT mesh.restore_identity('shop', 'web')")
	require.Len(t, b.entries(), 2)
}
