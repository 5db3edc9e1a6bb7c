package rollout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// registers has a registry have a resource in a version, or none if it is empty. That is no revision.
func (b *bench) registers(yaml, version string) {
	b.t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(yaml))
	require.NoError(b.t, err)
	r := documents[0].Resource
	r.Annotations, r.Version = map[string]string{kinds.OriginAnnotation: "kubernetes"}, version
	change := kinds.Change{Key: r.Key(), Resource: r}
	if version == "" {
		change.Resource = nil
	}
	step := b.config.Apply(kinds.Batch{Revision: b.revision, Changes: []kinds.Change{change}})
	b.mesh = mesh.Build(step, b.mesh)
	b.engine.Update(b.mesh, step)
}

// version is what was reported last of a registry's resource, and the push that all in step run.
func (r *reports) version(name string) (is *rolloutv1.Version, push uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		push = m.GetPush()
		for _, v := range m.GetVersions() {
			if v.GetResource().GetName() == name {
				is = v
			}
		}
	}
	return is, push
}

// runs reports whether a proxy is shown to run a version, as mesh.resource_status counts it.
func (r *reports) runs(proxy, name, version string) bool {
	is, push := r.version(name)
	p := r.of(proxy)
	if p.GetState() != rolloutv1.Proxy_STATE_IN_STEP {
		push = p.GetPush()
	}
	return p != nil && is.GetVersion() == version && push >= is.GetPush()
}

func (b *bench) awaitVersion(proxy, name, version string) {
	b.t.Helper()
	poll.Within(b.t, 20*time.Second, func(context.Context) error {
		if !b.reports.runs(proxy, name, version) {
			return errors.New(proxy + " is not shown to run " + name + " " + version)
		}
		return nil
	})
}

func TestWhoRunsAVersionOfARegistryIsReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	c := b.connect("c", "bank")
	b.await("a.shop", "synced 1")
	b.await("c.bank", "synced 1")
	_, push := b.reports.version("pay")
	require.Zero(t, push, "nobody counts pushes where no registry has anything")

	b.registers(service("pay", "*"), "v1")
	b.awaitVersion("a.shop", "pay", "v1")
	b.awaitVersion("c.bank", "pay", "v1")

	// While a proxy has not answered, it is not shown to run what it was sent. Once it is silent, others
	// are not waited for.
	c.behave("", true)
	b.registers(service("cart", "*"), "v1")
	b.awaitVersion("a.shop", "cart", "v1")
	require.False(t, b.reports.runs("c.bank", "cart", "v1"))
	require.Equal(t, rolloutv1.Proxy_STATE_SILENT, b.reports.of("c.bank").GetState())
	require.True(t, b.reports.runs("c.bank", "pay", "v1"), "which it had before")
	c.behave("", false)
	b.awaitVersion("c.bank", "cart", "v1")
	b.await("c.bank", "synced 1")

	b.registers(service("pay", "*"), "")
	poll.Within(t, 20*time.Second, func(context.Context) error {
		if is, _ := b.reports.version("pay"); is.GetVersion() != "" {
			return errors.New("it is still reported")
		}
		return nil
	})
	b.apply(service("cart", "*")) // the database has it, and hides that of the registry
	poll.Within(t, 20*time.Second, func(context.Context) error {
		if is, _ := b.reports.version("cart"); is.GetVersion() != "" {
			return errors.New("it is still reported")
		}
		return nil
	})
}

// Versions of services of a registry, which may change many times a second, bring no report of their
// own, and are told soon all the same.
func TestVersionsOfServicesAreReportedWithOthers(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	b.registers(service("kubernetes.pay", "*"), "v1")
	b.awaitVersion("a.shop", "kubernetes.pay", "v1")
}
