package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

func (p *session) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "List secrets, and make them of files",
		Long: `List secrets, and make them of files. Values are written and never shown.

Secrets are also applied from files, as Kubernetes writes them (mcp-client apply -f), and deleted like resources
(mcp-client delete secret NAME). Their callers need the scope secrets, and to change them also the scope write.`,
	}
	create := &cobra.Command{Use: "create", Short: "Make a secret, or replace it"}
	create.AddCommand(p.createTLSCommand(), p.createCACommand())
	cmd.AddCommand(p.listSecretsCommand(), create)
	return cmd
}

func (p *session) listSecretsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List secrets: their types, names and ends, and never their values",
		Example: `  mcp-client secret list -A
  mcp-client get secrets -n shop`,
		RunE: func(cmd *cobra.Command, args []string) error { return listSecrets(cmd.Context(), p, args) },
	}
}

func (p *session) createTLSCommand() *cobra.Command {
	var cert, key, ca string
	var accounts []string
	var w changeOptions
	cmd := &cobra.Command{
		Use:   "tls NAME",
		Short: "Make a secret of a certificate and its key",
		Example: `  mcp-client secret create tls shop-example -n gateways --cert shop.pem --key shop.key --service-account shop-gateway
  mcp-client secret create tls shop-example -n gateways --cert shop.pem --key shop.key --service-account '*'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cert == "" || key == "" {
				return usage(cmd, errors.New("name the files with --cert and --key"))
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
	w.declareFlags(cmd)
	return cmd
}

func (p *session) createCACommand() *cobra.Command {
	var ca string
	var accounts []string
	var w changeOptions
	cmd := &cobra.Command{
		Use:     "ca NAME",
		Short:   "Make a secret of authorities that are trusted",
		Example: `  mcp-client secret create ca shop-example-cacert -n gateways --cacert clients.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ca == "" {
				return usage(cmd, errors.New("name the file with --cacert"))
			}
			return p.createSecret(cmd.Context(), args[0], credential.Opaque, map[string]string{"cacert": ca}, accounts, w)
		},
	}
	cmd.Flags().StringVar(&ca, "cacert", "", "file with the authorities, as PEM")
	declareAccounts(cmd, &accounts)
	w.declareFlags(cmd)
	return cmd
}

func declareAccounts(cmd *cobra.Command, accounts *[]string) {
	cmd.Flags().StringSliceVar(accounts, "service-account", nil, "give it to the gateways of the namespace with this service account, which a private key needs; * for all of the namespace; may be given more than once")
}

// createSecret sends files as a secret.
func (p *session) createSecret(ctx context.Context, name, kind string, files map[string]string, accounts []string, w changeOptions) error {
	secret := &mcpv1.Secret{Type: kind, Data: map[string][]byte{}, ServiceAccounts: accounts}
	for value, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		secret.Data[value] = content
	}
	resource := &kinds.Resource{Kind: kinds.Secret, Namespace: p.namespace.name, Name: name, Spec: kinds.SpecOf(secret)}
	wrong := append(kinds.CheckMetadata(resource), kinds.CheckSecret(secret)...)
	for i := range wrong {
		wrong[i].Kind, wrong[i].Namespace, wrong[i].Name = kinds.Secret.Name, resource.Namespace, name
	}
	if len(wrong) > 0 {
		return &refusedError{wrong}
	}
	return applyDocuments(ctx, p, []*kinds.Document{{Resource: resource, Spec: kinds.SecretJSON(secret)}}, w)
}

// secretInfo is the printed form of a secret, without its values.
type secretInfo struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Labels    map[string]string `json:"labels,omitempty"`
	Keys      []string          `json:"keys"`
	Names     []string          `json:"names,omitempty"`
	NotBefore *time.Time        `json:"notBefore,omitempty"`
	NotAfter  *time.Time        `json:"notAfter,omitempty"`
	Encrypted bool              `json:"encrypted"`
	Accounts  []string          `json:"serviceAccounts,omitempty"`
	Author    string            `json:"author,omitempty"`
	Created   *time.Time        `json:"createdAt,omitempty"`
	Updated   *time.Time        `json:"updatedAt,omitempty"`
}

func listSecrets(ctx context.Context, p *session, names []string) error {
	req := &adminv1.ListSecretsRequest{}
	if !p.namespace.all {
		req.Namespaces = []string{p.namespace.name}
	}
	resp, err := call(ctx, &p.server, adminv1.NewSecretServiceClient, adminv1.SecretServiceClient.ListSecrets, req, p.server.explain)
	if err != nil {
		return err
	}
	list, found := []secretInfo{}, map[string]bool{}
	for _, s := range resp.GetSecrets() {
		if len(names) > 0 && !slices.Contains(names, s.GetName()) {
			continue
		}
		found[s.GetName()] = true
		list = append(list, secretInfo{
			Namespace: s.GetNamespace(), Name: s.GetName(), Type: s.GetType(), Labels: s.GetLabels(), Keys: s.GetKeys(), Names: s.GetNames(),
			NotBefore: timeOf(s.GetNotBefore()), NotAfter: timeOf(s.GetNotAfter()), Encrypted: s.GetEncrypted(), Author: s.GetAuthor(),
			Created: timeOf(s.GetCreatedAt()), Updated: timeOf(s.GetUpdatedAt()), Accounts: s.GetServiceAccounts(),
		})
	}
	if err := p.printSecrets(list); err != nil {
		return err
	}
	var missing []error
	for _, name := range names {
		if !found[name] {
			missing = append(missing, fmt.Errorf("Secret %s/%s: not found", p.namespace.name, name))
		}
	}
	if len(missing) > 0 {
		return failuresError(missing)
	}
	return nil
}

func (p *session) printSecrets(list []secretInfo) error {
	out := listing{tree: list, columns: []string{"NAMESPACE", "NAME", "TYPE", "FOR", "EXPIRES"}, wide: []string{"KEYS", "SERVICE-ACCOUNTS", "ENCRYPTED", "AUTHOR", "UPDATED"}}
	for _, s := range list {
		out.add("secret/"+s.Name, s.Namespace, s.Name, s.Type, orDash(strings.Join(s.Names, ",")), shortly(s.NotAfter),
			strings.Join(s.Keys, ","), orDash(strings.Join(s.Accounts, ",")), fmt.Sprint(s.Encrypted), s.Author, shortly(s.Updated))
	}
	return p.printListing(out)
}
