package sinks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/sinks"
)

// sinkFollower is a program that dials sinks.
type sinkFollower struct {
	t     *testing.T
	lists chan []sinks.Sink
	stop  func()
}

func followSinks(t *testing.T, url string, poll time.Duration, change ...func(*sinks.Options)) *sinkFollower {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	f := &sinkFollower{t: t, lists: make(chan []sinks.Sink)}
	ended := make(chan error, 1)
	go func() {
		options := sinks.Options{Server: "a server", Poll: poll, Dial: func(list []sinks.Sink) {
			select {
			case f.lists <- list:
			case <-ctx.Done():
			}
		}}
		for _, c := range change {
			c(&options)
		}
		ended <- sinks.Follow(ctx, s, options)
	}()
	f.stop = func() {
		if cancel != nil {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			s.Close()
			cancel = nil
		}
	}
	t.Cleanup(f.stop)
	return f
}

// until waits for a list of these addresses, and returns it.
func (f *sinkFollower) until(addresses ...string) []sinks.Sink {
	f.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case list := <-f.lists:
			var got []string
			for _, s := range list {
				got = append(got, s.Address)
			}
			if fmt.Sprint(got) == fmt.Sprint(addresses) {
				return list
			}
		case <-limit:
			f.t.Fatalf("no list of %v", addresses)
		}
	}
}

func TestSinksAreFollowed(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	f := followSinks(t, url, time.Hour) // what is noticed was told of
	f.until()
	db.Exec(`INSERT INTO mesh.sinks (address, metadata, tls, server_name, server_id)
		VALUES ('b.example:15010', '{"x-team": "shop"}', true, 'pilot', 'spiffe://td/pilot'), ('a.example:9901', '{}', NULL, NULL, NULL)`)
	require.Equal(t, []sinks.Sink{
		{Address: "a.example:9901", Metadata: map[string]string{}},
		{Address: "b.example:15010", Metadata: map[string]string{"x-team": "shop"}, Transport: listen.Secure, ServerName: "pilot", ServerID: "spiffe://td/pilot"},
	}, f.until("a.example:9901", "b.example:15010"))
	require.True(t, storetest.Value[bool](db, "SELECT bool_and(author = session_user) FROM mesh.sinks"), "who has written it is kept")
	db.Exec("UPDATE mesh.sinks SET enabled = false WHERE address LIKE 'a%'")
	f.until("b.example:15010")
	db.Exec("UPDATE mesh.sinks SET enabled = true")
	f.until("a.example:9901", "b.example:15010")
	db.Exec("DELETE FROM mesh.sinks WHERE address LIKE 'b%'")
	f.until("a.example:9901")
	db.Exec("TRUNCATE mesh.sinks")
	f.until()
}

func TestALostNotificationOfSinksIsMadeUpFor(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	f := followSinks(t, url, 50*time.Millisecond)
	f.until()
	db.Exec("ALTER TABLE mesh.sinks DISABLE TRIGGER wake_servers; INSERT INTO mesh.sinks (address) VALUES ('a:1')")
	f.until("a:1")
}

func TestASinkIsDialledByOneProgram(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec("INSERT INTO mesh.sinks (address) VALUES ('a:1')")
	first := followSinks(t, url, 50*time.Millisecond)
	first.until("a:1")
	second := followSinks(t, url, 50*time.Millisecond)
	second.until()
	first.stop()
	second.until("a:1")
}

// A program that cannot reach a sink leaves it to one that can, and everybody sees which. Without
// another it goes on trying.
func TestASinkIsLeftToAProgramThatCanReachIt(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec("INSERT INTO mesh.sinks (address) VALUES ('a:1')")
	began := time.Now()
	dialling := func(name string, state sinks.State, seen chan<- []sinks.Status) *sinkFollower {
		return followSinks(t, url, 20*time.Millisecond, func(how *sinks.Options) {
			how.Server, how.LetGo, how.Rest = name, 50*time.Millisecond, 300*time.Millisecond
			how.States = func() map[string]sinks.State { return map[string]sinks.State{"a:1": state} }
			how.Seen = func(all []sinks.Status) {
				select {
				case seen <- all:
				default:
				}
			}
		})
	}
	cut := dialling("cut off", sinks.State{Since: began, Error: strings.Repeat("no route to host ", 1000)}, nil)
	cut.until("a:1")
	cut.until() // it lets go
	cut.until("a:1")
	seen := make(chan []sinks.Status)
	able := dialling("able", sinks.State{Connected: true, Since: began}, seen)
	go func() { // whoever is asked goes on
		for range cut.lists {
		}
	}()
	t.Cleanup(func() { cut.stop(); close(cut.lists) })
	able.until("a:1")
	go func() {
		for range able.lists {
		}
	}()
	t.Cleanup(func() { able.stop(); close(able.lists) })
	require.Eventually(t, func() bool {
		all := <-seen
		return len(all) == 2 && all[0].Server == "able" && all[0].Dials && all[0].Connected && all[0].Error == "" &&
			all[1].Server == "cut off" && !all[1].Dials && !all[1].Connected && all[1].LetGoAt != nil && strings.HasPrefix(all[1].Error, "no route to host")
	}, 20*time.Second, time.Millisecond)
	require.LessOrEqual(t, storetest.Value[int](db, "SELECT max(length(error)) FROM mesh.sink_status"), 1000)
	db.Exec("DELETE FROM mesh.sinks")
	require.Zero(t, storetest.Value[int64](db, "SELECT count(*) FROM mesh.sink_status"))
}

// The lock goes with the connection, and so does the sink, unless nobody else has taken it.
func TestSinksOutliveALostConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec("INSERT INTO mesh.sinks (address) VALUES ('a:1')")
	f := followSinks(t, url, time.Hour)
	f.until("a:1")
	db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgmesh sinks' AND datname = current_database()")
	f.until("a:1")
	db.Exec("INSERT INTO mesh.sinks (address) VALUES ('b:1')")
	f.until("a:1", "b:1")
}

func TestSinksThatCannotBeDialledAreRefused(t *testing.T) {
	t.Parallel()
	db := storetest.Connect(t, pgtest.New(t))
	for _, test := range []struct{ columns, values, message string }{
		{"address", "'pilot'", `sink "pilot": the address cannot be dialled`},
		{"address", "'pilot:0'", `sink "pilot:0": the address cannot be dialled`},
		{"address", "'pilot:65536'", `sink "pilot:65536": the address cannot be dialled`},
		{"address", "'::1:80'", `sink "::1:80": the address cannot be dialled`},
		{"address", "'xds://pilot:80'", `sink "xds://pilot:80": the address cannot be dialled`},
		{"address, metadata", "'a:1', '[]'", `sink "a:1": the metadata are no object`},
		{"address, metadata", `'a:1', '{"X": "1"}'`, `sink "a:1": metadata "X" cannot be sent`},
		{"address, metadata", `'a:1', '{"grpc-x": "1"}'`, `sink "a:1": metadata "grpc-x" cannot be sent`},
		{"address, metadata", `'a:1', '{"x-bin": "1"}'`, `sink "a:1": metadata "x-bin" cannot be sent`},
		{"address, metadata", `'a:1', '{"x": 1}'`, `sink "a:1": metadata "x" cannot be sent`},
		{"address, metadata", `'a:1', '{"x": "\n"}'`, `sink "a:1": metadata "x" cannot be sent`},
		{"address, server_id", `'a:1', 'pilot'`, `sink "a:1": server_id "pilot" is no SPIFFE id`},
	} {
		err := db.Refused("INSERT INTO mesh.sinks (" + test.columns + ") VALUES (" + test.values + ")")
		require.Equal(t, []string{"22023", test.message}, []string{err.Code, err.Message})
		require.NotEmpty(t, err.Hint)
	}
	db.Exec(`INSERT INTO mesh.sinks (address, metadata) VALUES ('[::1]:80', '{"authorization": "Bearer x", "a.b_c": ""}')`)
}

// What is sent to a sink may be a secret.
func TestSinksAreForOwnersAndServers(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	y.Owner.Exec(`INSERT INTO mesh.sinks (address, metadata) VALUES ('a:1', '{"authorization": "secret"}')`)
	tenant := y.Tenant("tenant", [2]string{"*", "write"})
	require.Zero(t, storetest.Value[int64](tenant, "SELECT count(*) FROM mesh.sink_status"), "nor anything of them")
	for _, sql := range []string{"SELECT * FROM mesh.sinks", "DELETE FROM mesh.sinks", "INSERT INTO mesh.sinks (address) VALUES ('b:1')"} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	role := y.Role("server")
	y.Owner.Exec("SELECT mesh.grant_server('" + role + "')")
	server := y.As(role)
	require.Equal(t, "a:1", storetest.Value[string](server, "SELECT address FROM mesh.sinks"))
	require.Equal(t, "a:1", storetest.Value[string](server, "SELECT address FROM mesh.sink_status"))
	require.Equal(t, "42501", server.Refused("UPDATE mesh.sinks SET enabled = false").Code)
}
