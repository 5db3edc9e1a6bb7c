package secrets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

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
	Origin    string            `json:"origin,omitempty"`
	Author    string            `json:"author,omitempty"`
	Created   *time.Time        `json:"createdAt,omitempty"`
	Updated   *time.Time        `json:"updatedAt,omitempty"`
}

// Asked reports whether arguments ask for secrets: "secret", "secret NAME..." or "secret/NAME...".
func Asked(args []string) bool {
	if len(args) == 0 {
		return false
	}
	kind, _, _ := strings.Cut(args[0], "/")
	return kinds.IsSecretName(kind)
}

// List lists the secrets that arguments ask for.
func List(cmd *cobra.Command, s *session.Session, args []string) error {
	p := program{s}
	list, missing, err := p.find(cmd, args)
	if err != nil || len(list) == 0 && p.Output.IsTable() {
		return cmp.Or(err, missing)
	}
	if err := p.printSecrets(list); err != nil {
		return err
	}
	return missing
}

// find asks for secrets, and tells which of those that are named do not exist.
func (p program) find(cmd *cobra.Command, args []string) (list []secretInfo, missing, err error) {
	wanted, err := arguments.ParseOf(args, func(word string) (*kinds.Kind, error) {
		if !kinds.IsSecretName(word) {
			return nil, fmt.Errorf("%s is no secret: ask for secrets by themselves", word)
		}
		return kinds.Secret, nil
	})
	if err != nil {
		return nil, nil, failure.Usage(cmd, err)
	}
	all, err := p.all(cmd.Context(), wanted)
	if err != nil {
		return nil, nil, err
	}
	list = []secretInfo{}
	var absent []error
	for _, w := range wanted {
		found := slices.DeleteFunc(slices.Clone(all), func(s secretInfo) bool { return !p.isWanted(s, w) })
		if len(found) == 0 && w.Name != "" {
			absent = append(absent, fmt.Errorf("Secret %s: not found", w.In(p.Namespace).FullName()))
		}
		list = append(list, found...)
	}
	if len(absent) > 0 {
		missing = failure.Several(absent)
	}
	if len(list) == 0 && missing == nil && p.Output.IsTable() {
		p.NothingFound(wanted)
	}
	return list, missing, nil
}

func (p program) isWanted(s secretInfo, w arguments.Wanted) bool {
	if w.Name != "" && s.Name != w.Name {
		return false
	}
	return p.Namespace.All && w.Namespace == "" || s.Namespace == w.In(p.Namespace).Namespace
}

// all lists the secrets of the namespaces that are asked for.
func (p program) all(ctx context.Context, wanted []arguments.Wanted) ([]secretInfo, error) {
	req := &adminv1.ListSecretsRequest{}
	for _, w := range wanted {
		if namespace := w.In(p.Namespace).Namespace; !p.Namespace.All && !slices.Contains(req.GetNamespaces(), namespace) {
			req.Namespaces = append(req.Namespaces, namespace)
		}
	}
	resp, err := connect.Call(ctx, &p.Server, adminv1.NewSecretServiceClient, adminv1.SecretServiceClient.ListSecrets, req, p.Server.Explain)
	if err != nil {
		return nil, err
	}
	var all []secretInfo
	for _, s := range resp.GetSecrets() {
		all = append(all, secretInfo{
			Namespace: s.GetNamespace(), Name: s.GetName(), Type: s.GetType(), Labels: s.GetLabels(), Keys: s.GetKeys(), Names: s.GetNames(),
			NotBefore: output.TimeOf(s.GetNotBefore()), NotAfter: output.TimeOf(s.GetNotAfter()), Encrypted: s.GetEncrypted(), Author: s.GetAuthor(), Origin: s.GetOrigin(),
			Created: output.TimeOf(s.GetCreatedAt()), Updated: output.TimeOf(s.GetUpdatedAt()), Accounts: s.GetServiceAccounts(),
		})
	}
	return all, nil
}

// printSecrets prints a list. ORIGIN is a column if something comes from a registry, and with -o wide.
func (p program) printSecrets(list []secretInfo) error {
	out := output.Listing{Tree: list, Columns: []string{"NAMESPACE", "NAME", "TYPE", "FOR", "EXPIRES"}, Wide: []string{"ORIGIN", "KEYS", "SERVICE-ACCOUNTS", "ENCRYPTED", "AUTHOR", "UPDATED"}}
	if slices.ContainsFunc(list, func(s secretInfo) bool { return s.Origin != "" }) {
		out.Columns, out.Wide = append(out.Columns, out.Wide[0]), out.Wide[1:]
	}
	for _, s := range list {
		out.Add("secret/"+s.Name, s.Namespace, s.Name, s.Type, words.OrDash(strings.Join(s.Names, ",")), words.ShortTime(s.NotAfter), words.OrDash(s.Origin),
			strings.Join(s.Keys, ","), words.OrDash(strings.Join(s.Accounts, ",")), fmt.Sprint(s.Encrypted), words.OrDash(s.Author), words.ShortTime(s.Updated))
	}
	return p.PrintListing(out)
}
