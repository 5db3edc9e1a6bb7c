// Package secrets has the commands on secrets, whose values it never prints.
package secrets

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Command returns the command secret.
func Command(s *session.Session) *cobra.Command {
	p := program{s}
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "List secrets, and make them of files",
		Long: `List secrets, and make them of files. Values are written and never shown.

Secrets are also applied from files, as Kubernetes writes them (mcp-client apply -f), and deleted like resources
(mcp-client delete secret NAME). Their callers need the scope secrets, and to change them also the scope write.`,
	}
	return arguments.Listing(cmd, p.listSecretsCommand(), arguments.Family(&cobra.Command{Use: "create", Short: "Make a secret, or replace it"}, p.createCommands()...))
}

// Create returns the command create secret, which is secret create in kubectl's order.
func Create(s *session.Session) *cobra.Command {
	members := program{s}.createCommands()
	for _, member := range members {
		member.Example = strings.ReplaceAll(member.Example, "secret create", "create secret")
	}
	return arguments.Family(&cobra.Command{
		Use:   "secret",
		Short: "Make a secret, or replace it",
		Long:  `Make a secret, or replace it: "secret create" in kubectl's order.`,
	}, members...)
}

func (p program) createCommands() []*cobra.Command {
	return []*cobra.Command{p.createTLSCommand(), p.createCACommand()}
}

func (p program) listSecretsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List secrets: their types, names and ends, and never their values",
		Example: `  mcp-client secret list -A
  mcp-client get secrets -n shop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return List(cmd, p.Session, append([]string{"secret"}, args...), Choice{})
		},
	}
}

func (p program) createTLSCommand() *cobra.Command {
	var cert, key, ca string
	var accounts []string
	var w change.Options
	cmd := &cobra.Command{
		Use:   "tls NAME",
		Short: "Make a secret of a certificate and its key",
		Example: `  mcp-client secret create tls shop-example -n gateways --cert shop.pem --key shop.key --service-account shop-gateway
  mcp-client secret create tls shop-example -n gateways --cert shop.pem --key shop.key --service-account '*'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cert == "" || key == "" {
				return failure.Usage(cmd, errors.New("name the files with --cert and --key"))
			}
			files := map[string]string{"tls.crt": cert, "tls.key": key}
			if ca != "" {
				files["ca.crt"] = ca
			}
			return p.createSecret(cmd.Context(), args[0], credential.TLS, files, accounts, w)
		},
	}
	cmd.Flags().StringVar(&cert, "cert", "", "file with the certificate, and those that signed it after it, as PEM")
	cmd.Flags().StringVar(&key, "key", "", "file with its private key, as PEM")
	cmd.Flags().StringVar(&ca, "cacert", "", "file with the authorities of clients, as PEM")
	declareAccounts(cmd, &accounts)
	w.DeclareFlags(cmd)
	return cmd
}

func (p program) createCACommand() *cobra.Command {
	var ca string
	var accounts []string
	var w change.Options
	cmd := &cobra.Command{
		Use:     "ca NAME",
		Short:   "Make a secret of authorities that are trusted",
		Example: `  mcp-client secret create ca shop-example-cacert -n gateways --cacert clients.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ca == "" {
				return failure.Usage(cmd, errors.New("name the file with --cacert"))
			}
			return p.createSecret(cmd.Context(), args[0], credential.Opaque, map[string]string{"cacert": ca}, accounts, w)
		},
	}
	cmd.Flags().StringVar(&ca, "cacert", "", "file with the authorities, as PEM")
	declareAccounts(cmd, &accounts)
	w.DeclareFlags(cmd)
	return cmd
}

func declareAccounts(cmd *cobra.Command, accounts *[]string) {
	cmd.Flags().StringSliceVar(accounts, "service-account", nil, "give it to the gateways of the namespace with this service account, which a private key needs; * for all of the namespace; may be given more than once")
}

// createSecret sends files as a secret.
func (p program) createSecret(ctx context.Context, name, kind string, files map[string]string, accounts []string, w change.Options) error {
	secret := &mcpv1.Secret{Type: kind, Data: map[string][]byte{}, ServiceAccounts: accounts}
	for value, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		secret.Data[value] = content
	}
	resource := &kinds.Resource{Kind: kinds.Secret, Namespace: p.Namespace.Name, Name: name, Spec: kinds.SpecOf(secret)}
	wrong := append(kinds.CheckMetadata(resource), kinds.CheckSecret(secret)...)
	for i := range wrong {
		wrong[i].Kind, wrong[i].Namespace, wrong[i].Name = kinds.Secret.Name, resource.Namespace, name
	}
	if len(wrong) > 0 {
		return &failure.Refused{Violations: wrong}
	}
	return change.Apply(ctx, p.Session, []*kinds.Document{{Resource: resource, Spec: kinds.SecretJSON(secret)}}, w)
}
