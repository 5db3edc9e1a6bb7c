package members

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// The number of records that are listed by default, and at most.
const (
	defaultIssues = 100
	maxIssues     = 10_000
)

// ListMachines lists the machines with a certificate in force.
func (s *Service) ListMachines(ctx context.Context, req *adminv1.ListMachinesRequest) (*adminv1.ListMachinesResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the machines")
	if err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.joined.Machines(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListMachinesResponse{}
	for _, m := range rows {
		resp.Machines = append(resp.Machines, &adminv1.Machine{
			Namespace: m.Namespace, Identity: m.Identity, Enrolment: m.Enrolment, IssuedAt: stamp.Of(m.Issued), NotAfter: stamp.Of(m.NotAfter),
			Serial: m.Serial, Authority: m.Authority, Server: m.Server, Peer: m.Peer, Revoked: m.Revoked,
		})
	}
	return resp, nil
}

// ListIssues lists certificates that were given, and requests that were refused.
func (s *Service) ListIssues(ctx context.Context, req *adminv1.ListIssuesRequest) (*adminv1.ListIssuesResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see who was given certificates")
	if err != nil {
		return nil, s.fail(err)
	}
	if req.GetLimit() < 0 || req.GetLimit() > maxIssues {
		return nil, status.Errorf(codes.InvalidArgument, "limit: %d is not between 1 and %d", req.GetLimit(), maxIssues)
	}
	filter := members.IssueFilter{
		Namespaces: namespaces, Identity: req.GetIdentity(), Enrolment: req.GetEnrolment(), Refused: req.GetRefused(), Limit: int(req.GetLimit()),
	}
	if filter.Limit == 0 {
		filter.Limit = defaultIssues
	}
	if t := req.GetSince(); t != nil {
		filter.After = t.AsTime()
	}
	rows, err := s.joined.Issues(ctx, filter)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListIssuesResponse{}
	for _, i := range rows {
		resp.Issues = append(resp.Issues, &adminv1.IssueRecord{
			At: stamp.Of(i.At), Server: i.Server, Refusal: i.Refusal, Detail: i.Detail, Identity: i.Identity, Enrolment: i.Enrolment, Serial: i.Serial,
			NotAfter: stamp.Of(i.NotAfter), Authority: i.Authority, Credential: i.Credential, Peer: i.Peer, KeyHash: hex.EncodeToString(i.KeyHash),
			FirstAt: stamp.Of(i.First), Times: i.Times,
		})
	}
	return resp, nil
}

// ListRevocations lists revocations, lifted ones too.
func (s *Service) ListRevocations(ctx context.Context, req *adminv1.ListRevocationsRequest) (*adminv1.ListRevocationsResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see who is revoked")
	if err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.trust.Revocations(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListRevocationsResponse{}
	for _, r := range rows {
		resp.Revocations = append(resp.Revocations, &adminv1.MemberRevocation{
			Member: memberOf(r), Reason: r.Reason, RevokedAt: stamp.Of(r.At), RevokedBy: r.By, LiftedAt: stamp.Of(r.Lifted), LiftedBy: r.Lifter,
		})
	}
	return resp, nil
}

// memberOf returns the member that a revocation is about. Identities are
// ns/NAMESPACE/sa/SERVICE-ACCOUNT or pgmesh/PROGRAM/NAME.
func memberOf(r trust.Revocation) *adminv1.Member {
	parts := strings.Split(r.Identity, "/")
	switch {
	case r.Enrolment != "":
		return &adminv1.Member{Enrolment: r.Enrolment, Namespace: r.Namespace}
	case len(parts) == 4:
		return &adminv1.Member{Namespace: parts[1], ServiceAccount: parts[3]}
	case len(parts) == 3:
		return &adminv1.Member{Program: parts[1], Name: parts[2]}
	}
	return &adminv1.Member{}
}

// RevokeMember revokes a membership.
func (s *Service) RevokeMember(ctx context.Context, req *adminv1.RevokeMemberRequest) (*adminv1.RevokeMemberResponse, error) {
	who, m := caller.From(ctx), req.GetMember()
	if err := s.mayRevoke(ctx, who, m); err != nil {
		return nil, s.fail(err)
	}
	var changed bool
	var err error
	switch {
	case m.GetEnrolment() != "":
		changed, err = s.trust.RevokeMachine(ctx, m.GetEnrolment(), req.GetReason(), who.Author())
	case m.GetProgram() != "":
		changed, err = s.trust.RevokeServer(ctx, m.GetProgram(), m.GetName(), req.GetReason(), who.Author())
	default:
		changed, err = s.trust.RevokeIdentity(ctx, m.GetNamespace(), m.GetServiceAccount(), req.GetReason(), who.Author())
	}
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.RevokeMemberResponse{Changed: changed, Pending: s.inForce(ctx)}
	s.log.Info("revoked a member of the mesh", "member", m, "reason", req.GetReason(), "by", who.Identity(), "not_yet_in_force_at", resp.Pending)
	return resp, nil
}

// inForceTimeout bounds the wait for a revocation to be in force. It is shorter than mcp-client's
// timeout.
const inForceTimeout = 5 * time.Second

// inForce waits until all servers enforce the revocation, and returns those that do not in time.
func (s *Service) inForce(ctx context.Context) []string {
	if s.authority == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inForceTimeout)
	defer cancel()
	return s.authority.InForce(ctx)
}

// RestoreMember lifts a revocation.
func (s *Service) RestoreMember(ctx context.Context, req *adminv1.RestoreMemberRequest) (*adminv1.RestoreMemberResponse, error) {
	who, m := caller.From(ctx), req.GetMember()
	if err := s.mayRevoke(ctx, who, m); err != nil {
		return nil, s.fail(err)
	}
	var restored bool
	var err error
	switch {
	case m.GetEnrolment() != "":
		restored, err = s.trust.RestoreMachine(ctx, m.GetEnrolment(), who.Author())
	case m.GetProgram() != "":
		restored, err = s.trust.RestoreServer(ctx, m.GetProgram(), m.GetName(), who.Author())
	default:
		restored, err = s.trust.RestoreIdentity(ctx, m.GetNamespace(), m.GetServiceAccount(), who.Author())
	}
	if err != nil {
		return nil, s.fail(err)
	}
	if !restored {
		return nil, status.Error(codes.NotFound, "it is not revoked: list the revocations")
	}
	s.log.Info("restored a member of the mesh", "member", m, "by", who.Identity())
	return &adminv1.RestoreMemberResponse{}, nil
}

// mayRevoke returns an error unless the caller may decide about a member. About a machine that it
// may not see, it gets the same error as about one that never joined.
func (s *Service) mayRevoke(ctx context.Context, who *caller.Caller, m *adminv1.Member) error {
	const what = "revoke or restore machines"
	enrolment, server, account := m.GetEnrolment() != "", m.GetProgram() != "" || m.GetName() != "", m.GetServiceAccount() != ""
	switch {
	case enrolment && !server && !account:
	case server && !enrolment && !account:
		return who.RequireUnlimited(caller.Admin)
	case account && !enrolment && !server:
		return who.RequireWithin(caller.Write, m.GetNamespace(), what)
	default:
		return status.Error(codes.InvalidArgument, "member: name one of an enrolment, a namespace with its service_account, and a program with its name")
	}
	namespace, err := s.trust.NamespaceOf(ctx, m.GetEnrolment())
	visible := err == nil && who.RequireWithin(caller.Read, namespace, what) == nil
	if _, invalid := err.(*store.InvalidError); invalid || err == nil && !visible { //nolint:errorlint // as the store returns it
		return status.Errorf(codes.NotFound, "no machine %q has ever joined: list the machines", m.GetEnrolment())
	}
	if err != nil {
		return err
	}
	if namespace == "" {
		return who.RequireUnlimited(caller.Admin)
	}
	return who.RequireWithin(caller.Write, namespace, what)
}
