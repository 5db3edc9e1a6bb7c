package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
)

// backend is an application behind the mesh: it answers who it is and what it was asked.
type backend struct {
	name string
	port string
	// asked counts the requests.
	asked atomic.Int64
	// last is the newest request.
	last atomic.Pointer[seen]
}

// seen is a request as it reached a backend.
type seen struct {
	Backend, Method, URI, Host string
	Header                     http.Header
}

// newBackend starts a backend. Behave, if not nil, may answer a request by itself; it is told how many there were before.
func newBackend(t testing.TB, name string, behave func(w http.ResponseWriter, r *http.Request, before int) (answered bool)) *backend {
	t.Helper()
	b := &backend{name: name}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := b.asked.Add(1) - 1
		request := &seen{b.name, r.Method, r.RequestURI, r.Host, r.Header}
		b.last.Store(request)
		if behave != nil && behave(w, r, int(before)) {
			return
		}
		w.Header().Set("Backend", name)
		w.Header().Set("Secret", "of "+name)
		_ = json.NewEncoder(w).Encode(request) // the client has gone: it is the one to complain
	}))
	t.Cleanup(server.Close)
	b.port = portOf(t, server.Listener)
	return b
}

func backends(t testing.TB, names ...string) []*backend {
	t.Helper()
	list := make([]*backend, len(names))
	for i, name := range names {
		list[i] = newBackend(t, name, nil)
	}
	return list
}

// greeter is a TCP application: it says who it is, and then repeats what it hears.
type greeter struct{ name, port string }

func newGreeter(t testing.TB, name string) *greeter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		greet(l, name)
	}()
	return &greeter{name, portOf(t, l)}
}

func portOf(t testing.TB, l net.Listener) string {
	t.Helper()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s has no port", l.Addr())
	}
	return strconv.Itoa(address.Port)
}
