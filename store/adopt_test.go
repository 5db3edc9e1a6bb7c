package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/housekeeping"
	"github.com/pgmesh/pgmesh/store/migration"
	"github.com/pgmesh/pgmesh/store/resources"
)

// stray writes a virtual service around the triggers, as an import does that turns them off.
func (s session) stray(name, host string) {
	s.T.Helper()
	s.Exec("SET session_replication_role = replica")
	s.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('networking.istio.io', 'VirtualService', $1, $2)`, name, virtualService(host))
	s.Exec("RESET session_replication_role")
}

func (s session) adopt() int64 {
	s.T.Helper()
	return value[int64](s, "SELECT adopted FROM mesh.adopt()")
}

// restoredAlone is a database into which nothing but the table of resources of another was
// restored, with its triggers off.
func restoredAlone(t *testing.T, from session, url string) (session, string) {
	t.Helper()
	dump, psql := from.Program("pg_dump"), from.Program("psql")
	dumped := storetest.Run(t, nil, dump, "-a", "-t", "mesh.resources", "--disable-triggers", "-d", url)
	restored := pgtest.New(t)
	storetest.Run(t, dumped, psql, "-qX", "-v", "ON_ERROR_STOP=1", "-d", restored)
	return connect(t, restored), restored
}

// age is what sets a resource apart from one that was written just now.
type age struct {
	Generation int64
	Created    time.Time
}

func (s session) ages() map[string]age {
	s.T.Helper()
	rows, err := s.Conn.Query(s.T.Context(), "SELECT name, generation, created_at FROM mesh.resources")
	require.NoError(s.T, err)
	all := map[string]age{}
	var name string
	var a age
	_, err = pgx.ForEachRow(rows, []any{&name, &a.Generation, &a.Created}, func() error {
		all[name] = a
		return nil
	})
	require.NoError(s.T, err)
	return all
}

func TestATableThatWasRestoredAloneBecomesARevision(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	from := connect(t, url)
	from.Put("a", "x")
	from.Put("a", "y")
	from.Put("b", "x")
	db, restored := restoredAlone(t, from, url)
	s := openURL(t, restored)
	followed := follow(t, s, 0)
	require.Zero(t, db.Newest())

	require.Equal(t, int64(2), db.adopt())
	batch := <-followed
	require.Equal(t, []any{int64(1), "mesh.adopt", "adopted 2 resources that came around the triggers, as out of a dump of their table"},
		[]any{batch.Revision, batch.Author, batch.Message})
	require.Len(t, batch.Changes, 2)
	require.Equal(t, from.ages(), db.ages(), "which of two is the older counts in many places")
	known := storetest.State{}
	known.Apply(t, batch)
	now, _ := storetest.Tables(t, storetest.Feed(t, s))
	require.Equal(t, now, known, "the feed tells what the table has")
	require.Equal(t, []string{"create", "create"}, collect[string](db, "SELECT operation FROM mesh.history WHERE revision = 1"))
	require.NotZero(t, value[int64](db, "SELECT count(*) FROM mesh_internal.links"), "what they say of each other is known")
	require.Zero(t, db.adopt())
	require.Equal(t, int64(1), db.Newest())
}

// Each of these ended the server before.
func TestRowsThatCameAroundTheTriggersCanBeChanged(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	for _, name := range []string{"changed", "applied", "deleted", "removed"} {
		db.stray(name, "x")
	}
	followed := follow(t, s, 0)
	db.Put("first", "x")
	<-followed

	db.Put("changed", "y")
	require.Equal(t, vs(t, "changed"), (<-followed).Changes[0].Before.Key)
	db.Exec("DELETE FROM mesh.resources WHERE name = 'deleted'")
	require.Nil(t, (<-followed).Changes[0].After)
	_, err := resources.New(s).Apply(t.Context(), resources.Apply{
		Upserts: []resources.Upsert{{Key: vs(t, "applied"), Spec: virtualService("y")}}, Deletes: []kinds.Key{vs(t, "removed")},
	})
	require.NoError(t, err)
	batch := <-followed
	require.Len(t, batch.Changes, 2)
	require.Zero(t, batch.Changes[0].Before.Revision)
	require.Zero(t, db.adopt())
	require.Equal(t, []string{"applied", "changed", "deleted", "removed"}, exported(t, s, 1), "what they were before stays known")
}

// exported is what the resources were called at a revision.
func exported(t *testing.T, s *store.Store, at store.Revision) (names []string) {
	t.Helper()
	_, err := resources.New(s).Export(t.Context(), resources.Selection{}, store.When(at), func(r *store.Resource) error {
		if r.Key.Name != "first" {
			names = append(names, r.Key.Name)
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

func TestARowThatIsPutBackOverTheHistoryIsAdopted(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	for _, name := range []string{"deleted", "changed", "kept"} {
		db.Put(name, "old")
	}
	db.Exec("CREATE TABLE public.dump AS TABLE mesh.resources")
	deleted := db.ages()["deleted"]
	db.Put("changed", "new")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'deleted'")
	before := db.Newest()
	known, _ := storetest.Tables(t, storetest.Feed(t, s))
	followed := follow(t, s, before)
	db.Exec(`SET session_replication_role = replica;
		TRUNCATE mesh.resources; INSERT INTO mesh.resources SELECT * FROM public.dump;
		RESET session_replication_role`)

	require.Equal(t, int64(2), db.adopt())
	known.Apply(t, <-followed)
	now, at := storetest.Tables(t, storetest.Feed(t, s))
	require.Equal(t, now, known)
	require.Equal(t, before+1, at)
	require.Equal(t, deleted, db.ages()["deleted"])
	require.Equal(t, []string{"changed update", "deleted create"},
		collect[string](db, "SELECT name || ' ' || operation FROM mesh.history WHERE revision = $1 ORDER BY 1", at))
	db.Exec("SELECT mesh.revert($1)", at)
	known.Apply(t, <-followed)
	now, _ = storetest.Tables(t, storetest.Feed(t, s))
	require.Equal(t, now, known)
	require.Equal(t, []string{"changed", "kept"}, collect[string](db, "SELECT name FROM mesh.resources ORDER BY 1"))
	require.Zero(t, db.adopt())
}

func TestRowsOfRunningTransactionsAreNotAdopted(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, other := connect(t, url), connect(t, url)
	db.stray("theirs", "x")
	db.stray("nobodys", "x")
	other.Exec("BEGIN")
	other.Put("theirs", "y")

	require.Equal(t, int64(1), db.adopt())
	other.Exec("COMMIT")
	require.Zero(t, db.adopt())
	require.Equal(t, []string{"nobodys 1", "theirs 2"}, collect[string](db, "SELECT name || ' ' || revision FROM mesh.history ORDER BY 1"))
}

// It was in force before anybody looked, and refusing it would change nothing but that nobody is
// told of it.
func TestInvalidRowsAreAdoptedToo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	db.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'first', '{}')")
	db.Exec(`SET session_replication_role = replica;
		INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES
			('core', 'MeshConfig', 'istio-system', 'second', '{}'),
			('networking.istio.io', 'DestinationRule', 'default', 'wrong', '{"host": "a", "trafficPolicy": {}}'),
			('networking.istio.io', 'VirtualService', 'default', 'hanging', '{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "b", "subset": "nowhere"}}]}]}'),
			('nobody.example', 'Strange', 'default', 'strange', '{}'),
			('networking.istio.io', 'WorkloadEntry', 'default', 'entry', '{"address": "10.0.0.1"}');
		RESET session_replication_role`)

	require.Equal(t, int64(5), db.adopt())
	require.Contains(t, db.unsound(), "wrong: spec.trafficPolicy: sets nothing")
	require.Contains(t, db.unchecked(s), "wrong")
	require.NotZero(t, value[int64](db, "SELECT count(*) FROM mesh.problems WHERE name = 'hanging'"))
	db.Exec("DELETE FROM mesh.resources WHERE name IN ('second', 'wrong')")
	require.Equal(t, "23514", db.Refused("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'third', '{}')").Code)
}

// An update around the triggers leaves what looks like what a trigger wrote, but for the history.
func TestAnUpdateAroundTheTriggersIsToldAndAdopted(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	const told = "SELECT concat_ws(': ', kind, name, difference) FROM mesh.check_installation()"
	for name, update := range map[string]string{
		"replica": `SET session_replication_role = replica; UPDATE mesh.resources SET spec = '{"hosts": ["b"], "htp": []}' WHERE name = '%s'; RESET session_replication_role`,
		"off":     `ALTER TABLE mesh.resources DISABLE TRIGGER USER; UPDATE mesh.resources SET spec = '{"hosts": ["b"], "htp": []}' WHERE name = '%s'; ALTER TABLE mesh.resources ENABLE TRIGGER USER`,
	} {
		db.Put(name, "a")
		db.Put(name+"-other", "a")
		before := db.Newest()
		db.Exec(fmt.Sprintf(update, name))
		require.Equal(t, []string{fmt.Sprintf("resource: VirtualService default/%s: is not what revision %d made it: somebody has changed it with triggers off", name, before-1)}, collect[string](db, told))
		require.Equal(t, before, db.Newest(), "who looks changes nothing")

		db.Exec(value[string](db, "SELECT substring(advice FROM 'run: ([^,]*)') FROM mesh.check_installation()"))
		require.Empty(t, collect[string](db, told))
		require.Zero(t, db.adopt())
		require.Equal(t, before+1, db.Newest())
		require.Equal(t, "adopted 1 resource that came around the triggers, as out of a dump of its table", value[string](db, "SELECT message FROM mesh.revisions WHERE revision = $1", before+1))
		require.Contains(t, db.unsound(), name+": spec.htp: unknown field \"htp\"")
		require.Equal(t, []string{name + `["a"] ["b"]`}, collect[string](db, "SELECT format('%s%s %s', name, before -> 'spec' ->> 'hosts', after -> 'spec' ->> 'hosts') FROM mesh.history WHERE revision = $1", before+1))
		require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources WHERE name = $1", name))
		db.Exec("SELECT mesh.revert($1)", before+1)
		require.Equal(t, "a", value[string](db, "SELECT spec -> 'hosts' ->> 0 FROM mesh.resources WHERE name = $1", name))
		require.Empty(t, collect[string](db, told))
	}
}

// The first of many are named. What was renamed is told too; what only triggers and migrations wrote is
// not, nor what the history does not reach back to.
func TestOnlyChangesAroundTheTriggersAreTold(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	const told = "SELECT name FROM mesh.check_installation()"
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'v' || i, $1 FROM generate_series(10, 35) i`, virtualService("a"))
	db.Put("undone", "a")
	db.Exec("BEGIN")
	db.Put("undone", "b")
	db.Exec("SAVEPOINT s")
	db.Put("undone", "a")
	require.Empty(t, collect[string](db, told), "of the running transaction")
	db.Exec("COMMIT; BEGIN; SAVEPOINT s")
	db.Put("nested", "a")
	db.Exec("RELEASE s; COMMIT")
	db.Exec("UPDATE mesh.resources SET labels = '{\"a\": \"b\"}' WHERE name = 'v10'")
	db.Exec("UPDATE mesh_internal.installation SET registry_digest = ''")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.Empty(t, collect[string](db, told))

	db.Exec("SET session_replication_role = replica")
	db.Exec("UPDATE mesh.resources SET annotations = '{\"a\": \"b\"}' WHERE name ~ '^v'; UPDATE mesh.resources SET name = 'named' WHERE name = 'nested'; RESET session_replication_role")
	names := collect[string](db, told)
	require.Len(t, names, 20)
	require.Equal(t, []string{"VirtualService default/named", "VirtualService default/v10"}, names[:2])
	require.Equal(t, "VirtualService default/v28, and 7 more", names[19])
	require.Equal(t, int64(27), db.adopt())
	require.Equal(t, []string{"VirtualService default/nested"}, collect[string](db, told), "the name that one had before")
	require.Equal(t, int64(1), db.adopt())
	require.Empty(t, collect[string](db, told))

	db.Exec("SET session_replication_role = replica; UPDATE mesh.resources SET annotations = '{}' WHERE name = 'v10'; RESET session_replication_role")
	require.Equal(t, []string{"VirtualService default/v10"}, collect[string](db, told))
	db.Put("last", "a")
	db.Exec("SELECT mesh.prune($1)", db.Newest())
	require.Empty(t, collect[string](db, told))
	require.Zero(t, db.adopt())
}

// Rows that are gone leave no trace but in the history, which is read only if there are too few.
func TestADeletionAroundTheTriggersIsToldAndAdopted(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	const told = "SELECT concat_ws(': ', kind, name, difference) FROM mesh.check_installation()"
	around := func(statement string) {
		db.Exec("SET session_replication_role = replica")
		db.Exec(statement)
		db.Exec("RESET session_replication_role")
	}
	for _, name := range []string{"a", "b", "c"} {
		db.Put(name, "old")
	}
	db.Put("a", "new")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'c'")
	require.Empty(t, collect[string](db, told))

	around("DELETE FROM mesh.resources WHERE name = 'a'")
	missing := []string{"resource: VirtualService default/a: is missing, and revision 4 left it: somebody has deleted it with triggers off"}
	require.Equal(t, missing, collect[string](db, told))
	db.Exec("BEGIN; DELETE FROM mesh.resources WHERE name = 'b'")
	require.Equal(t, missing, collect[string](db, told), "what the running transaction deletes is not missing")
	db.Exec("ROLLBACK")

	db.Exec(value[string](db, "SELECT substring(advice FROM 'run: ([^,]*)') FROM mesh.check_installation()"))
	require.Empty(t, collect[string](db, told))
	require.Zero(t, db.adopt())
	require.Equal(t, []string{`6 mesh.adopt adopted the deletion of 1 resource with triggers off: delete VirtualService default/a, generation 2, {"hosts": ["new"]}`}, collect[string](db, `
		SELECT format('%s %s %s: %s %s %s/%s, generation %s, {"hosts": %s}', h.revision, h.author, h.message, h.operation, h.kind, h.namespace, h.name, c.before_generation, h.before -> 'spec' -> 'hosts')
		FROM mesh.history h JOIN mesh_internal.recorded_changes c USING (revision, name) WHERE h.revision = mesh.newest_revision()`))
	db.Exec("SELECT mesh.revert(6)")
	require.Equal(t, "new", value[string](db, "SELECT spec -> 'hosts' ->> 0 FROM mesh.resources WHERE name = 'a'"))
	require.Empty(t, collect[string](db, told))

	around("DELETE FROM mesh.resources WHERE name IN ('a', 'b')")
	db.stray("d", "new")
	db.stray("e", "new")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'e'") // which was never counted
	require.Len(t, collect[string](db, told), 2)
	require.Equal(t, int64(3), db.adopt())
	require.Equal(t, "adopted 1 resource that came around the triggers, as out of a dump of its table, and the deletion of 2 resources with triggers off", value[string](db, "SELECT message FROM mesh.revisions WHERE revision = 9"))
	require.Zero(t, db.adopt())
}

// Neither what was pruned nor rows that were made again can be named or adopted. It is told that they are
// missing, until somebody takes it as it is.
func TestMissingRowsThatNobodyCanNameAreForgotten(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, name := range []string{"pruned", "again", "kept"} {
		db.Put(name, "a")
	}
	const told = "SELECT concat_ws(': ', name, difference, advice) FROM mesh.check_installation()"
	for _, known := range []string{"SELECT mesh.prune(2)", `INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'again', '` + string(virtualService("b")) + `'`} {
		name := value[string](db, "SELECT name FROM mesh.resources WHERE name IN ('pruned', 'again') ORDER BY name DESC LIMIT 1")
		db.Exec("SET session_replication_role = replica; DELETE FROM mesh.resources WHERE name = '" + name + "'; RESET session_replication_role")
		db.Exec(known)
		require.Equal(t, []string{"1 resource: missing, and the history does not know which any more: somebody has deleted as many with triggers off, or deleted and made them again: " +
			"restore them from a backup, if they are to be there; SELECT mesh.adopt() counts anew"}, collect[string](db, told), known)
		require.Zero(t, value[int64](db, "SELECT adopted FROM mesh.adopt(pg_current_xact_id())"), "a server that looks again")
		require.Len(t, collect[string](db, told), 1, known)
		require.Zero(t, db.adopt(), known)
		require.Empty(t, collect[string](db, told), known)
	}
}

func TestOnlyOwnersAndServersAdopt(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	require.Equal(t, "42501", y.tenant("nobody").Refused("SELECT mesh.adopt()").Code)
}

// What was looked at is not looked at again, and nothing that comes later is missed.
func TestAnAdopterGoesOnWhereItHasLooked(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("a", "x")
	adopter := housekeeping.Adopter{Store: housekeeping.New(s)}
	for _, name := range []string{"one", "two"} {
		db.Exec("CREATE TABLE public." + name + " AS TABLE mesh.resources")
		require.True(t, adopter.Missed(housekeeping.Chores{}), "a database that counts nothing is looked at each time")
		adopted, err := adopter.Adopt(t.Context(), housekeeping.Chores{Inserted: 7})
		require.NoError(t, err)
		require.Zero(t, adopted)
		require.False(t, adopter.Missed(housekeeping.Chores{Inserted: 7}))
		require.True(t, adopter.Missed(housekeeping.Chores{Inserted: 8}))

		db.Put("a", name)
		db.Exec("SET session_replication_role = replica; TRUNCATE mesh.resources; INSERT INTO mesh.resources SELECT * FROM public." + name + "; RESET session_replication_role")
		adopted, err = adopter.Adopt(t.Context(), housekeeping.Chores{Inserted: 8})
		require.NoError(t, err)
		require.Equal(t, int64(1), adopted)
	}
}

// Strays come and go and are adopted while others write the same resources: whoever follows ends with what
// the table has.
func TestAdoptingWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	const rounds, names = 120, 6
	seed := storetest.Seed(t)
	var group errgroup.Group
	for i, do := range []func(by session, name, host string){
		func(by session, name, host string) { by.Put(name, host) },
		func(by session, name, _ string) { by.Exec("DELETE FROM mesh.resources WHERE name = $1", name) },
		func(by session, name, host string) {
			by.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('networking.istio.io', 'VirtualService', $1, $2) ON CONFLICT DO NOTHING`, name, virtualService(host))
		},
		func(by session, name, _ string) { by.Exec("DELETE FROM mesh.resources WHERE name = $1", name) },
		func(by session, _, _ string) { by.adopt() },
	} {
		dice, by := rand.New(rand.NewPCG(seed, uint64(i))), connect(t, url)
		if i == 2 || i == 3 {
			by.Exec("SET session_replication_role = replica")
		}
		group.Go(func() error {
			for range rounds {
				do(by, fmt.Sprint("v", dice.IntN(names)), fmt.Sprint("h", dice.IntN(3)))
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for adopted := db.adopt(); adopted > 0; { // what came makes up for what went, until it is adopted
		adopted = db.adopt()
	}
	require.Equal(t, value[int64](db, "SELECT count(*) FROM mesh.resources"), value[int64](db, "SELECT resources FROM mesh_internal.transactions WHERE revision = mesh.newest_revision()"))

	now, last := storetest.Tables(t, storetest.Feed(t, s))
	known := storetest.State{}
	for followed := follow(t, s, 0); last > 0; {
		batch := <-followed
		for _, c := range batch.Changes {
			if known[c.Key] = c.After; c.After == nil {
				delete(known, c.Key)
			}
		}
		if batch.Revision == last {
			break
		}
	}
	require.Equal(t, now, known)
}
