package feed_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// auditing makes the database note each row that is written, by means that have nothing to do with
// how the store notes it.
const auditing = `
CREATE TABLE audit (seq bigint GENERATED ALWAYS AS IDENTITY, xid xid8 DEFAULT pg_current_xact_id(), gone text[], row jsonb);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO public.audit (gone) VALUES (ARRAY[OLD.api_group, OLD.kind, OLD.namespace, OLD.name]);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO public.audit (row) VALUES (to_jsonb(NEW));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON mesh.resources FOR EACH ROW EXECUTE FUNCTION audit();`

// audited is what one transaction left behind of each resource that it wrote: nil for one that it
// deleted.
type audited map[kinds.Key]*store.Resource

// readAudit returns what each revision did, and how many transactions wrote something without
// becoming a revision.
func readAudit(t *testing.T, db storetest.Session) map[store.Revision]audited {
	t.Helper()
	rows, err := db.Conn.Query(t.Context(), `SELECT coalesce(t.revision, 0), a.gone, a.row || jsonb_build_object('revision', b.revision)
		FROM audit a LEFT JOIN mesh_internal.transactions t ON t.xid = a.xid
			LEFT JOIN mesh_internal.transactions b ON b.xid = (a.row ->> 'xid')::xid8 AND b.begun_at = (a.row ->> 'updated_at')::timestamptz ORDER BY a.seq`)
	require.NoError(t, err)
	all := map[store.Revision]audited{}
	var revision store.Revision
	var gone []string
	var row []byte
	_, err = pgx.ForEachRow(rows, []any{&revision, &gone, &row}, func() error {
		if all[revision] == nil {
			all[revision] = audited{}
		}
		if gone != nil {
			all[revision][auditedKey(t, gone)] = nil
			return nil
		}
		r := auditedRow(t, row)
		all[revision][r.Key] = r
		return nil
	})
	require.NoError(t, err)
	return all
}

func auditedKey(t *testing.T, k []string) kinds.Key {
	t.Helper()
	kind, ok := kinds.Lookup(k[0], k[1])
	require.True(t, ok)
	return kinds.Key{Kind: kind, Namespace: k[2], Name: k[3]}
}

func auditedRow(t *testing.T, text []byte) *store.Resource {
	t.Helper()
	var row struct {
		APIGroup string `json:"api_group"`
		Kind     string
		store.Resource
		Namespace, Name string
		CreatedAt       time.Time `json:"created_at"`
		UpdatedAt       time.Time `json:"updated_at"`
	}
	require.NoError(t, json.Unmarshal(text, &row))
	r := row.Resource
	r.Created, r.Updated = row.CreatedAt, row.UpdatedAt
	r.Key = auditedKey(t, []string{row.APIGroup, row.Kind, row.Namespace, row.Name})
	return &r
}

// comparable leaves out what the audit writes in another form.
func compared(r *store.Resource) any {
	if r == nil {
		return nil
	}
	var spec any
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return err
	}
	labels, annotations := r.Labels, r.Annotations
	if len(labels) == 0 {
		labels = nil
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return []any{r.Key.String(), spec, labels, annotations, r.Revision, r.Generation, r.Created.UnixMicro(), r.Updated.UnixMicro()}
}

// agree checks that after each batch the follower had what the tables had at that revision. Where a
// batch touched nothing the two states are what they were, so comparing what either touched
// compares all.
func agree(t *testing.T, batches []feed.Batch, audit map[store.Revision]audited) {
	t.Helper()
	followed, truth := storetest.State{}, storetest.State{}
	for i, b := range batches {
		require.Equal(t, store.Revision(i+1), b.Revision, "every revision, once, in order")
		require.NotEmpty(t, b.Changes)
		followed.Apply(t, b)
		for key, r := range audit[b.Revision] {
			truth[key] = r
			if r == nil {
				delete(truth, key)
			}
		}
		touched := audit[b.Revision]
		for _, c := range b.Changes {
			require.Contains(t, touched, c.Key, "revision %d did not touch it", b.Revision)
		}
		for key := range touched {
			require.Empty(t, cmp.Diff(compared(truth[key]), compared(followed[key])), "%s at revision %d", key, b.Revision)
		}
	}
}

// snapshots are states of the tables, read at some moment while others wrote.
type snapshots map[store.Revision]storetest.State

// observer takes snapshots, if nobody ends its session.
type observer struct {
	feed  *feed.Feed
	mu    sync.Mutex
	taken snapshots
}

func (o *observer) look(ctx context.Context) {
	rows := storetest.State{}
	at, err := o.feed.Snapshot(ctx, func(r *store.Resource) error {
		rows[r.Key] = r
		return nil
	})
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken[at.Revision] = rows
}

// agree checks that each was the state of its revision.
func (all snapshots) agree(t *testing.T, batches []feed.Batch) {
	t.Helper()
	followed := storetest.State{}
	for _, b := range batches {
		followed.Apply(t, b)
		if rows, taken := all[b.Revision]; taken {
			require.Empty(t, cmp.Diff(rows, followed), "the snapshot at revision %d", b.Revision)
		}
	}
}
