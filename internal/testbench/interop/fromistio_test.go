package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

const page = "../../../docs/from-istio.md"

// block is what the page has people type somewhere.
type block struct{ on, lines string }

// migration is a cluster with Istio, a Pod and two VMs, and what moves them.
type migration struct {
	t        *testing.T
	cluster  *kubetest.Cluster
	database string
	control  *stack.Stack         // with the istiod alone at first
	istiod   *stack.ClusterIstiod // reads the cluster
	folder   string               // where people type
	blocks   []block
	replaced []string // what the page calls otherwise

	machines map[string]*netns.Namespace
	sidecars map[string]*sidecar
	agents   map[string]*process.Process
	clients  []*traffic
}

// The machines in the order of their addresses: 10.77.0.2 and so on. The page names those of the VMs.
const (
	atIstiod = "istiod"
	atMesh   = "mesh"
	pod      = "web"
	first    = "vm-1"
	second   = "vm-2"
)

const (
	apiHost = "api.payments.svc.cluster.local"
	webHost = "web.shop.svc.cluster.local"
	web     = "spiffe://cluster.local/ns/shop/sa/web"
	api     = "spiffe://cluster.local/ns/payments/sa/api"
	// toAPI is Envoy's cluster for the Service of the VMs.
	toAPI = "outbound|80||" + apiHost
)

// Both control planes run, and machines move from one to the other and back, as docs/from-istio.md
// tells. At no step does a request fail.
func TestMovingFromIstio(t *testing.T) {
	t.Parallel()
	m := newMigration(t)
	m.types("cluster") // the example
	m.startPod()
	for _, vm := range []string{first, second} {
		m.startVM(vm)
	}
	m.eventually(m.balanced)
	m.ask()
	m.quiet("everything is Istio's")

	m.types("mesh") // one trust
	m.startMesh()
	m.types("mesh") // see whether it says the same
	m.quiet("pgmesh reads the cluster")

	m.follow()
	m.quiet("istiod follows it")

	m.types("mesh") // a token for the first VM
	m.moves(first)
	m.quiet("the first VM has moved")
	m.types("mesh") // look at it

	m.returns(first)
	m.quiet("the first VM is Istio's again")
	m.movesAgain(first)
	m.quiet("and has moved again")

	m.types("mesh")
	m.moves(second)
	m.quiet("the second VM has moved")

	m.types("mesh")
	m.types("cluster")
	m.eventually(func(ctx context.Context) error { return m.rules(ctx, "first") })
	m.quiet("their configuration has moved")
	m.types("mesh")
	m.eventually(func(ctx context.Context) error { return m.rules(ctx, "second") })
	m.quiet("a commit decides")
	require.Empty(t, m.blocks, "the page has more blocks than are followed")
}

func newMigration(t *testing.T) *migration {
	t.Helper()
	if istiod == "" || pilotAgent == "" || kubectl == "" {
		t.Skip("no istiod, pilot-agent and kubectl: make from-istio builds them, which takes minutes the first time, and runs this test")
	}
	m := &migration{
		t: t, machines: map[string]*netns.Namespace{}, sidecars: map[string]*sidecar{}, agents: map[string]*process.Process{},
		folder: openFolder(t), blocks: blocksOf(t, page),
	}
	wire := netns.NewSwitch(t) // first, for it skips the test where there are no networks
	for _, name := range []string{atIstiod, atMesh, pod, first, second} {
		m.machines[name] = wire.Machine(t)
	}
	m.cluster = kubetest.Start(t)
	m.cluster.InstallIstio()
	for _, namespace := range []string{"istio-system", "shop", "payments"} {
		m.cluster.Namespace(namespace)
	}
	require.NoError(t, os.Symlink(envoytest.Binary(t), filepath.Join(m.folder, "envoy")))
	require.NoError(t, os.Symlink(kubectl, filepath.Join(m.folder, "kubectl")))
	m.database = pgtest.New(t)
	m.startIstiod()
	return m
}

// blocksOf reads what a page has people type, in order.
func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, b := range regexp.MustCompile("(?ms)^```sh (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{b[1], b[2]})
	}
	require.Len(t, blocks, strings.Count(string(text), "\n```sh "), "a block of the page was not understood")
	return blocks
}

// next is the next block of the page, which has to be typed there.
func (m *migration) next(on string) string {
	m.t.Helper()
	require.NotEmpty(m.t, m.blocks, "the page has no more blocks")
	b := m.blocks[0]
	m.blocks = m.blocks[1:]
	require.Equal(m.t, on, b.on, "%s", b.lines)
	return strings.NewReplacer(m.replaced...).Replace(b.lines)
}

// types does what the next block says, as an administrator.
func (m *migration) types(on string) {
	m.t.Helper()
	m.typed(exec.CommandContext(m.t.Context(), "bash", "-eo", "pipefail", "-uc", m.next(on)), m.shell(), "")
}

func (m *migration) typed(cmd *exec.Cmd, env []string, stdin string) {
	m.t.Helper()
	cmd.Dir, cmd.Env, cmd.Stdin = m.folder, env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(m.t, err, "%s\n%s", strings.Join(cmd.Args, " "), out)
	m.t.Logf("%s\n%s", cmd.Args[len(cmd.Args)-1], out)
}

// shell is that of whoever may do everything, in the cluster and in the mesh.
func (m *migration) shell() []string {
	env := []string{
		"PATH=" + m.folder + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + m.folder,
		"KUBECONFIG=" + m.cluster.Kubeconfig(m.cluster.Address, m.cluster.Admin()),
	}
	if m.control != nil {
		env = append(env, m.control.Administrator()...)
	}
	return env
}

func (m *migration) startIstiod() {
	m.t.Helper()
	alone, err := stack.New(bin, m.t.TempDir(), m.database)
	require.NoError(m.t, err)
	m.istiod, err = alone.IstiodOf(istiod, m.cluster.Kubeconfig(m.cluster.Address, m.cluster.Admin()))
	require.NoError(m.t, err)
	require.NoError(m.t, m.istiod.Start())
	m.t.Cleanup(func() {
		m.istiod.Stop()
		if m.t.Failed() {
			m.t.Logf("istiod's log:\n%s", m.istiod.Log())
		}
	})
	m.awaitIstiod()
	at := m.machines[atIstiod]
	at.Forward(net.JoinHostPort(at.IPv4.String(), "15012"), m.istiod.Secure)
}

func (m *migration) awaitIstiod() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), timeout)
	defer cancel()
	require.NoError(m.t, m.istiod.Ready(ctx))
}

// sidecar prepares Istio's agent on a machine.
func (m *migration) sidecar(on member) *sidecar {
	m.t.Helper()
	m.cluster.Apply("/api/v1/namespaces/"+on.namespace+"/serviceaccounts/"+on.account, kubetest.Object{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": kubetest.Object{"name": on.account},
	})
	at := m.machines[atIstiod].IPv4.String()
	s := newSidecar(m.t, m.machines[on.name], on, net.JoinHostPort(at, "15012"), m.rootOfIstio())
	m.sidecars[on.name] = s
	s.start(m.token(on))
	return s
}

// rootOfIstio is what istiod gives every namespace.
func (m *migration) rootOfIstio() (root []byte) {
	m.t.Helper()
	var secret struct{ Data map[string][]byte }
	require.NoError(m.t, json.Unmarshal(m.cluster.Get("/api/v1/namespaces/istio-system/secrets/istio-ca-secret"), &secret))
	require.NotEmpty(m.t, secret.Data["ca-cert.pem"])
	return secret.Data["ca-cert.pem"]
}

// token is one of Kubernetes for Istio's authority.
func (m *migration) token(of member) string {
	m.t.Helper()
	return m.cluster.Token(of.namespace, of.account, "istio-ca")
}

// startPod makes what a Deployment would have made, and runs its sidecar.
func (m *migration) startPod() {
	m.t.Helper()
	at := m.machines[pod]
	ip := at.IPv4.String()
	labels := map[string]string{"app": "web", "security.istio.io/tlsMode": "istio"}
	serveApplication(m.t, at, pod)
	m.cluster.ApplyPod(kubetest.Pod{Namespace: "shop", Name: pod, Account: "web", Labels: labels})
	m.cluster.ApplyStatus(kubetest.PodPath("shop", pod), kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": pod},
		"status": kubetest.Object{
			"phase": "Running", "podIP": ip, "podIPs": []kubetest.Object{{"ip": ip}},
			"conditions": []kubetest.Object{{"type": "Ready", "status": "True"}},
		},
	})
	m.sidecar(member{name: pod, namespace: "shop", account: "web", labels: labels})
	m.cluster.ApplySlice(kubetest.Slice{Namespace: "shop", Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{{Address: ip, Pod: pod}}})
}

func vm(name string) member {
	return member{name: name, namespace: "payments", account: "api", labels: map[string]string{"app": "api"}, group: "api"}
}

func (m *migration) startVM(name string) {
	m.t.Helper()
	serveApplication(m.t, m.machines[name], name)
	m.sidecar(vm(name))
}

func (m *migration) eventually(holds func(context.Context) error) {
	m.t.Helper()
	poll.Within(m.t, timeout, holds)
}

// clusterIP is the address of a Service.
func (m *migration) clusterIP(namespace, name string) string {
	m.t.Helper()
	var service struct{ Spec struct{ ClusterIP string } }
	require.NoError(m.t, json.Unmarshal(m.cluster.Get(kubetest.ServicePath(namespace, name)), &service))
	return net.JoinHostPort(service.Spec.ClusterIP, "80")
}

func (m *migration) callAPI(from string) call {
	return call{m.machines[from], m.clusterIP("payments", "api"), apiHost, web}
}

func (m *migration) callWeb(from string) call {
	return call{m.machines[from], m.clusterIP("shop", "web"), webHost, api}
}

// balanced complains unless the Pod reaches both VMs, and both reach the Pod.
func (m *migration) balanced(ctx context.Context) error {
	if err := m.serves(ctx, first, second); err != nil {
		return err
	}
	one := m.callAPI(pod)
	if _, err := one.once(ctx); err != nil {
		return err
	}
	for _, vm := range []string{first, second} {
		c := m.callWeb(vm)
		if _, err := c.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serves complains unless these VMs, and no others, are endpoints of the Pod's Envoy.
func (m *migration) serves(ctx context.Context, vms ...string) error {
	var want []string
	for _, vm := range vms {
		want = append(want, net.JoinHostPort(m.machines[vm].IPv4.String(), "8080"))
	}
	return m.sidecars[pod].sendsTo(ctx, toAPI, want...)
}

// ask begins the traffic that goes on to the end.
func (m *migration) ask() {
	m.t.Helper()
	m.clients = append(m.clients, keepAsking(m.t, pod, m.callAPI(pod)), keepAsking(m.t, first, m.callWeb(first)), keepAsking(m.t, second, m.callWeb(second)))
}

// enough is how many answers each client has to get in a step.
const enough = 100

// quiet waits until each client has got answers in a step, and demands that no request has failed
// since the step before.
func (m *migration) quiet(step string) {
	m.t.Helper()
	for _, c := range m.clients {
		all, count := map[string]int{}, 0
		var failures []error
		m.eventually(func(context.Context) error {
			answered, failed := c.told()
			for by, n := range answered {
				all[by] += n
				count += n
			}
			failures = append(failures, failed...)
			if count < enough {
				return fmt.Errorf("%s has %d answers: %v", c.name, count, failures)
			}
			return nil
		})
		m.t.Logf("%s: %s was answered by %v", step, c.name, all)
		require.Empty(m.t, failures, "%s: of %d requests of %s", step, count+len(failures), c.name)
	}
}

// startMesh runs pgmesh beside Istio, with the authority that the page has made.
func (m *migration) startMesh() {
	m.t.Helper()
	in := func(name string) string { return filepath.Join(m.folder, name) }
	control, err := stack.NewSecure(bin, m.t.TempDir(), m.database, &stack.Files{Cert: in("mesh.pem"), Key: in("mesh.key"), Roots: in("root.pem")})
	require.NoError(m.t, err)
	control.ServerFlags("--registry", "kubernetes://"+m.cluster.Kubeconfig(m.cluster.Address, m.cluster.Admin()))
	m.t.Cleanup(func() {
		control.Stop()
		if m.t.Failed() {
			m.t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(m.t, control.Start(m.t.Context()))
	m.control = control
	at := m.machines[atMesh]
	mesh := net.JoinHostPort(at.IPv4.String(), "15012")
	at.Forward(mesh, control.XDS)
	m.replaced = append(m.replaced, "mesh.example:15012", mesh)
}

// follow runs a server for istiod, and has istiod follow it.
func (m *migration) follow() {
	m.t.Helper()
	server, address, err := m.control.ServerWithoutRegistries("for-istio", "--anonymous-readers")
	require.NoError(m.t, err)
	require.NoError(m.t, server.Start())
	m.t.Cleanup(server.Stop)
	require.NoError(m.t, server.Ready(m.t.Context()))
	m.replaced = append(m.replaced, "mesh.example:15021", address)
	m.types("cluster")
	m.istiod.Stop()
	require.NoError(m.t, m.istiod.Start())
	m.awaitIstiod()
	m.eventually(m.balanced)
}

// takesOut takes a VM out by the page's command, and waits until nobody sends it anything.
func (m *migration) takesOut(name string) {
	m.t.Helper()
	m.types("cluster")
	m.client(name).rest(true)
	m.eventually(func(ctx context.Context) error { return m.serves(ctx, other(name)) })
}

func other(vm string) string {
	if vm == first {
		return second
	}
	return first
}

func (m *migration) client(name string) *traffic {
	i := slices.IndexFunc(m.clients, func(c *traffic) bool { return c.name == name })
	return m.clients[i]
}

// moves has a VM leave Istio and join the mesh.
func (m *migration) moves(name string) {
	m.t.Helper()
	m.takesOut(name)
	m.sidecars[name].stop()
	lines := m.next(name)
	join, run, starts := strings.Cut(lines, "mesh-agent run ")
	require.True(m.t, starts, "%s", lines)
	token, err := os.ReadFile(filepath.Join(m.folder, name+".token"))
	require.NoError(m.t, err)
	m.typed(m.machines[name].Command(m.t.Context(), slices.Concat(asAgent, []string{"bash", "-euc", join})...), m.agentEnv(name), string(token))
	m.runAgent(name, strings.Fields(run))
}

// asAgent is the account of the package's unit: it may redirect, and no more.
var asAgent = []string{
	"setpriv", fmt.Sprintf("--reuid=%d", account), fmt.Sprintf("--regid=%d", account), "--clear-groups", "--pdeathsig=KILL", "--no-new-privs",
	"--bounding-set=-all,+net_admin,+net_bind_service", "--inh-caps=-all,+net_admin,+net_bind_service", "--ambient-caps=-all,+net_admin,+net_bind_service",
}

// agentEnv is what an agent is told beside the page: machines of a test share a host name and folders.
func (m *migration) agentEnv(name string) []string {
	state := filepath.Join(m.folder, "state-"+name)
	require.NoError(m.t, os.MkdirAll(state, 0o700))
	require.NoError(m.t, os.Chown(state, account, account))
	return []string{
		"PATH=" + m.folder + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + state, "PGMESH_CONFIG=", "PGMESH_STATE_DIR=" + state,
		"PGMESH_ID=" + name + ".payments", "PGMESH_NODE_IP=" + m.machines[name].IPv4.String(), "PGMESH_TIE_ENVOY=true", "PGMESH_CONCURRENCY=1",
	}
}

// runAgent is systemctl start mesh-agent. It returns when the Pod sends the VM requests.
func (m *migration) runAgent(name string, flags []string) {
	m.t.Helper()
	log := &journal.Journal{}
	cmd := m.machines[name].Command(context.Background(), slices.Concat(asAgent, []string{filepath.Join(bin, "mesh-agent"), "run"}, flags)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = m.agentEnv(name), log, log
	p, err := process.Start(cmd)
	require.NoError(m.t, err)
	m.t.Cleanup(func() {
		if p.Kill(); m.t.Failed() {
			m.t.Logf("the log of mesh-agent on %s:\n%s", name, log.String())
		}
	})
	m.agents[name] = p
	m.eventually(func(ctx context.Context) error { return m.serves(ctx, first, second) })
	m.eventually(m.balanced)
	m.client(name).rest(false)
}

// returns has a VM leave the mesh and join Istio again.
func (m *migration) returns(name string) {
	m.t.Helper()
	m.client(name).rest(true)
	m.typed(m.machines[name].Command(m.t.Context(), slices.Concat(asAgent, []string{"bash", "-euc", m.next(name)})...), m.agentEnv(name), "")
	m.agents[name].Signal(syscall.SIGTERM)
	require.NoError(m.t, m.agents[name].Err())
	m.eventually(func(ctx context.Context) error { return m.serves(ctx, other(name)) })
	m.sidecars[name].start(m.token(vm(name)))
	m.eventually(func(ctx context.Context) error { return m.serves(ctx, first, second) })
	m.eventually(m.balanced)
	m.client(name).rest(false)
}

// movesAgain moves a VM that has been in the mesh before, and has its certificate.
func (m *migration) movesAgain(name string) {
	m.t.Helper()
	m.client(name).rest(true)
	m.cluster.Delete("/apis/networking.istio.io/v1/namespaces/payments/workloadentries/api-" + m.machines[name].IPv4.String())
	m.eventually(func(ctx context.Context) error { return m.serves(ctx, other(name)) })
	m.sidecars[name].stop()
	m.runAgent(name, []string{"--redirect", "--redirect-inbound-ports", "all"})
}

// rules complains unless Envoys under both control planes go by the same VirtualService, and the
// machines by their AuthorizationPolicy: the Pod may ask, and a machine may not.
func (m *migration) rules(ctx context.Context, rule string) error {
	for from, status := range map[string]int{pod: http.StatusOK, second: http.StatusForbidden} {
		c := m.callAPI(from)
		answer, err := c.send(ctx)
		switch {
		case err != nil:
			return err
		case answer.rule != rule || answer.status != status:
			return fmt.Errorf("%s is answered %d by the rule %q, not %d by %q", from, answer.status, answer.rule, status, rule)
		}
	}
	return nil
}
