// Package pgtest gives each test its own migrated, empty Postgres database in a few milliseconds.
//
// All tests of a test binary share one server. It starts with the first test that needs it, and
// ends with the binary, even if that is killed. The binary's TestMain must call Main.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/store/embedded"
	"github.com/pgmesh/pgmesh/store/migration"
)

// URLVariable names a server to use instead of an embedded one. Its role must be allowed to create
// databases.
const URLVariable = "PGMESH_TEST_DATABASE_URL"

// Main runs the tests and then stops the server, if one was started.
func Main(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

// VerifyMain is Main, and also fails if goroutines were leaked.
func VerifyMain(m *testing.M) int {
	code := Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// New returns the URL of a new database with the current schema. It is dropped when the test ends.
func New(t testing.TB) string {
	t.Helper()
	s := server(t)
	if _, err := s.template(); err != nil {
		t.Fatalf("migrating the template database: %v", err)
	}
	return s.create(t, " TEMPLATE "+s.templateName)
}

// Empty returns the URL of a new database without our schema. It is dropped when the test ends.
func Empty(t testing.TB) string {
	t.Helper()
	return server(t).create(t, "")
}

// shared is the test binary's server.
type shared struct {
	url          string
	embedded     *embedded.Server
	templateName string
	template     func() (struct{}, error)
	databases    atomic.Int64
}

var (
	mu     sync.Mutex
	common *shared
)

func server(t testing.TB) *shared {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if common != nil {
		return common
	}
	s := &shared{url: os.Getenv(URLVariable), templateName: fmt.Sprintf("pgmesh_test_%d_template", os.Getpid())}
	if s.url == "" {
		e, err := embedded.Start(context.Background(), embedded.Options{Fast: true, Settings: quick})
		if err != nil {
			t.Fatalf("starting Postgres for the tests: %v", err)
		}
		s.embedded, s.url = e, e.URL()
	}
	s.template = sync.OnceValues(s.makeTemplate)
	common = s
	return s
}

// quick makes Postgres detect deadlocks sooner, for tests that provoke them.
var quick = map[string]string{"deadlock_timeout": "20ms"}

func stopShared() {
	mu.Lock()
	defer mu.Unlock()
	if common == nil {
		return
	}
	if common.embedded == nil {
		_ = common.execute(context.Background(), "DROP DATABASE IF EXISTS "+common.templateName)
		return
	}
	common.embedded.Stop()
	common = nil
}

func (s *shared) makeTemplate() (none struct{}, err error) {
	ctx := context.Background()
	if err := s.execute(ctx, "CREATE DATABASE "+s.templateName); err != nil {
		return none, err
	}
	return none, migration.Up(ctx, s.database(s.templateName))
}

func (s *shared) create(t testing.TB, options string) string {
	t.Helper()
	name := fmt.Sprintf("pgmesh_test_%d_%d", os.Getpid(), s.databases.Add(1))
	if err := s.execute(t.Context(), "CREATE DATABASE "+name+options); err != nil {
		t.Fatalf("creating a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := s.execute(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("dropping the database of the test: %v", err)
		}
	})
	return s.database(name)
}

func (s *shared) execute(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// database returns the server's URL, or keyword string, with another database name.
func (s *shared) database(name string) string {
	if !strings.Contains(s.url, "://") {
		return s.url + " dbname=" + name
	}
	u, err := url.Parse(s.url)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", URLVariable, err))
	}
	u.Path = "/" + name
	return u.String()
}
