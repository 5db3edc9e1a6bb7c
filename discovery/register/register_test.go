package register_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	healthy   = machinev1.Health_HEALTH_HEALTHY
	unhealthy = machinev1.Health_HEALTH_UNHEALTHY
	unknown   = machinev1.Health_HEALTH_UNSPECIFIED
)

func TestAMachineIsReportedAndToldOfItsEntry(t *testing.T) {
	t.Parallel()
	d := start(t, true)
	m := described("cart-1", "cart")
	m.Labels, m.Services[0].Labels = map[string]string{"app": "any", "rack": "7"}, map[string]string{"app": "cart"}
	m.Namespace, m.Network, m.Locality, m.Services[0].Weight = "", "blue", "eu/west/a", 3
	machine := d.connect("cart", m)
	require.Equal(t, "cart-cart-1", machine.registered())
	c := d.one()
	require.Equal(t, "shop/cart/e-cart", c.GetNamespace()+"/"+c.GetServiceAccount()+"/"+c.GetEnrolment(), "by its certificate")
	require.Equal(t, "cart-1 10.0.0.7 blue eu/west/a", fmt.Sprint(c.GetMachine(), " ", c.GetAddress(), " ", c.GetNetwork(), " ", c.GetLocality()))
	require.Equal(t, map[string]string{"app": "cart", "rack": "7"}, c.GetLabels())
	require.Equal(t, m.GetSince(), c.GetSince())
	require.Equal(t, machinev1.Change_STATE_HERE, c.GetState())
	require.EqualValues(t, 3, c.GetService().GetWeight())

	machine.report("cart", unhealthy, "GET /healthz:\n\t500")
	c = d.one()
	require.Equal(t, unhealthy, c.GetService().GetHealth())
	require.Equal(t, "GET /healthz: 500", c.GetService().GetDetail())

	m = proto.CloneOf(m)
	m.Services = []*machinev1.Service{{Group: "ads", Health: healthy}}
	require.NoError(t, machine.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: m}}))
	b := d.next()
	require.Len(t, b.changes, 2, "what it has no more has left")
	states := map[string]machinev1.Change_State{}
	for _, c := range b.changes {
		states[c.GetService().GetGroup()] = c.GetState()
	}
	require.Equal(t, map[string]machinev1.Change_State{"ads": machinev1.Change_STATE_HERE, "cart": machinev1.Change_STATE_LEFT}, states)
}

func TestAMachineThatVanishesIsGoneAndOneThatLeavesHasLeft(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	vanishes := d.connect("", described("a", "cart"))
	vanishes.registered()
	d.one()
	vanishes.cancel()
	require.Equal(t, machinev1.Change_STATE_GONE, d.one().GetState())

	leaves := d.connect("", described("b", "cart", "ads"))
	leaves.registered()
	leaves.registered()
	require.Len(t, d.next().changes, 2)
	release := d.holds()
	leaves.leave()
	for _, c := range d.next().changes {
		require.Equal(t, machinev1.Change_STATE_LEFT, c.GetState())
	}
	release()
	require.NotNil(t, leaves.told().GetLeft(), "once it is committed")
	require.Equal(t, codes.OK, leaves.EndsOK())
	d.connect("", described("c", "cart")).registered()
	require.Equal(t, "c", d.one().GetMachine(), "and nothing more was said of the one that has left")
}

func TestAMachineIsToldWhenAllOfItsServicesDrain(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	m := d.connect("", described("a", "cart", "ads"))
	m.registered()
	m.registered()
	require.Len(t, d.next().changes, 2)
	m.report("cart", machinev1.Health_HEALTH_DRAINING, "")
	require.Equal(t, machinev1.Health_HEALTH_DRAINING, d.one().GetService().GetHealth())
	release := d.holds()
	m.report("ads", machinev1.Health_HEALTH_DRAINING, "")
	require.Equal(t, "ads", d.one().GetService().GetGroup())
	require.Contains(t, d.shown(), "draining")
	release()
	require.NotNil(t, m.told().GetDraining(), "once it is committed, of both")

	m.report("ads", machinev1.Health_HEALTH_HEALTHY, "")
	d.one()
	m.report("ads", machinev1.Health_HEALTH_DRAINING, "")
	d.one()
	require.NotNil(t, m.told().GetDraining(), "again, when it drains again")
	m.leave()
	require.Equal(t, machinev1.Change_STATE_LEFT, d.next().changes[0].GetState())
	require.NotNil(t, m.told().GetLeft())
}

// An agent that follows is told whether mcp-server knows what it said last, and one that does not is not.
func TestAMachineIsToldWhatTheServerDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	described := func(id string, follows bool) *machinev1.Machine {
		m := described(id, "cart")
		m.Follows = follows
		return m
	}
	const drains = machinev1.Health_HEALTH_DRAINING
	earlier := d.connect("", described("earlier", false))
	earlier.registered()
	d.one()
	m := d.connect("", described("a", true))
	answers := []*machinev1.RegisterResponse{m.told(), m.told()}
	require.NotNil(t, answers[0].GetServing(), answers)
	require.True(t, answers[1].GetRegistered().GetFollows(), answers)
	d.one()
	m.report("cart", drains, "")
	require.NotNil(t, m.told().GetDraining())
	d.one()

	// A report is on its way when mcp-server goes away.
	release := d.holds()
	earlier.report("cart", drains, "")
	d.one()
	m.report("cart", healthy, "")
	d.stop()
	release()
	require.Contains(t, m.told().GetUntold().GetReason(), "mcp-server does not register machines now: ")
	// One is told while it is away, and at once: the reason may have changed.
	m.report("cart", drains, "")
	require.Contains(t, m.told().GetUntold().GetReason(), "mcp-server does not register machines now: ")
	m.report("cart", healthy, "")
	require.NotEmpty(t, m.told().GetUntold().GetReason())

	d.registry.start()
	answer := m.told()
	for answer.GetUntold() != nil { // as the reason has changed
		answer = m.told()
	}
	require.NotNil(t, answer.GetServing(), answer)
	require.NotNil(t, earlier.told().GetDraining(), "and nothing that an earlier agent does not know")
}

// EndsOK is the code with which a stream ends.
func (m *machine) EndsOK() codes.Code {
	if s := m.ends(); s.Message() != "EOF" {
		return s.Code()
	}
	return codes.OK
}

func TestOnlyTheLastStateOfAnInstanceIsReported(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	m := d.connect("", described("a", "cart"))
	m.registered()
	d.one()
	release := d.holds()
	m.report("cart", unhealthy, "first")
	require.Equal(t, "first", d.one().GetService().GetDetail())
	for i := range 20 {
		m.report("cart", unhealthy, fmt.Sprint(i))
	}
	m.report("cart", healthy, "")
	m.report("cart", healthy, "") // not a change
	require.Eventually(t, func() bool { return strings.Contains(d.shown(), `"health": "healthy"`) }, limit, time.Millisecond)
	release()
	require.Equal(t, healthy, d.one().GetService().GetHealth())
	d.connect("", described("b", "cart")).registered()
	require.Equal(t, "b", d.one().GetMachine())
}

func TestManyMachinesAreReportedInFewBatches(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	const machines = 1200
	begun := time.Now() // the first batch may arrive late, and the others keep their distance from it
	streams := make([]*machine, machines)
	for i := range streams {
		streams[i] = d.connect("", described(fmt.Sprintf("m-%d", i), "cart"))
	}
	var batches []batch
	seen := map[string]int{}
	for len(seen) < machines {
		b := d.next()
		require.LessOrEqual(t, len(b.changes), 500)
		for _, c := range b.changes {
			seen[c.GetMachine()]++
		}
		batches = append(batches, b)
	}
	pauses := len(batches) - 1
	require.Greater(t, batches[pauses].at.Sub(begun), time.Duration(pauses)*100*time.Millisecond, "in %d batches", len(batches))
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	for _, m := range streams {
		m.registered()
	}
}

const group = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: cart, namespace: shop}
spec:
  metadata: {labels: {team: blue}}
  template: {serviceAccount: cart, labels: {app: cart, version: v1}, network: net-1, locality: eu/west}
`

func TestWhatWasRefusedIsTriedAgainWhenTheGroupIsThere(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, false)
	d.apply("")
	d.decide(func(*machinev1.Change) *machinev1.Outcome {
		return &machinev1.Outcome{Refused: "there is no WorkloadGroup cart"}
	})
	m := d.connect("", described("a", "cart"))
	answer := m.told().GetRefused()
	require.Equal(t, "there is no WorkloadGroup cart", answer.GetReason())
	require.False(t, answer.GetPassing())
	d.one()
	d.decide(func(*machinev1.Change) *machinev1.Outcome { return &machinev1.Outcome{Entry: "cart-a"} })
	d.apply(group)
	require.Equal(t, "cart-a", m.registered())
	d.one()

	// If an entry is deleted while its machine is there, it comes back.
	d.apply("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: cart-a, namespace: shop}\nspec: {address: 10.0.0.7}\n")
	d.apply("", kinds.Key{Kind: mesh.WorkloadEntry, Namespace: "shop", Name: "cart-a"})
	require.Equal(t, machinev1.Change_STATE_HERE, d.one().GetState())
}

func TestAMachineIsToldWhenItGetsItsEntryLater(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	d.decide(func(*machinev1.Change) *machinev1.Outcome {
		return &machinev1.Outcome{Refused: "the machine b has the address already"}
	})
	m := d.connect("", described("a", "cart"))
	require.NotEmpty(t, m.told().GetRefused().GetReason())
	d.one()
	d.decide(func(*machinev1.Change) *machinev1.Outcome { return &machinev1.Outcome{Entry: "cart-10.0.0.7"} })
	d.apply(`
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: cart-10.0.0.7, namespace: shop, annotations: {istio.io/autoRegistrationGroup: cart, mesh.pgmesh.io/machine: a}}
spec: {address: 10.0.0.7}
`)
	require.Equal(t, "cart-10.0.0.7", m.registered())
}

// A discovery that has just started may have a machine, and a session with mcp-server, before it
// has any configuration.
func TestADiscoveryWithoutConfigurationReportsNothing(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, false)
	described := described("a", "cart")
	described.Services[0].Health = unknown
	m := d.connect("", described)
	answer := m.told().GetRefused()
	require.True(t, answer.GetPassing())
	require.Contains(t, answer.GetReason(), "no configuration yet")
	require.Empty(t, d.batches)
	d.apply(group)
	require.Equal(t, "cart-a", m.registered())
	c := d.one()
	require.Equal(t, "cart healthy", c.GetServiceAccount()+" "+map[machinev1.Health]string{healthy: "healthy"}[c.GetService().GetHealth()], "as the group says")
}

func TestARevokedMachineHasLeft(t *testing.T) {
	t.Parallel()
	d := start(t, true)
	m := d.connect("cart", described("a", "cart"))
	m.registered()
	d.one()
	d.shutOut.Store(true)
	m.cancel() // as the door does
	require.Equal(t, machinev1.Change_STATE_LEFT, d.one().GetState())
}

func TestABadDescriptionIsRefusedAndAffectsNobodyElse(t *testing.T) {
	t.Parallel()
	d := start(t, true)
	witness := d.connect("cart", described("witness", "cart"))
	witness.registered()
	d.one()
	for name, c := range map[string]struct {
		change func(*machinev1.Machine)
		code   codes.Code
		says   string
	}{
		"no name":            {func(m *machinev1.Machine) { m.Id = "" }, codes.InvalidArgument, "--id"},
		"a name with blanks": {func(m *machinev1.Machine) { m.Id = "a b" }, codes.InvalidArgument, "--id"},
		"no time":            {func(m *machinev1.Machine) { m.Since = 0 }, codes.InvalidArgument, "since when"},
		"no address":         {func(m *machinev1.Machine) { m.Address = "somewhere" }, codes.InvalidArgument, "--node-ip"},
		"another namespace":  {func(m *machinev1.Machine) { m.Namespace = "bank" }, codes.PermissionDenied, "the certificate is for"},
		"another account":    {func(m *machinev1.Machine) { m.ServiceAccount = "bank" }, codes.PermissionDenied, "the certificate is for"},
		"a label":            {func(m *machinev1.Machine) { m.Labels = map[string]string{"app": "a b"} }, codes.InvalidArgument, `metadata.labels.app: "a b" is not a valid label value`},
		"a group":            {func(m *machinev1.Machine) { m.Services[0].Group = "A_" }, codes.InvalidArgument, "not a valid name"},
		"a group twice":      {func(m *machinev1.Machine) { m.Services = append(m.Services, m.Services[0]) }, codes.InvalidArgument, "twice"},
		"a port":             {func(m *machinev1.Machine) { m.Services[0].Ports = map[string]uint32{"http": 70000} }, codes.InvalidArgument, "ports"},
		"a locality":         {func(m *machinev1.Machine) { m.Locality = "a b/c/d/e" }, codes.InvalidArgument, "locality"},
		"health":             {func(m *machinev1.Machine) { m.Services[0].Health = 7 }, codes.InvalidArgument, "means nothing"},
		"a weight":           {func(m *machinev1.Machine) { m.Services[0].Weight = 1 << 30 }, codes.InvalidArgument, "weight"},
		"many services": {func(m *machinev1.Machine) {
			for i := range 65 {
				m.Services = append(m.Services, &machinev1.Service{Group: fmt.Sprint("g", i)})
			}
		}, codes.InvalidArgument, "64 services"},
		"many labels": {func(m *machinev1.Machine) {
			m.Labels = map[string]string{}
			for i := range 65 {
				m.Labels[fmt.Sprint("l", i)] = ""
			}
		}, codes.InvalidArgument, "64"},
		"a large message": {func(m *machinev1.Machine) { m.Services[0].Detail = string(slices.Repeat([]byte("x"), 70_000)) }, codes.InvalidArgument, "bytes"},
	} {
		m := described("bad", "cart")
		c.change(m)
		s := d.connect("cart", m).ends()
		require.Equal(t, c.code, s.Code(), "%s: %s", name, s.Message())
		require.Contains(t, s.Message(), c.says, name)
	}
	stranger := d.connect("cart", described("c", "cart"))
	stranger.registered()
	d.one()
	stranger.report("ads", healthy, "")
	require.Equal(t, codes.InvalidArgument, stranger.ends().Code(), "the health of what it does not have")
	require.Equal(t, machinev1.Change_STATE_GONE, d.one().GetState())
	silent := d.connect("cart", nil)
	silent.report("cart", healthy, "")
	require.Contains(t, silent.ends().Message(), "the first message has to describe the machine")

	witness.report("cart", unhealthy, "x")
	require.Equal(t, "witness", d.one().GetMachine())
}

// A machine is told what nobody else would serve: of others that are not well, drain, or are of
// another service.
func TestAMachineIsToldWhoNeedsIt(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, true)
	client := machinev1.NewMachineServiceClient(d.conn)
	ask := func(account, id string) (all []string) {
		t.Helper()
		answer, err := client.Namesakes(metadata.AppendToOutgoingContext(t.Context(), "account", account), &machinev1.NamesakesRequest{Id: id})
		require.NoError(t, err)
		for _, n := range answer.GetNamesakes() {
			for _, host := range n.GetAlone() {
				all = append(all, n.GetEntry()+" "+host)
			}
		}
		return all
	}
	entry := func(name, machine, health, app string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s, namespace: shop, annotations: {mesh.pgmesh.io/machine: %s, mesh.pgmesh.io/health: %q}, labels: {app: %s}}
spec: {address: 10.0.0.1, serviceAccount: cart}
---`, name, machine, health, app)
	}
	d.apply(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec: {hosts: [cart.mesh], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: b, protocol: HTTP}], workloadSelector: {labels: {app: cart}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ads, namespace: shop}
spec: {hosts: [ads.mesh], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {app: ads}}}
---` + entry("a", "m", "", "cart") + entry("b", "n", "", "cart") + entry("c", "n", "", "ads") + entry("d", "o", "unhealthy: 503", "cart") + entry("e", "p", "draining", "cart"))
	require.Empty(t, ask("cart", "m"), "n has it, too")
	require.Equal(t, []string{"c ads.mesh"}, ask("cart", "n"))
	require.Empty(t, ask("cart", "o"), "nobody sends it anything")
	require.Empty(t, ask("other", "n"), "nobody is told of machines of others")

	d.apply(entry("b", "n", "draining", "cart"))
	require.Equal(t, []string{"a cart.mesh"}, ask("cart", "m"))
}

func TestSettingsAreThoseOfTheMeshTheNamespaceAndTheMachine(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, true)
	client := machinev1.NewMachineServiceClient(d.conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "account", "cart")
	_, err := client.Settings(ctx, &machinev1.SettingsRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "nobody knows yet")
	d.apply(group)
	answer, err := client.Settings(ctx, &machinev1.SettingsRequest{Groups: []string{"cart", "none"}})
	require.NoError(t, err)
	require.Empty(t, answer.GetProxyConfigJson())
	require.Equal(t, map[string]string{"team": "blue", "app": "cart", "version": "v1"}, answer.GetLabels())
	require.Equal(t, "net-1 eu/west", answer.GetNetwork()+" "+answer.GetLocality())

	d.apply(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {defaultConfig: {concurrency: 1, drainDuration: 7s, proxyMetadata: {A: mesh, B: mesh, C: mesh}}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: root, namespace: istio-system}
spec: {environmentVariables: {B: root, C: root}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: chosen, namespace: shop}
spec: {selector: {matchLabels: {app: cart}}, concurrency: 0, environmentVariables: {C: chosen}}
`)
	answer, err = client.Settings(ctx, &machinev1.SettingsRequest{Groups: []string{"cart"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"concurrency":0,"drainDuration":"7s","proxyMetadata":{"A":"mesh","B":"root","C":"chosen"}}`, answer.GetProxyConfigJson())
	answer, err = client.Settings(ctx, &machinev1.SettingsRequest{Groups: []string{"cart"}, Labels: map[string]string{"app": "other"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"concurrency":1,"drainDuration":"7s","proxyMetadata":{"A":"mesh","B":"root","C":"root"}}`, answer.GetProxyConfigJson())

	_, err = client.Settings(ctx, &machinev1.SettingsRequest{Namespace: "bank"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = client.Settings(t.Context(), &machinev1.SettingsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}
