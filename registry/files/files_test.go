package files_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/files"
	"github.com/pgmesh/pgmesh/registry/registrytest"
	"github.com/pgmesh/pgmesh/registry/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
		t.Helper()
		return newInventory(t).subject()
	})
}

func TestTheWholePath(t *testing.T) {
	t.Parallel()
	registrytest.WholePath(t, newInventory(t).subject())
}

// inventory writes a file for each service.
type inventory struct {
	t    *testing.T
	path string
	now  string // where the folder is
	has  map[string]map[string]registrytest.Instance
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.Mkdir(path, 0o755))
	return &inventory{t: t, path: path, now: path, has: map[string]map[string]registrytest.Instance{}}
}

func (i *inventory) subject() registrytest.Subject {
	away := i.path + ".away"
	return registrytest.Subject{
		Open: func() registry.Registry {
			return files.New(i.path, "files", "default", slog.New(slog.DiscardHandler))
		},
		URL:  "files://" + i.path,
		Host: host,
		Register: func(service string, instance registrytest.Instance) {
			if i.has[service] == nil {
				i.has[service] = map[string]registrytest.Instance{}
			}
			i.has[service][instance.ID] = instance
			i.write(service)
		},
		Deregister: func(service, id string) {
			delete(i.has[service], id)
			i.write(service)
		},
		Cut:     func() { require.NoError(i.t, os.Rename(i.path, away)); i.now = away },
		Mend:    func() { require.NoError(i.t, os.Rename(away, i.path)); i.now = i.path },
		Weights: true, Health: true,
	}
}

func host(service string) string { return service + ".example.com" }

func (i *inventory) write(name string) {
	i.t.Helper()
	path := filepath.Join(i.now, name+".yaml")
	if len(i.has[name]) == 0 {
		require.NoError(i.t, os.Remove(path))
		return
	}
	s := service.Service{Name: name, Hosts: []string{host(name)}, Ports: []service.Port{{Name: "http", Number: 80, Protocol: "HTTP"}}}
	for _, instance := range i.has[name] {
		made := service.Instance{Address: instance.Address, Ports: map[string]uint32{"http": instance.Port}, Weight: instance.Weight}
		if instance.Unhealthy {
			made.Health = service.Unhealthy
		}
		s.Instances = append(s.Instances, made)
	}
	text, err := yaml.Marshal(map[string]any{"services": []service.Service{s}})
	require.NoError(i.t, err)
	i.put(name+".yaml", text)
}

// put writes a file at once.
func (i *inventory) put(name string, text []byte) {
	i.t.Helper()
	written := filepath.Join(i.t.TempDir(), name)
	require.NoError(i.t, os.WriteFile(written, text, 0o644))
	require.NoError(i.t, os.Rename(written, filepath.Join(i.now, name)))
}

// told is a sink that keeps what it is told.
type told struct {
	mu   sync.Mutex
	all  map[kinds.Key]*kinds.Resource
	bad  chan string
	news chan struct{}
}

func (s *told) Replace(all []*kinds.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		s.all[r.Key()] = r
	}
	s.news <- struct{}{}
}

func (s *told) Apply(changes []kinds.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.all[c.Key] = c.Resource
	}
	s.news <- struct{}{}
}

func (s *told) Bad(name string, err error)      { s.bad <- fmt.Sprintf("%s: %v", name, err) }
func (*told) Secrets(string, []registry.Secret) {}
func (*told) Holds() bool                       { return false }
func (*told) Away(error)                        {}

func TestAFileWithAMistakeChangesNothing(t *testing.T) {
	t.Parallel()
	i := newInventory(t)
	const good = "services: [{name: web, hosts: [web.example.com], ports: [{number: 80}]}]"
	i.put("web.yaml", []byte(good))
	sink := &told{all: map[kinds.Key]*kinds.Resource{}, bad: make(chan string, 10), news: make(chan struct{}, 10)}
	stop := registrytest.Run(i.subject().Open(), sink)
	defer stop()
	<-sink.news
	i.put("web.yaml", []byte("services: [{name: web, hots: [web.example.com]}]"))
	require.Contains(t, <-sink.bad, "web.yaml: yaml: unmarshal errors:\n  line 1: field hots not found")
	i.put("other.yaml", []byte("services: [{name: other, hosts: [other.example.com], ports: [{number: 80}]}]"))
	<-sink.news
	sink.mu.Lock()
	require.Len(t, sink.all, 2, "what the broken file said before stays")
	sink.mu.Unlock()
	i.put("web.yaml", []byte(good))
	require.Equal(t, "web.yaml: <nil>", <-sink.bad)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("services: [{name: web, hosts: [web.example.com], ports: [{number: 80}], instances: [{address: 10.0.0.1, health: unhealthy}]}]"))
	f.Add([]byte("services:\n- {name: a, created: 2026-01-02T03:04:05Z}\n---\nservices: []\n"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		services, err := files.Parse(content)
		if err != nil {
			return
		}
		for i := range services {
			_, _ = services[i].Resources("files")
		}
	})
}
