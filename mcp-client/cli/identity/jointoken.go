package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// joiner has the flags that say whom a join token is for.
type joiner struct {
	identity, group, program string
	uses                     int32
}

func (j *joiner) declareFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&j.identity, "identity", "", "make a join token for machines of NAMESPACE/SERVICE-ACCOUNT")
	cmd.Flags().StringVar(&j.group, "group", "", "make a join token for machines of NAMESPACE/WORKLOADGROUP, with the service account of its template")
	jointoken.ServerFlag(cmd.Flags(), &j.program)
	cmd.Flags().Int32Var(&j.uses, "uses", 1, "how many machines may join with it")
}

// wanted reports whether the flags ask for a join token.
func (j *joiner) wanted() bool { return j.identity != "" || j.group != "" || j.program != "" }

func (j *joiner) request() (*adminv1.CreateJoinTokenRequest, error) {
	req := &adminv1.CreateJoinTokenRequest{Program: j.program, MaxUses: j.uses}
	given := 0
	for _, text := range []string{j.identity, j.group, j.program} {
		if text != "" {
			given++
		}
	}
	var err error
	switch {
	case given > 1:
		return nil, errors.New("a join token is for one of --identity, --group and --for")
	case j.uses < 1:
		return nil, errors.New("--uses must be at least 1")
	case j.identity != "":
		req.Namespace, req.ServiceAccount, err = pairOf("--identity", j.identity, "NAMESPACE/SERVICE-ACCOUNT")
	case j.group != "":
		req.Namespace, req.WorkloadGroup, err = pairOf("--group", j.group, "NAMESPACE/WORKLOADGROUP")
	}
	return req, err
}

func pairOf(flag, text, form string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%s %s: write %s", flag, text, form)
	}
	return namespace, name, nil
}

// joinToken is the printed form of a join token.
type joinToken struct {
	Name           string     `json:"name"`
	Secret         string     `json:"secret,omitempty"`
	Join           string     `json:"join,omitempty"` // the command to run on the machine
	Namespace      string     `json:"namespace,omitempty"`
	ServiceAccount string     `json:"serviceAccount,omitempty"`
	WorkloadGroup  string     `json:"workloadGroup,omitempty"`
	Program        string     `json:"program,omitempty"`
	State          string     `json:"state"`
	Uses           int32      `json:"uses"`
	MaxUses        int32      `json:"maxUses"`
	Created        *time.Time `json:"createdAt,omitempty"`
	By             string     `json:"createdBy,omitempty"`
	Expires        *time.Time `json:"expiresAt,omitempty"`
	Revoked        *time.Time `json:"revokedAt,omitempty"`
	Revoker        string     `json:"revokedBy,omitempty"`
	Used           *time.Time `json:"usedAt,omitempty"`
}

func joinTokenOf(t *adminv1.JoinToken) joinToken {
	return joinToken{
		Name: t.GetName(), Namespace: t.GetNamespace(), ServiceAccount: t.GetServiceAccount(), WorkloadGroup: t.GetWorkloadGroup(), Program: t.GetProgram(),
		State: t.GetState(), Uses: t.GetUses(), MaxUses: t.GetMaxUses(), Created: output.TimeOf(t.GetCreatedAt()), By: t.GetCreatedBy(), Expires: output.TimeOf(t.GetExpiresAt()),
		Revoked: output.TimeOf(t.GetRevokedAt()), Revoker: t.GetRevokedBy(), Used: output.TimeOf(t.GetUsedAt()),
	}
}

// bearer says who may use the token.
func (t joinToken) bearer() string {
	switch {
	case t.Program != "":
		return t.Program
	case t.WorkloadGroup != "":
		return "group " + t.Namespace + "/" + t.WorkloadGroup
	}
	return t.Namespace + "/" + t.ServiceAccount
}

// createJoinToken makes a join token, and prints the command for the machine. The command does not
// contain the token, since other users could see it.
func (p program) createJoinToken(ctx context.Context, req *adminv1.CreateJoinTokenRequest, lifetime time.Duration) error {
	req.ExpiresAt = timestamppb.New(time.Now().Add(lifetime))
	resp, err := session.Call(ctx, p.Session, adminv1.NewJoinTokenServiceClient, adminv1.JoinTokenServiceClient.CreateJoinToken, req)
	if err != nil {
		return err
	}
	made := joinTokenOf(resp.GetToken())
	made.Secret = resp.GetSecret()
	if made.Program == "" {
		made.Join = p.joinLine()
	}
	if p.Output.IsTree() {
		return p.PrintTree(made)
	}
	fmt.Fprintf(p.Err, "made the join token %s: %s, valid until %s. It is a secret: whoever has it becomes that. It is not kept and cannot be shown again:\n",
		made.Name, made.admits(), made.Expires.Format(time.RFC3339))
	err = p.Print(made.Secret + "\n")
	switch {
	case made.Program != "":
		fmt.Fprintf(p.Err, "put it into a file on the machine of the server: discovery run --join-token-file FILE\n")
	case terminal.Is(p.Out):
		fmt.Fprintf(p.Err, "run on the machine, and give it when asked:\n  %s\n", made.Join)
	default:
		fmt.Fprintf(p.Err, "put it into a file on the machine, and run there:\n  %s --token-file FILE\n", made.Join)
	}
	return err
}

// admits says how many may join with the token, and as what.
func (t joinToken) admits() string {
	switch {
	case t.Program != "":
		return "for one server, a " + t.Program
	case t.MaxUses == 1:
		return "for one machine of " + t.bearer()
	}
	return fmt.Sprintf("for %d machines of %s", t.MaxUses, t.bearer())
}

// joinLine returns the command for a machine that joins. Machines use another port of discovery
// than its debug pages, on the same host.
func (p program) joinLine() string {
	host, port := "DISCOVERY", jointoken.Port
	if p.Discovery != session.DefaultDiscovery {
		at, isURL := p.Discovery, strings.Contains(p.Discovery, "://")
		if !isURL {
			at = "http://" + at
		}
		if u, err := url.Parse(at); err == nil && u.Hostname() != "" {
			host = u.Hostname()
			if !isURL && p.Given("discovery") && u.Port() != pagesPort { // a context has the port of the pages
				port = cmp.Or(u.Port(), port)
			}
		}
	}
	return "mesh-agent join --server " + net.JoinHostPort(host, port)
}

// pagesPort is where discovery has its debug pages unless it was told another port. Nobody joins there.
var _, pagesPort, _ = net.SplitHostPort(strings.TrimPrefix(session.DefaultDiscovery, "http://"))

// joinTokens lists the join tokens that the caller may see.
func (p program) joinTokens(ctx context.Context) ([]joinToken, error) {
	resp, err := session.Call(ctx, p.Session, adminv1.NewJoinTokenServiceClient, adminv1.JoinTokenServiceClient.ListJoinTokens, &adminv1.ListJoinTokensRequest{})
	if err != nil {
		return nil, err
	}
	var list []joinToken
	for _, t := range resp.GetTokens() {
		list = append(list, joinTokenOf(t))
	}
	return list, nil
}

func (p program) printJoinTokens(list []joinToken) error {
	out := output.Listing{Tree: list, Columns: []string{"JOIN TOKEN", "STATE", "FOR", "USES", "EXPIRES", "LAST USED"}, Wide: []string{"CREATED", "BY", "REVOKED BY"}}
	for _, t := range list {
		out.Add(t.Name, t.Name, t.State, t.bearer(), fmt.Sprintf("%d/%d", t.Uses, t.MaxUses), words.ShortTime(t.Expires), words.ShortTime(t.Used), words.ShortTime(t.Created), t.By, words.OrDash(t.Revoker))
	}
	return p.PrintListing(out)
}
