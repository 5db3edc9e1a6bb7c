// Package identity has the commands that say who belongs to a mesh: tokens, members, machines,
// authorities, other meshes.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// memberForms are the ways to name members of the mesh.
const memberForms = "NAMESPACE/SERVICE-ACCOUNT, an enrolment such as m-abcdefgh234567ab, or pgmesh/discovery/NAME for a server"

// Identity returns the command identity.
func Identity(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "identity",
		Short: "See who belongs to the mesh, and revoke who should not",
		Long: `See who belongs to the mesh, and revoke who should not.

A machine has an identity, which is its namespace and service account, and an enrolment, which is that one machine from when it joined
on. Both can be revoked. Who is revoked is given no certificate and no configuration from the same second on; its certificate is good for
other machines until it ends, within a day, unless the identity as a whole is revoked: then every proxy refuses it.

It takes the scope read of the namespace, and write to revoke; servers are an administrator's.`,
	}, p.listIdentitiesCommand(), p.identityLogCommand(), p.revokeIdentityCommand(), p.restoreIdentityCommand())
}

// machine is the printed form of a machine with a certificate.
type machine struct {
	Namespace string     `json:"namespace,omitempty"`
	Identity  string     `json:"identity"`
	Enrolment string     `json:"enrolment"`
	Issued    *time.Time `json:"issuedAt,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"`
	Serial    string     `json:"serial,omitempty"`
	Authority string     `json:"authority,omitempty"`
	Server    string     `json:"server,omitempty"`
	Peer      string     `json:"peer,omitempty"`
	Revoked   bool       `json:"revoked"`
}

func (p program) listIdentitiesCommand() *cobra.Command {
	var revoked bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who has a certificate, or with --revoked, who is revoked",
		Long: `List who has a certificate that has not ended, and whether it is revoked. Servers, which have no namespace, are listed with -A.

--revoked lists the revocations in their place, also of those that have no certificate any more, and those that were lifted.`,
		Example: `  mcp-client identity list -A
  mcp-client identity list -n shop -o wide
  mcp-client identity list -A --revoked`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if revoked {
				return p.listRevocations(cmd.Context())
			}
			return p.listMachines(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&revoked, "revoked", false, "list the revocations")
	return cmd
}

func (p program) listMachines(ctx context.Context) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.ListMachines, &adminv1.ListMachinesRequest{Namespaces: p.Namespace.Requested()})
	if err != nil {
		return err
	}
	list := []machine{}
	for _, m := range resp.GetMachines() {
		list = append(list, machine{
			m.GetNamespace(), m.GetIdentity(), m.GetEnrolment(), output.TimeOf(m.GetIssuedAt()), output.TimeOf(m.GetNotAfter()), m.GetSerial(), m.GetAuthority(), m.GetServer(), m.GetPeer(), m.GetRevoked(),
		})
	}
	out := output.Listing{Tree: list, Columns: []string{"IDENTITY", "ENROLMENT", "STATE", "ISSUED", "EXPIRES"}, Wide: []string{"FROM", "BY", "SERIAL", "AUTHORITY"}}
	for _, m := range list {
		state := "valid"
		if m.Revoked {
			state = "revoked"
		}
		out.Add(cmp.Or(m.Enrolment, m.Identity), m.Identity, words.OrDash(m.Enrolment), state, words.ShortTime(m.Issued), words.ShortTime(m.NotAfter),
			words.OrDash(m.Peer), words.OrDash(m.Server), words.OrDash(m.Serial), words.OrDash(shortHash(m.Authority)))
	}
	return p.PrintListing(out)
}

// shortHash returns enough of a fingerprint to recognize it.
func shortHash(text string) string { return text[:min(len(text), 16)] }

// revocation is the printed form of a present or past revocation.
type revocation struct {
	Member  string     `json:"member"`
	Reason  string     `json:"reason,omitempty"`
	At      *time.Time `json:"revokedAt,omitempty"`
	By      string     `json:"revokedBy,omitempty"`
	Lifted  *time.Time `json:"liftedAt,omitempty"`
	Lifting string     `json:"liftedBy,omitempty"`
}

func (p program) listRevocations(ctx context.Context) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.ListRevocations, &adminv1.ListRevocationsRequest{Namespaces: p.Namespace.Requested()})
	if err != nil {
		return err
	}
	list := []revocation{}
	for _, r := range resp.GetRevocations() {
		list = append(list, revocation{memberName(r.GetMember()), r.GetReason(), output.TimeOf(r.GetRevokedAt()), r.GetRevokedBy(), output.TimeOf(r.GetLiftedAt()), r.GetLiftedBy()})
	}
	out := output.Listing{Tree: list, Columns: []string{"MEMBER", "STATE", "SINCE", "BY", "REASON"}, Wide: []string{"LIFTED", "LIFTED BY"}}
	for _, r := range list {
		state := "revoked"
		if r.Lifted != nil {
			state = "restored"
		}
		out.Add(r.Member, r.Member, state, words.ShortTime(r.At), r.By, words.OrDash(r.Reason), words.ShortTime(r.Lifted), words.OrDash(r.Lifting))
	}
	return p.PrintListing(out)
}

// memberName returns the name of a member, in one of memberForms.
func memberName(m *adminv1.Member) string {
	switch {
	case m.GetEnrolment() != "":
		return m.GetEnrolment()
	case m.GetProgram() != "":
		return "pgmesh/" + m.GetProgram() + "/" + m.GetName()
	}
	return m.GetNamespace() + "/" + m.GetServiceAccount()
}

// memberOf parses the name of a member. It may also be a SPIFFE ID.
func memberOf(text string) (*adminv1.Member, error) {
	path := text
	if rest, isID := strings.CutPrefix(text, "spiffe://"); isID {
		_, path, _ = strings.Cut(rest, "/")
		path = strings.TrimPrefix(strings.Replace(path, "/sa/", "/", 1), "ns/")
	}
	switch parts := strings.Split(path, "/"); {
	case strings.Contains(path, "//") || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || path == "":
	case len(parts) == 1:
		return &adminv1.Member{Enrolment: path}, nil
	case len(parts) == 2:
		return &adminv1.Member{Namespace: parts[0], ServiceAccount: parts[1]}, nil
	case len(parts) == 3 && parts[0] == "pgmesh":
		return &adminv1.Member{Program: parts[1], Name: parts[2]}, nil
	}
	return nil, fmt.Errorf("%q names nobody: write %s", text, memberForms)
}

// issueRecord is the printed form of a certificate that was issued or refused.
type issueRecord struct {
	At         *time.Time `json:"at,omitempty"`
	Server     string     `json:"server"`
	Refusal    string     `json:"refusal,omitempty"`
	Detail     string     `json:"detail,omitempty"`
	Identity   string     `json:"identity,omitempty"`
	Enrolment  string     `json:"enrolment,omitempty"`
	Serial     string     `json:"serial,omitempty"`
	NotAfter   *time.Time `json:"notAfter,omitempty"`
	Authority  string     `json:"authority,omitempty"`
	Credential string     `json:"credential,omitempty"`
	Peer       string     `json:"peer,omitempty"`
	KeyHash    string     `json:"keyHash,omitempty"`
	FirstAt    *time.Time `json:"firstAt,omitempty"`
	Times      int64      `json:"times,omitempty"`
}

func (p program) identityLogCommand() *cobra.Command {
	req := &adminv1.ListIssuesRequest{}
	var since string
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List which certificates were given, and which were refused and why",
		Long: `List which certificates were given, and which were refused and why, the newest first. What names nobody, such as a token that there is not,
is of no namespace: it is listed with -A. Refusals of an hour that are alike, and come from one address, are one line with how many they were.`,
		Example: `  mcp-client identity log -A --refused --since 24h
  mcp-client identity log -A --machine m-abcdefgh234567ab -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				at, err := arguments.ParseTime(since)
				if err != nil {
					return failure.Usage(cmd, fmt.Errorf("--since: %w", err))
				}
				req.Since = timestamppb.New(at)
			}
			req.Namespaces = p.Namespace.Requested()
			return p.identityLog(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVar(&req.Refused, "refused", false, "only what was refused")
	cmd.Flags().StringVar(&req.Enrolment, "machine", "", "only of one machine, by its enrolment")
	cmd.Flags().StringVar(&req.Identity, "identity", "", "only of one identity, by its SPIFFE id")
	cmd.Flags().StringVar(&since, "since", "", "from when on: "+arguments.TimeHelp)
	cmd.Flags().Int32Var(&req.Limit, "limit", 100, "how many at most")
	return cmd
}

func (p program) identityLog(ctx context.Context, req *adminv1.ListIssuesRequest) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.ListIssues, req)
	if err != nil {
		return err
	}
	list := []issueRecord{}
	for _, i := range resp.GetIssues() {
		list = append(list, issueRecord{
			output.TimeOf(i.GetAt()), i.GetServer(), i.GetRefusal(), i.GetDetail(), i.GetIdentity(), i.GetEnrolment(), i.GetSerial(), output.TimeOf(i.GetNotAfter()), i.GetAuthority(),
			i.GetCredential(), i.GetPeer(), i.GetKeyHash(), output.TimeOf(i.GetFirstAt()), i.GetTimes(),
		})
	}
	out := output.Listing{Tree: list, Columns: []string{"TIME", "TIMES", "OUTCOME", "IDENTITY", "ENROLMENT", "SHOWN", "FROM", "DETAIL"}, Wide: []string{"EXPIRES", "BY", "SERIAL", "AUTHORITY", "KEY"}}
	for _, i := range list {
		out.Add(cmp.Or(i.Serial, i.Refusal), i.At.UTC().Format(time.RFC3339), strconv.FormatInt(max(i.Times, 1), 10), cmp.Or(i.Refusal, "given"), words.OrDash(i.Identity), words.OrDash(i.Enrolment), words.OrDash(i.Credential), words.OrDash(i.Peer), words.OrDash(i.Detail),
			words.ShortTime(i.NotAfter), i.Server, words.OrDash(i.Serial), words.OrDash(shortHash(i.Authority)), words.OrDash(shortHash(i.KeyHash)))
	}
	return p.PrintListing(out)
}

func (p program) revokeIdentityCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke MEMBER...",
		Short: "Revoke machines, identities or servers",
		Long: `Revoke members of the mesh: ` + memberForms + `.

It answers when that is in force: when each mcp-server goes by it, and the discoveries that follow them were told. If some do not after a few
seconds it names them and fails; the revocation is recorded then, and counts for them as soon as they have read it.

Streams to discovery are ended and certificates refused at once. An identity that is revoked is refused by every proxy, too; one machine of
several is good for the others until its certificate ends. To keep a machine from joining anew, revoke its join token as well.`,
		Example: `  mcp-client identity revoke m-abcdefgh234567ab --reason "the laptop was stolen"
  mcp-client identity revoke default/reviews --reason "its key was in a backup"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.eachMember(cmd, args, func(m *adminv1.Member) (string, error) {
				resp, err := session.Call(cmd.Context(), p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.RevokeMember, &adminv1.RevokeMemberRequest{Member: m, Reason: reason})
				switch pending := resp.GetPending(); {
				case err == nil && len(pending) > 0:
					return "", fmt.Errorf("recorded, but not yet in force at: %s (they follow as soon as they can read it; run this again to see, "+
						"and mcp-client blockers to see who keeps them from it)", strings.Join(pending, ", "))
				case err == nil && !resp.GetChanged():
					return "was revoked already", nil
				case err == nil:
					p.warnOfNobody(cmd.Context(), m)
				}
				return "revoked", err
			})
		},
		ValidArgsFunction: p.completeMachines,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look later")
	return cmd
}

// warnOfNobody warns if no machine has a certificate of an identity that was revoked: its name may be mistyped. It is no
// mistake, since one may be revoked before anybody has it. If the server cannot be asked, nothing is said.
func (p program) warnOfNobody(ctx context.Context, m *adminv1.Member) {
	if m.GetServiceAccount() == "" {
		return
	}
	resp, err := session.Call(ctx, p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.ListMachines, &adminv1.ListMachinesRequest{Namespaces: []string{m.GetNamespace()}})
	if err != nil {
		return
	}
	path := "/ns/" + m.GetNamespace() + "/sa/" + m.GetServiceAccount()
	if !slices.ContainsFunc(resp.GetMachines(), func(machine *adminv1.Machine) bool { return strings.HasSuffix(machine.GetIdentity(), path) }) {
		fmt.Fprintf(p.Err, "warning: no machine has a certificate of %s now: mcp-client identity list -n %s lists who has one\n", memberName(m), m.GetNamespace())
	}
}

func (p program) restoreIdentityCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore MEMBER...",
		Short: "Take back that somebody was revoked",
		Long: `Take back that somebody was revoked: ` + memberForms + `.

A machine whose certificate has ended meanwhile joins anew, with a join token.`,
		Example: `  mcp-client identity revoke default/reviews
  mcp-client identity restore default/reviews`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.eachMember(cmd, args, func(m *adminv1.Member) (string, error) {
				_, err := session.Call(cmd.Context(), p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.RestoreMember, &adminv1.RestoreMemberRequest{Member: m})
				return "restored", err
			})
		},
	}
}

// eachMember parses all names, and then calls do for each member.
func (p program) eachMember(cmd *cobra.Command, names []string, do func(*adminv1.Member) (done string, err error)) error {
	members := make([]*adminv1.Member, len(names))
	for i, name := range names {
		var err error
		if members[i], err = memberOf(name); err != nil {
			return failure.Usage(cmd, err)
		}
	}
	var failed []error
	for _, m := range members {
		done, err := do(m)
		if err == nil {
			err = p.Print(done + " " + memberName(m) + "\n")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", memberName(m), err))
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// completeMachines completes machines that have certificates.
func (p program) completeMachines(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	resp, err := session.Call(cmd.Context(), p.Session, adminv1.NewMemberServiceClient, adminv1.MemberServiceClient.ListMachines, &adminv1.ListMachinesRequest{Namespaces: p.Namespace.Requested()})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, m := range resp.GetMachines() {
		names = append(names, cobra.CompletionWithDesc(m.GetEnrolment(), m.GetIdentity()))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
