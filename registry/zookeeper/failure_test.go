package zookeeper_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells.
type watcher struct {
	mu   sync.Mutex
	told bool
	all  map[string]*kinds.Resource
	bad  map[string]string
	away error
}

func watch(t *testing.T, address, rest string) *watcher {
	t.Helper()
	w := &watcher{all: map[string]*kinds.Resource{}, bad: map[string]string{}}
	stop := registrytest.Run(open(t, address, rest), w)
	t.Cleanup(func() { require.ErrorIs(t, stop(), context.Canceled) })
	return w
}

func (w *watcher) Replace(all []*kinds.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = true
	clear(w.all)
	for _, r := range all {
		w.all[r.Name] = r
	}
}

func (w *watcher) Apply(changes []kinds.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		if w.all[c.Key.Name] = c.Resource; c.Resource == nil {
			delete(w.all, c.Key.Name)
		}
	}
}

func (w *watcher) Bad(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.bad, name); err != nil {
		w.bad[name] = err.Error()
	}
}

func (w *watcher) Away(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = err
}

// until waits for something.
func (w *watcher) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if holds() {
			return nil
		}
		return fmt.Errorf("%s: away: %v, there: %v, bad: %v", what, w.away, slices.Sorted(maps.Keys(w.all)), w.bad) //nolint:errorlint // it is shown
	})
}

// untilAway waits for a reason with certain words. What was there has to be there still.
func (w *watcher) untilAway(t *testing.T, words string, there ...string) {
	t.Helper()
	w.until(t, "away: "+words, func() bool { return w.away != nil && strings.Contains(w.away.Error(), words) })
	w.mu.Lock()
	defer w.mu.Unlock()
	require.ElementsMatch(t, there, slices.Collect(maps.Keys(w.all)))
}

// untilThere waits until there are exactly these resources, and it is not away.
func (w *watcher) untilThere(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	w.until(t, "there are "+strings.Join(names, ", "), func() bool {
		return w.told && w.away == nil && slices.Equal(slices.Sorted(maps.Keys(w.all)), names)
	})
}

func (w *watcher) untilBad(t *testing.T, entry, words string) {
	t.Helper()
	w.until(t, entry+" is bad: "+words, func() bool { return strings.Contains(w.bad[entry], words) })
}

// addresses are those of the endpoints of a resource. The caller waits with until.
func (w *watcher) addresses(name string) (out []string) {
	if r := w.all[name]; r != nil {
		for _, e := range r.Spec.Message().(*networking.ServiceEntry).GetEndpoints() {
			out = append(out, e.GetAddress())
		}
	}
	return out
}

const quick = "/?timeout=500ms"

func at(address string) string { return `{"address":"` + address + `","port":80}` }

func TestAZooKeeperThatHangsTakesNothingAway(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	z.Put("/services/web/1", at("10.0.0.1"))
	way := gate.Open(t, z.Address)
	w := watch(t, way.Address(), quick)
	w.untilThere(t, "zookeeper.web")
	way.Hold()
	w.untilAway(t, "did not answer within 500ms", "zookeeper.web")
	z.Remove("/services/web/1")
	z.Put("/services/other/1", at("10.0.0.2"))
	way.Release()
	w.untilThere(t, "zookeeper.other")
}

// Sessions that nobody pings are gone after a while. What happened meanwhile is not missed.
func TestASessionThatExpires(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	z.Put("/services/web/1", at("10.0.0.1"))
	z.Put("/services/web/2", at("10.0.0.2"))
	way := gate.Open(t, z.Address)
	w := watch(t, way.Address(), quick)
	w.until(t, "two", func() bool { return len(w.addresses("zookeeper.web")) == 2 })
	sessions := z.Sessions()
	way.Shut()
	w.untilAway(t, "", "zookeeper.web")
	z.AwaitSessions(sessions - 1)
	z.Remove("/services/web/1")
	z.Put("/services/web/2", at("10.0.0.22"))
	z.Put("/services/web/3", at("10.0.0.3"))
	way.Unshut()
	w.until(t, "what has changed", func() bool {
		return w.away == nil && slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.22", "10.0.0.3"})
	})
}

// A ZooKeeper that has lost everything, or another one at its address, takes nothing away.
func TestAZooKeeperThatHasLostEverything(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{quick, quick + "&watches=each"} {
		z := zookeepertest.Start(t, nil)
		z.Put("/services/web/1", at("10.0.0.1"))
		w := watch(t, z.Address, parameters)
		w.untilThere(t, "zookeeper.web")
		z.Wipe()
		w.untilAway(t, "there is no node /services any more, which had 1 below it", "zookeeper.web")
		z.Put("/services/other/1", at("10.0.0.1"))
		w.untilThere(t, "zookeeper.other")
	}
}

// As long as nobody has registered anything there is no node. It is told, for the path may be wrong.
func TestTheNodeOfServicesComesAndGoes(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	for chroot, parameters := range map[string]string{"/a/b": "", "/c": "&watches=each"} {
		w := watch(t, z.Address, chroot+quick+"&path=/d/services"+parameters)
		root := chroot + "/d/services"
		w.untilThere(t)
		w.untilBad(t, root, "there is no node "+root+": is path right?")
		z.Put(root+"/web/1", at("10.0.0.1"))
		w.untilThere(t, "zookeeper.web")
		w.until(t, "nothing is bad", func() bool { return len(w.bad) == 0 })
		z.Remove(root + "/web/1")
		w.untilThere(t)
		z.Remove(root + "/web")
		z.Remove(root)
		w.untilBad(t, root, "there is no node")
		z.Put(root+"/web/1", at("10.0.0.1"))
		w.untilThere(t, "zookeeper.web")
		z.Put("/d/services/wrong/1", at("10.0.0.1"))
		z.Put(root+"s/wrong/1", at("10.0.0.1"))
		z.Put(root+"/web/1/below", at("10.0.0.1"))
		z.Put(root+"/more/1", at("10.0.0.1"))
		w.untilThere(t, "zookeeper.web", "zookeeper.more")
	}
}

// A bad instance costs only itself, also where it is new; the others change as ever.
func TestABadInstance(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	z.Put("/services/web/1", at("10.0.0.1"))
	z.Put("/services/web/2", "{")
	w := watch(t, z.Address, quick)
	w.untilThere(t, "zookeeper.web")
	w.untilBad(t, "/services/web", "2: it is no instance as Curator writes it")
	z.Put("/services/web/1", "<xml>")
	w.untilBad(t, "/services/web", "1: it is no instance as Curator writes it")
	z.Put("/services/web/3", at("10.0.0.3"))
	w.until(t, "the last good one, and the new one", func() bool { return slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.1", "10.0.0.3"}) })
	z.Put("/services/web/1", at("10.0.0.11"))
	z.Remove("/services/web/2")
	w.until(t, "all is well", func() bool {
		return len(w.bad) == 0 && slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.11", "10.0.0.3"})
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	require.NoError(t, z.Conn.AddAuth("digest", []byte("admin:secret")))
	both := append(zk.DigestACL(zk.PermAll, "admin", "secret"), zk.DigestACL(zk.PermRead, "reader", "first")...)
	z.PutFor("/services", "", both)
	z.Put("/services/web/1", at("10.0.0.1"))
	z.PutFor("/services/web/2", at("10.0.0.2"), zk.DigestACL(zk.PermAll, "admin", "secret"))
	z.PutFor("/services/hidden", "", zk.DigestACL(zk.PermAll, "admin", "secret"))
	z.PutFor("/services/hidden/1", at("10.0.0.3"), zk.DigestACL(zk.PermAll, "admin", "secret"))

	nobody := watch(t, z.Address, quick)
	nobody.untilAway(t, "/services: these credentials may not read it")
	file := filepath.Join(t.TempDir(), "digest")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("reader:wrong\n")
	w := watch(t, z.Address, quick+"&digest-file="+url.QueryEscape(file))
	w.untilAway(t, "these credentials may not read it")

	write("reader:first\n")
	w.untilThere(t, "zookeeper.web")
	w.untilBad(t, "/services/web", "2: these credentials may not read it")
	w.untilBad(t, "/services/hidden", "these credentials may not read it")

	// ZooKeeper tells nobody that rights have changed.
	_, err := z.Conn.SetACL("/services/web/2", zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	w.until(t, "the second instance", func() bool { return len(w.addresses("zookeeper.web")) == 2 && w.bad["/services/web"] == "" })

	write("admin:secret\n")
	w.untilThere(t, "zookeeper.web", "zookeeper.hidden")
	w.until(t, "nothing is bad", func() bool { return len(w.bad) == 0 })

	// Rights that are lost take nothing away.
	write("reader:first\n")
	w.untilBad(t, "/services/hidden", "these credentials may not read it")
	w.untilThere(t, "zookeeper.web", "zookeeper.hidden")
}
