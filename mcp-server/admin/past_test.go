package admin_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x"})
	b.apply(map[string]string{"s2/a": "x"})
	b.apply(map[string]string{"s1/a": "y", "s2/a": "y"})

	all, err := b.admin.History(t.Context(), &adminv1.HistoryRequest{PageSize: 2})
	require.NoError(t, err)
	require.Len(t, all.GetRevisions(), 2)
	newest := all.GetRevisions()[0]
	require.NotNil(t, newest.GetTime())
	newest.Time = nil
	require.Empty(t, cmp.Diff(&adminv1.Revision{
		Revision: 3, Author: "ada", Application: "test/1", Message: "because", Size: 2,
		Changes: []*adminv1.Change{{Resource: refIn("s1", "a"), Operation: "update"}, {Resource: refIn("s2", "a"), Operation: "update"}},
	}, newest, protocmp.Transform()))
	rest, err := b.admin.History(t.Context(), &adminv1.HistoryRequest{PageSize: 2, PageToken: all.GetNextPageToken()})
	require.NoError(t, err)
	require.Len(t, rest.GetRevisions(), 1)
	require.Empty(t, rest.GetNextPageToken())

	of, err := b.admin.History(t.Context(), &adminv1.HistoryRequest{Kinds: []string{"vs"}, Namespaces: []string{"s1"}, Names: []string{"a"}, Documents: true})
	require.NoError(t, err)
	require.Len(t, of.GetRevisions(), 2)
	change := of.GetRevisions()[0].GetChanges()
	require.Len(t, change, 1, "of the revision only what was asked for")
	require.Equal(t, "x", change[0].GetBefore().GetSpec().GetFields()["hosts"].GetListValue().GetValues()[0].GetStringValue())
	require.Equal(t, "y", change[0].GetAfter().GetSpec().GetFields()["hosts"].GetListValue().GetValues()[0].GetStringValue())
	one, err := b.admin.History(t.Context(), &adminv1.HistoryRequest{Revision: 2})
	require.NoError(t, err)
	require.Equal(t, "create", one.GetRevisions()[0].GetChanges()[0].GetOperation())
	none, err := b.admin.History(t.Context(), &adminv1.HistoryRequest{Since: timestamppb.New(time.Now().Add(time.Hour))})
	require.NoError(t, err)
	require.Empty(t, none.GetRevisions())

	_, err = b.admin.History(t.Context(), &adminv1.HistoryRequest{
		Kinds: []string{"nothing"}, PageToken: all.GetNextPageToken(), Revision: -1, Since: &timestamppb.Timestamp{Nanos: -1}, Message: strings.Repeat("x", 9000),
	})
	require.Equal(t, []string{"kinds[0]", "message", "since", "revision", "page_token"}, badFields(t, err))
}

// diff reads what differs, a line a field.
func (b *bundle) diff(req *adminv1.DiffRequest) (lines []string, err error) {
	b.t.Helper()
	stream, err := b.admin.Diff(b.t.Context(), req)
	require.NoError(b.t, err)
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		if len(lines) == 0 {
			lines = append(lines, fmt.Sprint(got.GetFrom(), "..", got.GetTo()))
		}
		for _, r := range got.GetResources() {
			for _, f := range r.GetFields() {
				lines = append(lines, fmt.Sprintf("%s %s/%s %s: %v -> %v", r.GetOperation(), r.GetResource().GetNamespace(), r.GetResource().GetName(),
					f.GetPath(), f.GetBefore().AsInterface(), f.GetAfter().GetStringValue()))
			}
		}
	}
}

func TestDiffOverTheWire(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x", "s2/a": "x"})
	b.apply(map[string]string{"s1/a": "y", "s2/a": "y"})

	lines, err := b.diff(&adminv1.DiffRequest{From: &adminv1.DiffRequest_FromRevision{FromRevision: 1}, Namespaces: []string{"s2"}})
	require.NoError(t, err)
	require.Equal(t, []string{"1..2", "update s2/a spec.hosts[0]: x -> y", "update s2/a spec.http[0].route[0].destination.host: x -> y"}, lines)
	lines, err = b.diff(&adminv1.DiffRequest{From: &adminv1.DiffRequest_FromRevision{}, To: &adminv1.DiffRequest_ToRevision{ToRevision: 2}})
	require.NoError(t, err)
	require.Len(t, lines, 3)
	require.Contains(t, lines[1], "create s1/a : <nil>")
	_, err = b.diff(&adminv1.DiffRequest{})
	require.Equal(t, []string{"from"}, badFields(t, err))
	_, err = b.diff(&adminv1.DiffRequest{From: &adminv1.DiffRequest_FromRevision{FromRevision: 9}})
	require.Equal(t, codes.OutOfRange, status.Code(err))
}

func TestALargeDiffComesInPortions(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	b := startAPI(t, database)
	execute(t, database, `INSERT INTO mesh.destination_rules (name, host) SELECT 'dr-' || i, 'h' FROM generate_series(1, 1000) i`)
	stream, err := b.admin.Diff(t.Context(), &adminv1.DiffRequest{From: &adminv1.DiffRequest_FromRevision{}})
	require.NoError(t, err)
	portions, resources := 0, 0
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		portions++
		resources += len(got.GetResources())
	}
	require.Equal(t, []int{6, 1000}, []int{portions, resources})
}

func TestBlameOverTheWire(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x"})
	execute(t, b.database, `UPDATE mesh.virtual_services SET hosts = '{y}' WHERE namespace = 's1'`)

	got, err := b.admin.Blame(t.Context(), &adminv1.BlameRequest{Resource: refIn("s1", "a")})

	require.NoError(t, err)
	require.Len(t, got.GetFields(), 2)
	require.Equal(t, "spec.hosts[0]", got.GetFields()[0].GetPath())
	require.Equal(t, "y", got.GetFields()[0].GetValue().GetStringValue())
	require.Equal(t, int64(2), got.GetFields()[0].GetRevision())
	require.Equal(t, "ada", got.GetFields()[1].GetAuthor())
	_, err = b.admin.Blame(t.Context(), &adminv1.BlameRequest{Resource: refIn("s2", "a")})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestRestoreOverTheWire(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x", "s2/a": "x"})
	b.apply(map[string]string{"s1/a": "y", "s2/a": "y", "s2/b": "y"})
	to := &adminv1.RestoreRequest_Revision{Revision: 1}

	planned, err := b.admin.Restore(t.Context(), &adminv1.RestoreRequest{To: to, DryRun: true})
	require.NoError(t, err)
	require.Len(t, planned.GetOutcomes(), 3)
	require.Zero(t, planned.GetRevision())
	done, err := b.admin.Restore(t.Context(), &adminv1.RestoreRequest{To: to, Namespaces: []string{"s2"}, Author: "bob"})
	require.NoError(t, err)
	done.Warnings, done.OmittedWarnings = nil, 0
	require.Empty(t, cmp.Diff(&adminv1.RestoreResponse{Revision: 3, Outcomes: []*adminv1.Outcome{
		{Resource: refIn("s2", "a"), Action: adminv1.Outcome_ACTION_CONFIGURED}, {Resource: refIn("s2", "b"), Action: adminv1.Outcome_ACTION_DELETED},
	}}, done, protocmp.Transform()))
	last := b.batches(3)[2]
	require.Equal(t, []string{"bob", "restore to revision 1"}, []string{last.Author, last.Message})
	_, err = b.admin.Restore(t.Context(), &adminv1.RestoreRequest{})
	require.Equal(t, []string{"to"}, badFields(t, err))
}

func TestRevertOverTheWire(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x", "s2/a": "x"})
	b.apply(map[string]string{"s1/a": "y", "s2/a": "y"})
	b.apply(map[string]string{"s2/a": "z"})

	got, err := b.admin.Revert(t.Context(), &adminv1.RevertRequest{Revision: 2, Message: "no"})

	require.NoError(t, err)
	got.Warnings, got.OmittedWarnings = nil, 0
	require.Empty(t, cmp.Diff(&adminv1.RevertResponse{Revision: 4, Resources: []*adminv1.Reverted{
		{Resource: refIn("s1", "a"), Outcome: "reverted"}, {Resource: refIn("s2", "a"), Outcome: "conflict", ChangedBy: 3},
	}}, got, protocmp.Transform()))
	_, err = b.admin.Revert(t.Context(), &adminv1.RevertRequest{})
	require.Equal(t, []string{"revision"}, badFields(t, err))
	_, err = b.admin.Revert(t.Context(), &adminv1.RevertRequest{Revision: 9})
	require.Equal(t, codes.OutOfRange, status.Code(err))
}
