package secrets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
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
	Metadata  metadata          `json:"metadata"`
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

// metadata is where every resource has its name, for templates that are of any kind.
type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Choice says which of the secrets that arguments ask for are meant, and how they are printed.
type Choice struct {
	Labels        selector.Selector
	IgnoreMissing bool
	Single        bool // one that is asked for by name is an object, as each resource is
}

// Asked reports whether arguments ask for secrets: "secret", "secret NAME..." or "secret/NAME...", also beside other kinds.
func Asked(args []string) bool {
	if len(args) == 0 {
		return false
	}
	list, _, _ := strings.Cut(args[0], "/")
	return slices.ContainsFunc(strings.Split(list, ","), kinds.IsSecretName)
}

// List lists the secrets that arguments ask for.
func List(cmd *cobra.Command, s *session.Session, args []string, c Choice) error {
	p := program{s}
	wanted, err := wantedBy(args)
	if err != nil {
		return failure.Usage(cmd, err)
	}
	list, missing, err := p.find(cmd.Context(), wanted, c)
	if err != nil || len(list) == 0 && p.Output.IsTable() {
		return cmp.Or(err, missing)
	}
	if single := c.Single && len(wanted) == 1 && wanted[0].Name != ""; single && p.Output.IsTree() {
		if len(list) == 1 {
			return p.PrintTree(list[0])
		}
		return missing
	}
	if err := p.printSecrets(list); err != nil {
		return err
	}
	return missing
}

// wantedBy parses arguments that ask for secrets.
func wantedBy(args []string) ([]arguments.Wanted, error) {
	return arguments.ParseOf(args, func(word string) (*kinds.Kind, error) {
		if !kinds.IsSecretName(word) {
			return nil, fmt.Errorf("%s is no secret: ask for secrets by themselves", word)
		}
		return kinds.Secret, nil
	})
}

// find asks for secrets, and tells which of those that are named do not exist.
func (p program) find(ctx context.Context, wanted []arguments.Wanted, c Choice) (list []secretInfo, missing, err error) {
	all, err := p.all(ctx, wanted)
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
		list = append(list, slices.DeleteFunc(found, func(s secretInfo) bool { return !c.Labels.Matches(s.Labels) })...)
	}
	if len(absent) > 0 && !c.IgnoreMissing {
		missing = failure.Several(absent)
	}
	if len(list) == 0 && len(absent) == 0 && p.Output.IsTable() {
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
			Metadata:  metadata{s.GetName(), s.GetNamespace(), s.GetLabels()},
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
		out.Add("secret/"+s.Namespace+"/"+s.Name, s.Namespace, s.Name, s.Type, words.OrDash(strings.Join(s.Names, ",")), words.ShortTime(s.NotAfter), words.OrDash(s.Origin),
			strings.Join(s.Keys, ","), words.OrDash(strings.Join(s.Accounts, ",")), fmt.Sprint(s.Encrypted), words.OrDash(s.Author), words.ShortTime(s.Updated))
	}
	return p.PrintListing(out)
}
