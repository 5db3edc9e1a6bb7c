// Package mesh is the mesh that a provider changes: the admin API of its mcp-server.
package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Mesh is reached through one connection.
type Mesh struct {
	Session *session.Session // whose settings were completed
	Message string           // why changes are made, to be kept with the revisions

	told atomic.Int32 // how many drifts were told

	conn  *grpc.ClientConn
	admin adminv1.AdminServiceClient
}

// Connect returns a mesh. The connection is made by the first call.
func Connect(s *session.Session, message string) (*Mesh, error) {
	conn, err := s.Server.Connect()
	if err != nil {
		return nil, err
	}
	return &Mesh{Session: s, Message: message, conn: conn, admin: adminv1.NewAdminServiceClient(conn)}, nil
}

// Resource is a resource as it is stored, or as it is to be.
type Resource struct {
	Key                 kinds.Key
	Labels, Annotations map[string]string
	Spec                map[string]any // a tree of JSON
	Revision            int64          // that changed it last; 0: there is none
}

// ErrAbsent means that there is no such resource.
var ErrAbsent = errors.New("there is no such resource")

func call[Req, Resp any](ctx context.Context, m *Mesh, method func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), req *Req) (*Resp, error) {
	return explainedCall(ctx, m, method, req, m.explain)
}

func explainedCall[Req, Resp any](
	ctx context.Context, m *Mesh, method func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), req *Req, explain func(error) error,
) (*Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Session.Server.Timeout)
	defer cancel()
	answer, err := method(ctx, req)
	if err != nil {
		return nil, explain(err)
	}
	return answer, nil
}

// explain turns an error of a call into one that tells the user what to do.
func (m *Mesh) explain(err error) error {
	switch status.Code(err) {
	case codes.NotFound:
		return ErrAbsent
	case codes.AlreadyExists, codes.FailedPrecondition:
		return errors.New(status.Convert(err).Message())
	}
	return m.Session.Server.Explain(err)
}

// decides is explain for a change. If the server did not answer in time, it says where to see whether the change was
// made.
func (m *Mesh) decides(dryRun bool, see string) func(error) error {
	return func(err error) error {
		if dryRun || status.Code(err) != codes.DeadlineExceeded {
			return m.explain(err)
		}
		return fmt.Errorf("%w: %s shows it, and so does the next plan", m.Session.Server.Undecided(), see)
	}
}

// Get reads a resource. The error is ErrAbsent if there is none.
func (m *Mesh) Get(ctx context.Context, key kinds.Key) (*Resource, error) {
	answer, err := call(ctx, m, m.admin.Get, &adminv1.GetRequest{Resource: connect.RefOf(key)})
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(answer.GetResource().GetSpec())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	tree, err := spec.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	members, _ := tree.(map[string]any)
	metadata := answer.GetResource().GetMetadata()
	return &Resource{Key: key, Labels: metadata.GetLabels(), Annotations: metadata.GetAnnotations(), Spec: members, Revision: metadata.GetResourceVersion()}, nil
}

// Change is what came of a change.
type Change struct {
	Revision int64 // 0 if nothing changed
	Warnings problems.Warnings
}

// Apply makes a resource what it says. Its Revision is the one that the resource must be at.
func (m *Mesh) Apply(ctx context.Context, r *Resource, dryRun bool) (*Change, error) {
	document, err := r.document()
	if err != nil {
		return nil, err
	}
	answer, err := explainedCall(ctx, m, m.admin.Apply, &adminv1.ApplyRequest{
		Documents: []*adminv1.Document{document}, Message: m.Message, Author: change.Author(), DryRun: dryRun,
		Expected: []*adminv1.ExpectedRevision{{Resource: connect.RefOf(r.Key), Revision: r.Revision}},
	}, m.decides(dryRun, HistoryOf(r.Key)))
	if err != nil {
		return nil, err
	}
	return &Change{answer.GetRevision(), problems.WarningsOf(answer)}, nil
}

// document writes the resource as it is sent.
func (r *Resource) document() (*adminv1.Document, error) {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", r.Key, err)
	}
	return change.SentDocument(&kinds.Document{Spec: spec, Resource: &kinds.Resource{
		Kind: r.Key.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name, Labels: r.Labels, Annotations: r.Annotations,
	}}, "")
}

// Delete removes a resource, if there is one. It must be at a revision, unless that is 0.
func (m *Mesh) Delete(ctx context.Context, key kinds.Key, at int64, dryRun bool) (*Change, error) {
	req := &adminv1.DeleteRequest{
		Resources: []*adminv1.ResourceRef{connect.RefOf(key)}, AllowMissing: true, Message: m.Message, Author: change.Author(), DryRun: dryRun,
	}
	if at > 0 {
		req.Expected = []*adminv1.ExpectedRevision{{Resource: connect.RefOf(key), Revision: at}}
	}
	answer, err := explainedCall(ctx, m, m.admin.Delete, req, m.decides(dryRun, HistoryOf(key)))
	if err != nil {
		return nil, err
	}
	return &Change{answer.GetRevision(), problems.WarningsOf(answer)}, nil
}

// Problems lists what is wrong between resources; of all namespaces if none is named.
func (m *Mesh) Problems(ctx context.Context, namespaces []string) ([]problems.Problem, error) {
	answer, err := call(ctx, m, m.admin.Problems, &adminv1.ProblemsRequest{Namespaces: namespaces})
	if err != nil {
		return nil, err
	}
	return problems.Of(answer.GetProblems()), nil
}

// Wait waits until connected proxies run the newest revision. enough and timeout are as of
// mcp-client's --wait and --wait-timeout, and may be "".
func (m *Mesh) Wait(ctx context.Context, enough, timeout string) (*adminv1.WaitUntilRunResponse, error) {
	return change.WaitFor(ctx, &m.Session.Server, enough, timeout)
}
