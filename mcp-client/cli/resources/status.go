package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// statuses asks what became of resources. It says nothing of a server that cannot tell, such as one
// of others: the user asked for the resources.
func (p program) statuses(ctx context.Context, of []*kinds.Resource) output.Statuses {
	if p.Output.Format == output.Name || len(of) == 0 {
		return nil
	}
	all, reported := p.statusesOf(ctx, of)
	if p.Output.IsTable() && !reported {
		return nil
	}
	return all
}

// statusesOf is statuses, with whether discoveries report on any of the resources.
func (p program) statusesOf(ctx context.Context, of []*kinds.Resource) (all output.Statuses, reported bool) {
	resp, err := session.Call(ctx, p.Session, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListStatus, aboutAll(of))
	if err != nil {
		if !failure.IsNotTold(err) {
			fmt.Fprintln(p.Err, "warning: which proxies run this is not known:", err)
		}
		return nil, false
	}
	all = output.Statuses{}
	for _, sent := range resp.GetStatuses() {
		ref := sent.GetResource()
		kind, known := kinds.Lookup(ref.GetGroup(), ref.GetKind())
		if !known {
			continue
		}
		status := statusOf(sent)
		all[kinds.Key{Kind: kind, Namespace: ref.GetNamespace(), Name: ref.GetName()}] = status
		reported = reported || slices.ContainsFunc(status.Conditions, func(c output.Condition) bool {
			return c.Type == output.Programmed && c.Reason != notReported
		})
	}
	return all, reported
}

// notReported is the reason of Programmed where no discovery reports.
const notReported = "NotReported"

// aboutAll asks about resources by all their kinds, namespaces and, if they are few, names.
func aboutAll(of []*kinds.Resource) *adminv1.ListStatusRequest {
	const few = 20
	req := &adminv1.ListStatusRequest{}
	var all []*kinds.Kind
	for _, r := range of {
		all = append(all, r.Kind)
		if r.Namespace != "" {
			req.Namespaces = append(req.Namespaces, r.Namespace)
		}
		if len(of) <= few {
			req.Names = append(req.Names, r.Name)
		}
	}
	req.Kinds = arguments.FullNames(arguments.Distinct(all))
	req.Namespaces, req.Names = arguments.Distinct(req.GetNamespaces()), arguments.Distinct(req.GetNames())
	if slices.ContainsFunc(of, func(r *kinds.Resource) bool { return r.Namespace == "" }) {
		req.Namespaces = nil
	}
	return req
}

func statusOf(sent *adminv1.ResourceStatus) *output.Status {
	s := &output.Status{
		ObservedRevision: sent.GetObservedRevision(), Conditions: []output.Condition{},
		Proxies: output.Counts{Concerned: sent.GetConcerned(), Running: sent.GetRunning(), Refusing: sent.GetRefusing()}, Own: sent.GetStatus().AsMap(),
	}
	for _, c := range sent.GetConditions() {
		s.Conditions = append(s.Conditions, output.Condition{
			Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: c.GetMessage(),
			LastTransitionTime: output.TimeOf(c.GetLastTransitionAt()), ObservedGeneration: sent.GetObservedRevision(),
		})
	}
	return s
}
