package identity

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// propagationTime is how long the members of a mesh have to learn of an authority before it can
// sign. The database enforces it.
const propagationTime = 5 * time.Minute

// Authority returns the command authority.
func Authority(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "authority",
		Short: "Show the authorities that sign certificates, and replace them",
		Long: `Show the authorities that sign certificates, and replace them.

mcp-server makes the first at its start, and keeps its key encrypted in the database. To replace it takes a few steps, between which the
mesh goes on working:

  mcp-client authority rotate      makes the next one. Every member of the mesh trusts it within seconds; it signs nothing yet
  mcp-client authority roots       prints what those have to trust who are no members: the files of --tls-ca, and of mesh-agent join --roots
  mcp-client authority activate 2  has it sign, five minutes later at the earliest. Servers and machines renew their certificates by
                                   themselves, a few at a time; the old one is still trusted
  mcp-client authority retire 1    ends the trust in the old one, once nobody has a certificate of it

authority show says which step may follow. All but show and roots take the scope admin.`,
	}, p.showAuthorityCommand(), p.authorityRootsCommand(), p.rotateAuthorityCommand(), p.activateAuthorityCommand(), p.retireAuthorityCommand())
}

// meshAuthority is the printed form of an authority.
type meshAuthority struct {
	ID          int64      `json:"id"`
	State       string     `json:"state"`
	Fingerprint string     `json:"fingerprint"`
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	Certificate string     `json:"certificate"`
	Created     *time.Time `json:"createdAt,omitempty"`
	By          string     `json:"createdBy,omitempty"`
	Activated   *time.Time `json:"activatedAt,omitempty"`
	Activator   string     `json:"activatedBy,omitempty"`
	Replaced    *time.Time `json:"replacedAt,omitempty"`
	Retired     *time.Time `json:"retiredAt,omitempty"`
	Retirer     string     `json:"retiredBy,omitempty"`
}

func (p program) showAuthorityCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the authorities, and which step may follow",
		Long:  `Show the authorities of the mesh, and which step may follow. -o yaml has their certificates; authority roots prints those that are trusted.`,
		Example: `  mcp-client authority show
  mcp-client authority show -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.showAuthorities(cmd.Context()) },
	}
}

func (p program) showAuthorities(ctx context.Context) error {
	resp, err := p.authorities(ctx)
	if err != nil {
		return err
	}
	list := []meshAuthority{}
	for _, a := range resp.GetAuthorities() {
		list = append(list, meshAuthority{
			a.GetId(), a.GetState(), a.GetFingerprint(), output.TimeOf(a.GetNotBefore()), output.TimeOf(a.GetNotAfter()), a.GetCertificate(), output.TimeOf(a.GetCreatedAt()), a.GetCreatedBy(),
			output.TimeOf(a.GetActivatedAt()), a.GetActivatedBy(), output.TimeOf(a.GetReplacedAt()), output.TimeOf(a.GetRetiredAt()), a.GetRetiredBy(),
		})
	}
	out := output.Listing{Tree: map[string]any{"trustDomain": resp.GetTrustDomain(), "aliases": resp.GetAliases(), "authorities": list}}
	out.Columns, out.Wide = []string{"ID", "STATE", "EXPIRES", "CREATED", "BY", "FINGERPRINT"}, []string{"ACTIVATED", "REPLACED", "RETIRED"}
	for _, a := range list {
		id := strconv.FormatInt(a.ID, 10)
		out.Add(id, id, a.State, words.ShortTime(a.NotAfter), words.ShortTime(a.Created), words.OrDash(a.By), shortHash(a.Fingerprint), words.ShortTime(a.Activated), words.ShortTime(a.Replaced), words.ShortTime(a.Retired))
	}
	if err := p.PrintListing(out); err != nil || p.Output.IsTree() || p.Output.Format == output.Name {
		return err
	}
	p.printNextSteps(resp.GetTrustDomain(), list)
	return nil
}

// printNextSteps says what can be done next.
func (p program) printNextSteps(domain string, list []meshAuthority) {
	if len(list) == 0 {
		fmt.Fprintln(p.Err, noAuthority(domain)+", or its authority is in files")
	}
	for _, a := range list {
		switch a.State {
		case "next":
			fmt.Fprintf(p.Err, "authority %d is trusted and signs nothing yet. %s\n", a.ID, activation(a.ID, *a.Created))
		case "previous":
			fmt.Fprintf(p.Err, "authority %d signs no more and is still trusted. Once nobody has a certificate of it: mcp-client authority retire %[1]d\n", a.ID)
		}
	}
}

func noAuthority(domain string) string {
	return fmt.Sprintf("the mesh %s has no authority: run mcp-server with --secrets-key-file and without --insecure", domain)
}

// activation says when and how an authority can be activated.
func activation(id int64, created time.Time) string {
	ready := created.Add(propagationTime)
	if time.Now().Before(ready) {
		return fmt.Sprintf("It may sign from %s on: mcp-client authority activate %d", ready.UTC().Format(time.RFC3339), id)
	}
	return fmt.Sprintf("It may sign now: mcp-client authority activate %d", id)
}

func (p program) rotateAuthorityCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Make the authority that is to sign next",
		Long: `Make the authority that is to sign next. The server makes its key, encrypts it and keeps it in the database; every member of the mesh trusts it
within seconds, and it signs nothing until it is activated.

Where mcp-server is run with --authority-cert, the authority is replaced in those files.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resp, err := session.Call(cmd.Context(), p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.RotateAuthority, &adminv1.RotateAuthorityRequest{})
			if err != nil {
				return err
			}
			if p.Output.IsTree() {
				return p.PrintTree(map[string]int64{"id": resp.GetId()})
			}
			if err := p.Printf("made authority %d\n", resp.GetId()); err != nil {
				return err
			}
			fmt.Fprintf(p.Err, "It is trusted, and signs nothing yet. %s\n", activation(resp.GetId(), time.Now()))
			return p.printFilesToUpdate(cmd.Context(), resp.GetId())
		},
	}
}

func (p program) activateAuthorityCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "activate ID",
		Short: "Have the next authority sign",
		Long: `Have the next authority sign. Servers and machines renew their certificates by themselves, and the one before it is still trusted.

It is refused within five minutes of the making of the authority: a member of the mesh that has not heard of it refuses those that it signs
for, until it has. It is refused, too, if the file by which this command knows the server (--tls-ca) has the old root and not the new: it could
not speak to the server any more. --force is for when the old key is known to be stolen.`,
		Example: `  mcp-client authority activate 2`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := authorityID(args[0])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			if lacks, err := p.lacksRoot(cmd.Context(), id); err != nil {
				return err
			} else if lacks && !force {
				return fmt.Errorf("%s, by which this command knows the server, does not have the root of authority %d, and would be of no use when that signs: %s && mv roots.pem %[1]s (other people's and programs' files need it too; --force does without)",
					p.Server.Dial.TLS.CA, id, newRoots)
			}
			_, err = session.Call(cmd.Context(), p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.ActivateAuthority, &adminv1.ActivateAuthorityRequest{Id: id, Force: force})
			if err != nil {
				return err
			}
			fmt.Fprintln(p.Err, "Whoever trusts the mesh by a file without its root (--tls-ca, mesh-agent join --roots) cannot speak to servers any more: "+newRoots)
			fmt.Fprintln(p.Err, "Certificates are renewed now. Once nobody has one of the authority before it, that can be retired: mcp-client authority show")
			return p.Printf("authority %d signs\n", id)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also before every member of the mesh can have heard of it")
	return cmd
}

func (p program) retireAuthorityCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "retire ID",
		Short: "End the trust in an authority that signs no more",
		Long: `End the trust in an authority that signs no more, or that was to sign next, and forget its key.

It is refused while members of the mesh have certificates of it, which are then told of: a machine that was off for long has to join anew.
--force cuts them off.`,
		Example: `  mcp-client authority activate 2
  mcp-client authority retire 1 --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := authorityID(args[0])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			_, err = session.Call(cmd.Context(), p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.RetireAuthority, &adminv1.RetireAuthorityRequest{Id: id, Force: force})
			if err != nil {
				return err
			}
			return p.Printf("authority %d is trusted no more\n", id)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also while members of the mesh have certificates of it, who are then refused")
	return cmd
}

func authorityID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%q is no ID of an authority: mcp-client authority show lists them", text)
	}
	return id, nil
}
