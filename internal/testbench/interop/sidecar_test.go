package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// account is the number of istio-proxy: Istio's rules leave alone what it sends.
const account = 1337

// sidecar is Istio's agent with an Envoy, which take the traffic of a machine: of a Pod, or of a VM.
type sidecar struct {
	t      *testing.T
	at     *netns.Namespace
	folder string // where its paths begin
	env    []string
	run    *process.Process
	log    *os.File // a file, for Envoy may outlive the agent
}

// member says who a sidecar is.
type member struct {
	name, namespace, account string
	labels                   map[string]string
	group                    string // the WorkloadGroup that a VM registers for
}

// newSidecar prepares a sidecar that asks an istiod.
func newSidecar(t *testing.T, at *netns.Namespace, m member, istiod string, roots []byte) *sidecar {
	t.Helper()
	s := &sidecar{t: t, at: at, folder: openFolder(t)}
	var err error
	s.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	labels, err := json.Marshal(m.labels)
	require.NoError(t, err)
	rootsFile := s.write("etc/certs/root-cert.pem", roots)
	s.env = []string{
		"POD_NAME=" + m.name, "POD_NAMESPACE=" + m.namespace, "SERVICE_ACCOUNT=" + m.account, "INSTANCE_IP=" + at.IPv4.String(),
		"ISTIO_META_CLUSTER_ID=Kubernetes", "ISTIO_META_INTERCEPTION_MODE=REDIRECT", "ISTIO_METAJSON_LABELS=" + string(labels),
		"ISTIOD_SAN=istiod.istio-system.svc", "XDS_ROOT_CA=" + rootsFile, "CA_ROOT_CA=" + rootsFile,
		"PROXY_CONFIG=" + s.proxyConfig(istiod),
	}
	if m.group != "" {
		s.env = append(s.env, "ISTIO_META_AUTO_REGISTER_GROUP="+m.group)
	}
	t.Cleanup(func() {
		if s.run != nil {
			s.run.Stop(timeout)
		}
		if t.Failed() {
			t.Logf("the log of the sidecar of %s:\n%s", m.name, s.said())
		}
		s.log.Close()
	})
	return s
}

// said is what its programs have logged.
func (s *sidecar) said() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// proxyConfig has the agent run a stock Envoy with Istio's own bootstrap.
func (s *sidecar) proxyConfig(istiod string) string {
	s.t.Helper()
	template, err := os.ReadFile(filepath.Join(istioModule(s.t), "tools", "packaging", "common", "envoy_bootstrap.json"))
	require.NoError(s.t, err)
	text, err := json.Marshal(map[string]any{
		"discoveryAddress": istiod, "binaryPath": envoytest.Binary(s.t), "concurrency": 1,
		"proxyBootstrapTemplatePath": s.write("envoy_bootstrap.json", template), "terminationDrainDuration": "1s",
	})
	require.NoError(s.t, err)
	return string(text)
}

// istioModule is the folder of Istio's sources, of which istiod was built.
func istioModule(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../../../tools/istiod", "list", "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// openFolder is a folder that other accounts may enter.
func openFolder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp(bin, "machine-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o755))
	t.Cleanup(func() { os.RemoveAll(path) })
	return path
}

// write makes a file of the sidecar, and returns its path.
func (s *sidecar) write(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.WriteFile(path, content, 0o644))
	return path
}

// start does what istio.service, or the injected containers, do: rules, and then the agent as istio-proxy.
func (s *sidecar) start(token string) {
	s.t.Helper()
	s.write("var/run/secrets/tokens/istio-token", []byte(token))
	require.NoError(s.t, filepath.WalkDir(s.folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, account, account)
	}))
	s.rules()
	s.run = s.begin("setpriv", fmt.Sprintf("--reuid=%d", account), fmt.Sprintf("--regid=%d", account), "--clear-groups", "--pdeathsig=KILL", pilotAgent, "proxy", "sidecar")
	s.awaitReady()
}

func (s *sidecar) begin(command ...string) *process.Process {
	s.t.Helper()
	cmd := s.at.Command(context.Background(), command...)
	cmd.Dir, cmd.Env = s.folder, append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	p, err := process.Start(cmd)
	require.NoError(s.t, err)
	return p
}

// rules has the kernel send the machine's traffic through Envoy, as Istio's packages do.
func (s *sidecar) rules(more ...string) {
	s.t.Helper()
	p := s.begin(slices.Concat([]string{pilotAgent, "istio-iptables", "-p", "15001", "-z", "15006", "-u", fmt.Sprint(account), "-m", "REDIRECT", "-i", "*", "-b", "*", "-d", "22,15090,15021,15020"}, more)...)
	require.NoError(s.t, p.Err(), "%s", s.said())
}

// awaitReady waits until the agent says that Envoy serves.
func (s *sidecar) awaitReady() {
	s.t.Helper()
	poll.Within(s.t, timeout, func(ctx context.Context) error {
		select {
		case <-s.run.Done():
			s.t.Fatalf("the agent has ended: %v\n%s", s.run.Err(), s.said())
		default:
		}
		_, err := read(ctx, clientIn(s.at), "http://127.0.0.1:15021/healthz/ready")
		return err
	})
}

// stop is systemctl stop istio.
func (s *sidecar) stop() {
	s.t.Helper()
	s.run.Signal(syscall.SIGTERM)
	_ = s.run.Err() // how it ends is none of our business
	s.run = nil
	s.rules("--cleanup-only")
}

// sendsTo complains unless Envoy has these endpoints, and no others, in a cluster.
func (s *sidecar) sendsTo(ctx context.Context, cluster string, want ...string) error {
	text, err := read(ctx, clientIn(s.at), "http://127.0.0.1:15000/clusters?format=json")
	if err != nil {
		return err
	}
	found, err := endpointsOf(text, cluster)
	if err == nil && !slices.Equal(found, want) {
		err = fmt.Errorf("Envoy has the endpoints %v of %s, not %v", found, cluster, want)
	}
	return err
}

// endpointsOf reads the healthy endpoints of a cluster out of what Envoy's admin API says.
func endpointsOf(text []byte, cluster string) (found []string, err error) {
	var said struct {
		Clusters []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Address string `json:"address"`
						Port    int    `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	for _, c := range said.Clusters {
		for _, h := range c.Hosts {
			if c.Name == cluster {
				found = append(found, fmt.Sprintf("%s:%d", h.Address.Socket.Address, h.Address.Socket.Port))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// clientIn is an ordinary program on a machine, each of whose requests is a connection.
func clientIn(n *netns.Namespace) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
}

// read asks for a page.
func read(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status + ": " + string(text))
	}
	return text, err
}
