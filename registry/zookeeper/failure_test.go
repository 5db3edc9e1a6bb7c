package zookeeper_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells, by name.
type watcher struct{ *registrytest.Watcher }

func watch(t *testing.T, address, rest string) *watcher {
	t.Helper()
	return &watcher{registrytest.Watch(t, open(t, address, rest), func(k kinds.Key) string { return k.Name })}
}

// addresses are those of the endpoints of a resource. The caller waits with until.
func (w *watcher) addresses(name string) (out []string) {
	if r := w.All[name]; r != nil {
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
	w.UntilThere(t, "zookeeper.web")
	way.Hold()
	w.UntilAway(t, "did not answer within 500ms", "zookeeper.web")
	z.Remove("/services/web/1")
	z.Put("/services/other/1", at("10.0.0.2"))
	way.Release()
	w.UntilThere(t, "zookeeper.other")
}

// Sessions that nobody pings are gone after a while. What happened meanwhile is not missed.
func TestASessionThatExpires(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	z.Put("/services/web/1", at("10.0.0.1"))
	z.Put("/services/web/2", at("10.0.0.2"))
	way := gate.Open(t, z.Address)
	w := watch(t, way.Address(), quick)
	w.Until(t, "two", func() bool { return len(w.addresses("zookeeper.web")) == 2 })
	sessions := z.Sessions()
	way.Shut()
	w.UntilAway(t, "", "zookeeper.web")
	z.AwaitSessions(sessions - 1)
	z.Remove("/services/web/1")
	z.Put("/services/web/2", at("10.0.0.22"))
	z.Put("/services/web/3", at("10.0.0.3"))
	way.Unshut()
	w.Until(t, "what has changed", func() bool {
		return w.Reason == nil && slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.22", "10.0.0.3"})
	})
}

// A ZooKeeper that has lost everything, or another one at its address, takes nothing away, also of a
// server that is started meanwhile.
func TestAZooKeeperThatHasLostEverything(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{quick, quick + "&watches=each"} {
		z := zookeepertest.Start(t, nil)
		z.Put("/services/web/1", at("10.0.0.1"))
		w := watch(t, z.Address, parameters)
		w.UntilThere(t, "zookeeper.web")
		z.Wipe()
		w.UntilAway(t, "there is no node /services any more, and there were services below it", "zookeeper.web")
		w.Another(t, open(t, z.Address, parameters)).UntilAway(t, "and there were services below it", "zookeeper.web")
		z.Put("/services/other/1", at("10.0.0.1"))
		w.UntilThere(t, "zookeeper.other")
	}
}

// As long as nobody has registered anything there is no node. It is told, for the path may be wrong.
func TestTheNodeOfServicesComesAndGoes(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	for chroot, parameters := range map[string]string{"/a/b": "", "/c": "&watches=each"} {
		w := watch(t, z.Address, chroot+quick+"&path=/d/services"+parameters)
		root := chroot + "/d/services"
		w.UntilThere(t)
		w.UntilBad(t, root, "there is no node "+root+": is path right?")
		z.Put(root+"/web/1", at("10.0.0.1"))
		w.UntilThere(t, "zookeeper.web")
		w.Until(t, "nothing is bad", func() bool { return len(w.Wrong) == 0 })
		z.Remove(root + "/web/1")
		w.UntilThere(t)
		z.Remove(root + "/web")
		z.Remove(root)
		w.UntilBad(t, root, "there is no node")
		z.Put(root+"/web/1", at("10.0.0.1"))
		w.UntilThere(t, "zookeeper.web")
		z.Put("/d/services/wrong/1", at("10.0.0.1"))
		z.Put(root+"s/wrong/1", at("10.0.0.1"))
		z.Put(root+"/web/1/below", at("10.0.0.1"))
		z.Put(root+"/more/1", at("10.0.0.1"))
		w.UntilThere(t, "zookeeper.web", "zookeeper.more")
	}
}

// A bad instance costs only itself, also where it is new; the others change as ever.
func TestABadInstance(t *testing.T) {
	t.Parallel()
	z := zookeepertest.Start(t, nil)
	z.Put("/services/web/1", at("10.0.0.1"))
	z.Put("/services/web/2", "{")
	w := watch(t, z.Address, quick)
	w.UntilThere(t, "zookeeper.web")
	w.UntilBad(t, "/services/web", "2: it is no instance as Curator writes it")
	z.Put("/services/web/1", "<xml>")
	w.UntilBad(t, "/services/web", "1: it is no instance as Curator writes it")
	z.Put("/services/web/3", at("10.0.0.3"))
	w.Until(t, "the last good one, and the new one", func() bool { return slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.1", "10.0.0.3"}) })
	z.Put("/services/web/1", at("10.0.0.11"))
	z.Remove("/services/web/2")
	w.Until(t, "all is well", func() bool {
		return len(w.Wrong) == 0 && slices.Equal(w.addresses("zookeeper.web"), []string{"10.0.0.11", "10.0.0.3"})
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
	nobody.UntilAway(t, "/services: these credentials may not read it")
	file := filepath.Join(t.TempDir(), "digest")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("reader:wrong\n")
	w := watch(t, z.Address, quick+"&digest-file="+url.QueryEscape(file))
	w.UntilAway(t, "these credentials may not read it")

	write("reader:first\n")
	w.UntilThere(t, "zookeeper.web")
	w.UntilBad(t, "/services/web", "2: these credentials may not read it")
	w.UntilBad(t, "/services/hidden", "these credentials may not read it")

	// ZooKeeper tells nobody that rights have changed.
	_, err := z.Conn.SetACL("/services/web/2", zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	w.Until(t, "the second instance", func() bool { return len(w.addresses("zookeeper.web")) == 2 && w.Wrong["/services/web"] == "" })

	write("admin:secret\n")
	w.UntilThere(t, "zookeeper.web", "zookeeper.hidden")
	w.Until(t, "nothing is bad", func() bool { return len(w.Wrong) == 0 })

	// Rights that are lost take nothing away.
	write("reader:first\n")
	w.UntilBad(t, "/services/hidden", "these credentials may not read it")
	w.UntilThere(t, "zookeeper.web", "zookeeper.hidden")
}
