package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/programs"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// bin is the folder of the built programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, &bin, common.stop, "mcp-server", "discovery", "mesh-agent", "mcp-client"))
}

// sharedStack is the control plane of all tests that kill nothing. It starts with the first of
// them.
type sharedStack struct {
	once     sync.Once
	err      error
	postgres *embedded.Server
	stack    *stack.Stack
}

var common sharedStack

func (s *sharedStack) get(t testing.TB) (control *stack.Stack, database string) {
	t.Helper()
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatalf("start the control plane that tests share: %v", s.err)
	}
	return s.stack, s.postgres.URL()
}

func (s *sharedStack) start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.postgres, err = embedded.Start(ctx, embedded.Options{Fast: true}); err != nil {
		return err
	}
	dir := filepath.Join(bin, "shared")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if s.stack, err = stack.New(bin, dir, s.postgres.URL()); err != nil {
		return err
	}
	if err := s.stack.Start(ctx); err != nil {
		return err
	}
	return keepNamespacesApart(ctx, s.postgres.URL())
}

// stop stops what was started. It fails if an Envoy refused any configuration, because no test
// causes that on purpose.
func (s *sharedStack) stop() error {
	if s.stack == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := refusals(ctx, s.stack.Discovery)
	s.stack.Stop()
	s.postgres.Stop()
	return err
}

func refusals(ctx context.Context, discovery *stack.Program) error {
	metrics, err := scrape(ctx, discovery)
	if err != nil {
		return err
	}
	for series, n := range metrics {
		if isRefusal(series) && n > 0 {
			return errors.New("an Envoy refused configuration: " + series + "\n" + discovery.Log())
		}
	}
	return nil
}
