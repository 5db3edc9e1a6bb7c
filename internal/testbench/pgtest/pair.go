package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pair is a primary and a hot standby that replicates it, for tests of failover.
type Pair struct {
	Primary, Standby *OwnServer
}

// Replicated starts a pair with asynchronous replication and a migrated first database.
func Replicated(t testing.TB) *Pair {
	t.Helper()
	primary := Server(t)
	standby := &OwnServer{t: t, dir: primary.dir + "-standby", settings: primary.settings}
	t.Cleanup(func() {
		standby.Stop()
		os.RemoveAll(standby.dir)
	})
	primary.Stop()
	if err := clone(primary, standby.dir); err != nil {
		t.Fatalf("making the standby: %v", err)
	}
	primary.Start()
	standby.start(0)
	p := &Pair{primary, standby}
	p.await(primary, "SELECT count(*) = 1 FROM pg_stat_replication")
	return p
}

// clone copies the data of a stopped server and makes the copy a standby.
func clone(primary *OwnServer, dir string) error {
	from := primary.running.DataDir()
	if out, err := exec.Command("cp", "-a", from, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the primary: %w: %s", err, out)
	}
	u, err := url.Parse(primary.URL)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	source := fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s password=%s'\n", u.Hostname(), u.Port(), u.User.Username(), password)
	settings := filepath.Join(dir, "data", "postgresql.auto.conf")
	if err := os.WriteFile(settings, []byte(source), 0o600); err != nil { // keeps the file's owner
		return err
	}
	// Link a file that Postgres' account owns: a file owned by root it could not remove.
	return os.Link(filepath.Join(dir, "password"), filepath.Join(dir, "data", "standby.signal"))
}

// URL returns a URL of both servers with a value of libpq's target_session_attrs.
func (p *Pair) URL(target string) string {
	u, err := url.Parse(p.Primary.URL)
	if err != nil {
		p.Primary.t.Fatal(err)
	}
	other, err := url.Parse(p.Standby.URL)
	if err != nil {
		p.Primary.t.Fatal(err)
	}
	u.Host = strings.Join([]string{u.Host, other.Host}, ",")
	q := u.Query()
	q.Set("target_session_attrs", target)
	u.RawQuery = q.Encode()
	return u.String()
}

// Synchronous makes commits on the primary wait for the standby.
func (p *Pair) Synchronous() {
	p.Primary.t.Helper()
	p.Primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.Primary.Exec("SELECT pg_reload_conf()")
	p.await(p.Primary, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// Sever ends the replication: the standby will lack what the primary commits from now on.
func (p *Pair) Sever() {
	p.Primary.t.Helper()
	p.Standby.Exec("ALTER SYSTEM SET primary_conninfo = ''")
	p.Standby.Exec("SELECT pg_reload_conf()")
	p.await(p.Primary, "SELECT count(*) = 0 FROM pg_stat_replication")
}

// CaughtUp returns when the standby has replayed everything that the primary has committed.
func (p *Pair) CaughtUp() {
	p.Primary.t.Helper()
	p.await(p.Primary, "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication")
}

// Promote makes the standby a primary. It does not let pg_promote wait: the snapshot of a query that
// waits can be in the way of what the standby has yet to replay, and is canceled after 30 s.
func (p *Pair) Promote() {
	p.Primary.t.Helper()
	p.Standby.Exec("SELECT pg_promote(wait => false)")
	p.await(p.Standby, "SELECT NOT pg_is_in_recovery()")
}

// Exec runs SQL on a server.
func (s *OwnServer) Exec(sql string) {
	s.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (p *Pair) await(s *OwnServer, question string) {
	s.t.Helper()
	s.await(s.URL, question)
}

// await polls a query until it returns true. Postgres has no event to wait for.
func (s *OwnServer) await(at, question string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(ctx)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for yes := new(bool); ; <-tick.C {
		if err := conn.QueryRow(ctx, question).Scan(&yes); err != nil {
			s.t.Fatalf("%s: %v", question, err)
		}
		if yes != nil && *yes {
			return
		}
	}
}
