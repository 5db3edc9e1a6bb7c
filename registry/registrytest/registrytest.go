// Package registrytest holds a registry to what all registries promise: what the mesh has is what the
// registry has, and nothing is taken away because it could not be asked.
package registrytest

import (
	"context"
	"testing"

	"github.com/pgmesh/pgmesh/registry"
)

// Subject is a registry in the hands of a test.
type Subject struct {
	// Open returns the registry as a program that was just started has it.
	Open func() registry.Registry
	// URL is how a program is told of it.
	URL string
	// Host is the host that a service has in the mesh. The service has one port, of HTTP.
	Host func(service string) string
	// Register makes an instance of a service, or changes it to this. A service is there while it has
	// instances.
	Register func(service string, i Instance)
	// Deregister removes an instance of a service.
	Deregister func(service, id string)
	// Cut takes away the way to the registry, whose content may still change, and Mend gives it back.
	Cut, Mend func()
	// Restart ends the registry and starts it again with what it had; nil if it cannot be.
	Restart func()
	// Weights says that the registry keeps the weights of instances.
	Weights bool
	// Health says that the registry keeps the health of instances.
	Health bool
}

// Instance is an instance as a test registers it.
type Instance struct {
	ID        string
	Address   string
	Port      uint32
	Weight    uint32 // at least 1; 1 where the registry keeps none
	Unhealthy bool
}

// Contract tests a registry. Open returns one without services.
func Contract(t *testing.T, open func(t *testing.T) Subject) {
	for _, promise := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"an empty registry is told to be empty", tellsThatItIsEmpty},
		{"everything is given first", givesEverythingFirst},
		{"each change is told", tellsChanges},
		{"what cannot be asked stays", keepsWhatItCannotAsk},
		{"nothing is said before it could be asked", waitsForTheFirstAnswer},
		{"a restart of the registry takes nothing away", survivesRestarts},
		{"it ends with its context, and may run again", runsAgain},
		{"random operations", survivesRandomOperations},
	} {
		t.Run(promise.name, func(t *testing.T) {
			t.Parallel()
			promise.test(t, open(t))
		})
	}
}

func tellsThatItIsEmpty(t *testing.T, s Subject) {
	f := follow(t, s)
	f.until(content{})
	f.stop()
}

func givesEverythingFirst(t *testing.T, s Subject) {
	want := content{}
	want.register(s, "web", Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1})
	want.register(s, "web", Instance{ID: "web-2", Address: "10.0.0.2", Port: 8081, Weight: 1})
	want.register(s, "db", Instance{ID: "db-1", Address: "10.0.0.3", Port: 5432, Weight: 1})
	f := follow(t, s)
	f.until(want)
	f.stop()
}

func tellsChanges(t *testing.T, s Subject) {
	want := content{}
	f := follow(t, s)
	f.until(want)
	one := Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1}
	two := Instance{ID: "web-2", Address: "10.0.0.2", Port: 8080, Weight: 1}
	moved := Instance{ID: "web-1", Address: "10.0.0.9", Port: 8090, Weight: 1}
	for _, step := range []func(){
		func() { want.register(s, "web", one) },
		func() { want.register(s, "web", two) },
		func() { want.register(s, "web", moved) },
		func() { want.register(s, "web", two.weighing(s, 5)) },
		func() { want.register(s, "web", two.failing(s)) },
		func() { want.register(s, "web", two) },
		func() { want.register(s, "other", Instance{ID: "other-1", Address: "10.0.0.3", Port: 80, Weight: 1}) },
		func() { want.deregister(s, "web", "web-1") },
		func() { want.deregister(s, "web", "web-2") },
		func() { want.register(s, "web", one) },
	} {
		step()
		f.until(want)
	}
	f.stop()
}

func keepsWhatItCannotAsk(t *testing.T, s Subject) {
	want := content{}
	want.register(s, "web", Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1})
	want.register(s, "old", Instance{ID: "old-1", Address: "10.0.0.2", Port: 8080, Weight: 1})
	f := follow(t, s)
	f.until(want)
	s.Cut()
	f.untilAway()
	f.requireContent(want)
	s.Mend()
	f.untilBack()
	want.deregister(s, "old", "old-1")
	want.register(s, "new", Instance{ID: "new-1", Address: "10.0.0.3", Port: 8080, Weight: 1})
	f.until(want)
	f.stop()
}

func waitsForTheFirstAnswer(t *testing.T, s Subject) {
	want := content{}
	want.register(s, "web", Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1})
	s.Cut()
	f := follow(t, s)
	f.untilAway()
	f.requireUntold()
	s.Mend()
	f.until(want)
	f.untilBack()
	f.stop()
}

func survivesRestarts(t *testing.T, s Subject) {
	if s.Restart == nil {
		t.Skip("it has no server that could be restarted")
	}
	want := content{}
	want.register(s, "web", Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1})
	f := follow(t, s)
	f.until(want)
	f.keep("web")
	s.Restart()
	want.register(s, "more", Instance{ID: "more-1", Address: "10.0.0.2", Port: 8080, Weight: 1})
	f.until(want)
	f.stop()
}

func runsAgain(t *testing.T, s Subject) {
	want := content{}
	want.register(s, "web", Instance{ID: "web-1", Address: "10.0.0.1", Port: 8080, Weight: 1})
	f := follow(t, s)
	f.until(want)
	f.stop()
	want.register(s, "more", Instance{ID: "more-1", Address: "10.0.0.2", Port: 8080, Weight: 1})
	f.again()
	f.until(want)
	f.stop()
}

// Run runs a registry until the returned function is called, which returns its error.
func Run(r registry.Registry, sink registry.Sink) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, sink) }()
	return func() error {
		cancel()
		return <-ended
	}
}
