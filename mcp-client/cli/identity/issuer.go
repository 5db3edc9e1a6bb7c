package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Issuer returns the command issuer.
func Issuer(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "issuer",
		Short: "Let machines join by the tokens of a cloud, or of another issuer",
		Long: `Let machines join by JSON web tokens that somebody else gives them, in the place of join tokens: a cloud's identity of instances, say, or a
build system's of jobs. A rule says whose tokens are taken, what they have to say, and as whom a machine joins that has one.

They take the scope admin: who writes a rule decides who can be anybody in the namespace that it names.`,
	}, p.listIssuersCommand(), p.createIssuerCommand(), p.deleteIssuerCommand())
}

// joinIssuer is the printed form of a rule.
type joinIssuer struct {
	Name           string            `json:"name"`
	Issuer         string            `json:"issuer"`
	Audiences      []string          `json:"audiences"`
	JWKS           string            `json:"jwks,omitempty"`
	JWKSURI        string            `json:"jwksUri,omitempty"`
	Claims         map[string]string `json:"claims,omitempty"`
	Namespace      string            `json:"namespace"`
	ServiceAccount string            `json:"serviceAccount"`
	WorkloadGroup  string            `json:"workloadGroup,omitempty"`
	Author         string            `json:"author,omitempty"`
	Updated        *time.Time        `json:"updatedAt,omitempty"`
}

func (p program) createIssuerCommand() *cobra.Command {
	issuer := &adminv1.JoinIssuer{}
	var identity, keys string
	cmd := &cobra.Command{
		Use:   "create NAME --issuer ISSUER --audience AUDIENCE... [--jwks-uri URL | --jwks FILE] --identity NAMESPACE/SERVICE-ACCOUNT",
		Short: "Write a rule, or replace it",
		Long: `Write a rule, or replace the one of its name. Of several that a token fits the first counts, in the order of their names.

Every claim that is named has to have its value; write as many as tell your machines from those of others who use the same issuer. An
audience is demanded, so that a token that was made for somebody else does not count here.`,
		Example: `  mcp-client issuer create cloud-shop --issuer https://accounts.cloud.example --audience pgmesh --jwks-uri https://accounts.cloud.example/keys --claim instance.project=shop-1 --identity shop/cart`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			issuer.Name = args[0]
			if issuer.Namespace, issuer.ServiceAccount, err = pairOf("--identity", identity, "NAMESPACE/SERVICE-ACCOUNT"); err != nil {
				return failure.Usage(cmd, err)
			}
			if keys != "" && issuer.GetJwksUri() != "" {
				return failure.Usage(cmd, errors.New("the issuer's keys are in one place: give --jwks-uri or --jwks"))
			}
			if keys != "" {
				content, err := os.ReadFile(keys)
				if err != nil {
					return err
				}
				issuer.Jwks = string(content)
			}
			if _, err := session.Call(cmd.Context(), p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.PutIssuer, &adminv1.PutIssuerRequest{Issuer: issuer}); err != nil {
				return err
			}
			return p.Print("issuer " + issuer.GetName() + " lets machines join as " + identity + "\n")
		},
	}
	cmd.Flags().StringVar(&issuer.Issuer, "issuer", "", "what the tokens say of who made them (iss), to the letter")
	cmd.Flags().StringArrayVar(&issuer.Audiences, "audience", nil, "whom the tokens have to be made for (aud); may be given more than once: one of them is enough")
	cmd.Flags().StringVar(&issuer.JwksUri, "jwks-uri", "", "where the issuer publishes its keys: an https URL. Without it and --jwks it is asked, as OpenID has it, under --issuer")
	cmd.Flags().StringVar(&keys, "jwks", "", "file with the issuer's public keys, as a JWKS document")
	cmd.Flags().StringToStringVar(&issuer.Claims, "claim", nil, "a claim that the tokens have to have, as PATH=VALUE; may be given more than once: all are needed")
	cmd.Flags().StringVar(&identity, "identity", "", "as whom machines join: NAMESPACE/SERVICE-ACCOUNT")
	cmd.Flags().StringVar(&issuer.WorkloadGroup, "group", "", "the WorkloadGroup of the namespace that they are of")
	return cmd
}

func (p program) listIssuersCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List by whose tokens machines may join, and as whom",
		Example: `  mcp-client issuer list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := p.joinIssuers(cmd.Context())
			if err != nil {
				return err
			}
			out := output.Listing{Tree: list, Columns: []string{"NAME", "ISSUER", "AUDIENCES", "CLAIMS", "JOINS AS"}, Wide: []string{"GROUP", "KEYS", "AUTHOR", "UPDATED"}}
			for _, i := range list {
				out.Add(i.Name, i.Name, i.Issuer, strings.Join(i.Audiences, ","), words.OrDash(i.claims()), i.Namespace+"/"+i.ServiceAccount,
					words.OrDash(i.WorkloadGroup), i.keys(), i.Author, words.ShortTime(i.Updated))
			}
			return p.PrintListing(out)
		},
	}
}

// keys says where the issuer's keys are.
func (i joinIssuer) keys() string {
	switch {
	case i.JWKS != "":
		return "inline"
	case i.JWKSURI != "":
		return i.JWKSURI
	}
	return "OpenID"
}

func (i joinIssuer) claims() string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(i.Claims)) {
		all = append(all, fmt.Sprintf("%s=%s", path, i.Claims[path]))
	}
	return strings.Join(all, ",")
}

func (p program) joinIssuers(ctx context.Context) ([]joinIssuer, error) {
	resp, err := session.Call(ctx, p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.ListIssuers, &adminv1.ListIssuersRequest{})
	if err != nil {
		return nil, err
	}
	list := []joinIssuer{}
	for _, i := range resp.GetIssuers() {
		list = append(list, joinIssuer{
			i.GetName(), i.GetIssuer(), i.GetAudiences(), i.GetJwks(), i.GetJwksUri(), i.GetClaims(), i.GetNamespace(), i.GetServiceAccount(), i.GetWorkloadGroup(),
			i.GetAuthor(), output.TimeOf(i.GetUpdatedAt()),
		})
	}
	return list, nil
}

func (p program) deleteIssuerCommand() *cobra.Command {
	return p.removal(&cobra.Command{
		Use:   "delete NAME...",
		Short: "Let machines join by an issuer's tokens no more",
		Long:  `Let machines join by an issuer's tokens no more. Those that have joined stay: mcp-client identity revoke is for those.`,
	}, "deleted issuer %s\n", func(ctx context.Context, name string) error {
		_, err := session.Call(ctx, p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.RemoveIssuer, &adminv1.RemoveIssuerRequest{Name: name})
		return err
	}, func(ctx context.Context) (names []string, err error) {
		list, err := p.joinIssuers(ctx)
		for _, i := range list {
			names = append(names, i.Name)
		}
		return names, err
	})
}
