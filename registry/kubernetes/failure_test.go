package kubernetes_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
)

// web is a service with one endpoint.
func web(c *kubetest.Cluster, address string) {
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "web", Port: 80})
	c.ApplySlice(kubetest.Slice{Namespace: shop, Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{{Address: address}}})
}

const webKey = "ServiceEntry shop/kubernetes.web"

func (w *watcher) untilAt(t *testing.T, address string) {
	t.Helper()
	w.Until(t, "it is at "+address, func() bool {
		all := w.entry("shop/kubernetes.web").GetEndpoints()
		return len(all) == 1 && all[0].GetAddress() == address && w.Reason == nil
	})
}

func start(t *testing.T) *kubetest.Cluster {
	t.Helper()
	c := kubetest.Start(t)
	c.Namespace(shop)
	web(c, "10.0.0.1")
	return c
}

func TestAClusterThatHangsTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := start(t)
	way := gate.Open(t, c.Address)
	w := watch(t, c.Kubeconfig(way.Address(), c.Admin()), "namespaces=shop")
	w.UntilThere(t, webKey)
	way.Hold()
	w.UntilAway(t, "did not answer within 500ms", webKey)
	web(c, "10.0.0.2")
	way.Release()
	w.untilAt(t, "10.0.0.2")
}

// proxy stands before a cluster, as kubectl proxy does, and answers what it likes.
type proxy struct {
	*httptest.Server

	instead atomic.Pointer[http.HandlerFunc]
	behind  *httputil.ReverseProxy
}

func before(t *testing.T, c *kubetest.Cluster) *proxy {
	t.Helper()
	p := &proxy{behind: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: c.Address})}
	p.behind.Transport, p.behind.FlushInterval = c.Transport(), -1
	p.behind.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if instead := p.instead.Load(); instead != nil {
			(*instead)(w, r)
			return
		}
		p.behind.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// answer has the proxy answer in place of the cluster; nil has it ask the cluster again.
func (p *proxy) answer(with http.HandlerFunc) {
	if with == nil {
		p.instead.Store(nil)
	} else {
		p.instead.Store(&with)
	}
	p.CloseClientConnections()
}

func TestGarbageTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := start(t)
	p := before(t, c)
	w := watch(t, c.Kubeconfig(p.URL, "{}"), "namespaces=shop")
	w.UntilThere(t, webKey)
	for _, garbage := range []struct {
		words  string
		status int
		body   string
		more   string // again and again
	}{
		{"cannot be read: invalid character '<'", 200, "<html>", ""},
		{"unexpected EOF", 200, `{"metadata":{"resourceVersion":"1"},"items":[`, ""},
		{"no list of Kubernetes", 200, `{"hello":"world"}`, ""},
		{"cannot unmarshal", 200, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":5}]}`, ""},
		{"more than 16 MiB", 200, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"`, strings.Repeat("x", 1<<20)},
		{"502 Bad Gateway: the proxy is alone", 502, "the proxy is alone", ""},
		{"401 Unauthorized: who are you?: it does not know whose token", 401, `{"kind":"Status","message":"who are you?"}`, ""},
	} {
		p.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(garbage.status)
			_, err := io.WriteString(w, garbage.body)
			for err == nil && garbage.more != "" {
				_, err = io.WriteString(w, garbage.more)
			}
		})
		w.UntilAway(t, garbage.words, webKey)
		p.answer(nil)
		w.UntilThere(t, webKey)
	}
}

// lists are those that services are made of.
const lists = 4

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// A server that ends each watch soon is followed all the same, and not away.
func TestWatchesThatEndEachSecond(t *testing.T) {
	t.Parallel()
	c := start(t)
	p := before(t, c)
	asked := atomic.Int32{}
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		if watches(r) {
			asked.Add(1)
			query := r.URL.Query()
			query.Set("timeoutSeconds", "1")
			r.URL.RawQuery = query.Encode()
		}
		p.behind.ServeHTTP(w, r)
	})
	w := watch(t, c.Kubeconfig(p.URL, "{}"), "namespaces=shop&config=false")
	w.UntilThere(t, webKey)
	for i := 0; asked.Load() < 4*lists; i++ {
		address := fmt.Sprintf("10.0.%d.%d", 1+i/250, i%250)
		web(c, address)
		w.untilAt(t, address)
	}
	require.Equal(t, 1, w.Told, "nothing has to be read anew")
}

// Where the cluster does not know the version from which changes are to follow, all is read anew.
func TestAVersionThatIsTooOld(t *testing.T) {
	t.Parallel()
	c := start(t)
	p := before(t, c)
	w := watch(t, c.Kubeconfig(p.URL, "{}"), "namespaces=shop&config=false")
	w.UntilThere(t, webKey)
	asked := atomic.Int32{}
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); watches(r) && asked.Add(1) <= lists {
			query.Set("resourceVersion", "1")
			r.URL.RawQuery = query.Encode()
		}
		p.behind.ServeHTTP(w, r)
	})
	web(c, "10.0.2.1")
	w.untilAt(t, "10.0.2.1")
	require.Equal(t, 1, w.Told, "what was read anew is told as changes")
}

// A cluster whose backup was restored has versions that were there before, with another content.
func TestABackupThatIsRestored(t *testing.T) {
	t.Parallel()
	c := start(t)
	backup := c.Backup()
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop&config=false")
	w.untilAt(t, "10.0.0.1")
	for i := range 100 {
		web(c, fmt.Sprintf("10.0.3.%d", i))
	}
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "other", Port: 80})
	w.UntilThere(t, webKey, "ServiceEntry shop/kubernetes.other")
	w.untilAt(t, "10.0.3.99")
	c.Restore(backup)
	w.UntilThere(t, webKey)
	w.untilAt(t, "10.0.0.1")
	web(c, "10.0.0.7")
	w.untilAt(t, "10.0.0.7")
}

func TestATokenThatHasExpired(t *testing.T) {
	t.Parallel()
	c := start(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("stale\n"), 0o600))
	w := watch(t, c.Kubeconfig(c.Address, fmt.Sprintf("{tokenFile: %q}", file)), "namespaces=shop")
	w.UntilAway(t, "401 Unauthorized: Unauthorized: it does not know whose token or certificate this is, or it has expired")
	require.Zero(t, w.Told)

	c.Apply("/api/v1/namespaces/shop/serviceaccounts/pgmesh", kubetest.Object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": kubetest.Object{"name": "pgmesh"}})
	c.Grant("reader", "system:serviceaccount:shop:pgmesh", kubetest.Reads("", "services", "pods", "nodes"), kubetest.Reads("discovery.k8s.io", "endpointslices"))
	require.NoError(t, os.WriteFile(file, []byte(c.Token(shop, "pgmesh")), 0o600))
	w.UntilThere(t, webKey)
}

// Where one kind may not be read, the others are. What was there of it stays.
func TestAForbiddenKind(t *testing.T) {
	t.Parallel()
	c := start(t)
	for plural, kind := range map[string]string{"virtualservices": "VirtualService", "destinationrules": "DestinationRule"} {
		c.Apply(kubetest.DefinitionPath(plural+".networking.istio.io"), loose(plural, kind))
		c.AwaitDefinition(plural + ".networking.istio.io")
	}
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	c.Apply(networkingPath+"destinationrules/web", kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": kubetest.Object{"name": "web"}, "spec": kubetest.Object{"host": "web"},
	})
	core, slices := kubetest.Reads("", "services", "pods", "nodes"), kubetest.Reads("discovery.k8s.io", "endpointslices")
	c.Grant("reader", "reader", core, slices, kubetest.Reads("networking.istio.io", "destinationrules"))
	w := watch(t, c.Kubeconfig(c.Address, c.User("reader")), "namespaces=shop")
	const virtual, destination = "VirtualService shop/web", "DestinationRule shop/web"
	const refused = `virtualservices.networking.istio.io: Kubernetes answers 403 Forbidden: virtualservices.networking.istio.io is forbidden: User "reader" cannot list`
	w.Until(t, "the others are there", func() bool { return w.All[webKey] != nil && w.All[destination] != nil })
	w.UntilAway(t, refused, webKey, destination)
	w.Lock()
	require.Contains(t, w.Wrong["virtualservices.networking.istio.io"], "grant list and watch of it")
	w.Unlock()

	c.Grant("reader", "reader", core, slices, kubetest.Reads("networking.istio.io", "destinationrules", "virtualservices"))
	w.UntilThere(t, webKey, destination, virtual)
	require.Empty(t, w.Wrong)

	// A right that is taken away is noticed when the connection breaks, and takes nothing away.
	c.Grant("reader", "reader", slices)
	c.Restart()
	w.UntilAway(t, "403 Forbidden", webKey, destination, virtual)
	c.Grant("reader", "reader", core, slices, kubetest.Reads("networking.istio.io", "destinationrules", "virtualservices"))
	w.UntilThere(t, webKey, destination, virtual)
}

// Rights in the namespaces that are read are enough. What comes from others is not seen.
func TestRightsInNamespaces(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Apply(kubetest.DefinitionPath("virtualservices.networking.istio.io"), loose("virtualservices", "VirtualService"))
	c.AwaitDefinition("virtualservices.networking.istio.io")
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	for _, namespace := range []string{"bank", "private"} {
		c.Namespace(namespace)
		c.ApplyService(kubetest.Service{Namespace: namespace, Name: "till", Port: 80})
	}
	for _, namespace := range []string{shop, "bank"} {
		c.GrantIn(namespace, "reader", "reader", kubetest.Reads("", "services", "pods"), kubetest.Reads("discovery.k8s.io", "endpointslices"), kubetest.Reads("networking.istio.io", "*"))
	}
	w := watch(t, c.Kubeconfig(c.Address, c.User("reader")), "namespaces=bank,shop&nodes=false")
	const till, virtual = "ServiceEntry bank/kubernetes.till", "VirtualService shop/web"
	w.UntilThere(t, webKey, till, virtual)
	c.Delete(kubetest.ServicePath("bank", "till"))
	w.UntilThere(t, webKey, virtual)
	c.Restart()
	c.Delete(networkingPath + "virtualservices/web")
	w.UntilThere(t, webKey)
	require.Empty(t, w.Wrong)
}

// Where one kind cannot be read, as when what converts its objects is down, the others are, after a
// while.
func TestABrokenKind(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Apply(kubetest.DefinitionPath("virtualservices.networking.istio.io"), loose("virtualservices", "VirtualService"))
	c.AwaitDefinition("virtualservices.networking.istio.io")
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	p := before(t, c)
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/virtualservices") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","message":"conversion webhook failed"}`)
			return
		}
		p.behind.ServeHTTP(w, r)
	})
	w := watch(t, c.Kubeconfig(p.URL, "{}"), "namespaces=shop")
	w.Until(t, "the others are there", func() bool { return w.All[webKey] != nil })
	w.UntilAway(t, "virtualservices.networking.istio.io: Kubernetes answers 500 Internal Server Error: conversion webhook failed", webKey)
	w.Lock()
	require.Contains(t, w.Wrong["virtualservices.networking.istio.io"], "conversion webhook failed")
	w.Unlock()
	p.answer(nil)
	w.UntilThere(t, webKey, "VirtualService shop/web")
	require.Empty(t, w.Wrong)
}

// A cluster that gives nothing has not told that there is nothing.
func TestAClusterThatIsAllBrokenIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := start(t)
	p := before(t, c)
	failed := atomic.Int32{}
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "s") && !strings.HasSuffix(r.URL.Path, "/apis") {
			failed.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		p.behind.ServeHTTP(w, r)
	})
	w := watch(t, c.Kubeconfig(p.URL, "{}"), "namespaces=shop")
	w.Until(t, "each list has failed for longer than others wait", func() bool { return failed.Load() > 9*lists })
	w.UntilAway(t, "500 Internal Server Error")
	require.Zero(t, w.Told)
	p.answer(nil)
	w.UntilThere(t, webKey)
}

// Services are made of four lists. Where one of them may not be read at first, there is none, for what
// would be made of the others would be wrong.
func TestServicesNeedAllTheirLists(t *testing.T) {
	t.Parallel()
	c := start(t)
	core, slices := kubetest.Reads("", "services", "nodes"), kubetest.Reads("discovery.k8s.io", "endpointslices")
	c.Grant("reader", "reader", core, slices)
	kubeconfig := c.Kubeconfig(c.Address, c.User("reader"))
	w := watch(t, kubeconfig, "namespaces=shop")
	w.UntilAway(t, `pods: Kubernetes answers 403 Forbidden: pods is forbidden`)
	w.Until(t, "none is there", func() bool {
		return strings.Contains(w.Wrong["services"], "pods is forbidden") && w.Told == 1 && len(w.All) == 0
	})
	watch(t, kubeconfig, "namespaces=shop&pods=false").UntilThere(t, webKey)
	c.Grant("reader", "reader", core, slices, kubetest.Reads("", "pods"))
	w.UntilThere(t, webKey)
}
