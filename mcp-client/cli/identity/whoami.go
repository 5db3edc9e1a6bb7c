package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// WhoAmI returns the command whoami.
func WhoAmI(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "whoami",
		Short: "Tell who the server takes you for, and what you may do",
		Long: `Tell who the server takes you for, by your token or certificate, and what you may do there: the scopes, as token create takes them.
"insecure" is whoever calls a server without TLS.`,
		Example: `  mcp-client whoami
  mcp-client whoami -o jsonpath={.scopes}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.whoAmI(cmd.Context()) },
	}
}

// Auth returns the command auth and its subcommands.
func Auth(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Family(&cobra.Command{
		Use:   "auth",
		Short: "Ask what you may do",
		Long:  `Ask what you may do on the server. See whoami, too.`,
	}, p.canICommand())
}

func (p program) canICommand() *cobra.Command {
	var list, quiet bool
	var as string
	cmd := &cobra.Command{
		Use:   "can-i (VERB KIND | --list)",
		Short: "Ask whether you may do something",
		Long: `Ask whether you may do something to resources of a KIND in the namespace of -n, or with -A in all of them. A VERB is read or write, or one of
kubectl's: get, list and watch are to read; create, apply, update, patch and delete are to write. Of secrets, it is about their scope.

It prints yes, or no; then the exit code is 1. With --quiet, the exit code alone tells. Both * ask for all verbs and all kinds, as quotes keep a
shell from reading them. With --list it lists all that you may do, and with -n what of that is for this namespace.`,
		Example: `  mcp-client auth can-i write vs -n shop
  mcp-client auth can-i get destinationrules -A
  mcp-client auth can-i --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case as != "":
				return failure.Usage(cmd, errAs)
			case list:
				return p.listAllowed(cmd.Context())
			}
			verbs, known := verbsOf[strings.ToLower(args[0])]
			if !known {
				return failure.Usage(cmd, fmt.Errorf("%q is no verb: write read or write, or one of kubectl's", args[0]))
			}
			if args[1] == "*" {
				return p.answer(cmd.Context(), quiet, func(is *caller.Caller, namespace string) bool { return mayAll(is, verbs, namespace) })
			}
			word, _, _ := strings.Cut(args[1], "/")
			kind, err := arguments.ResourceOrSecret(word)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.canI(cmd.Context(), verbs, kind, quiet)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: the exit code tells")
	cmd.Flags().BoolVar(&list, "list", false, "list all that you may do")
	cmd.Flags().StringVar(&as, "as", "", "kubectl's, to ask in the name of another, which nobody can")
	_ = cmd.Flags().MarkHidden("as") // which exists
	return cmd
}

// verbsOf are the verbs of scopes by those that people use.
var verbsOf = map[string]caller.Verb{
	"read": caller.Read, "get": caller.Read, "list": caller.Read, "watch": caller.Read, "describe": caller.Read,
	"write": caller.Write, "create": caller.Write, "apply": caller.Write, "update": caller.Write, "replace": caller.Write, "patch": caller.Write, "edit": caller.Write,
	"label": caller.Write, "annotate": caller.Write, "delete": caller.Write, "deletecollection": caller.Write, "import": caller.Write,
	"admin": caller.Admin, "*": caller.Admin,
}

func (p program) whoAmI(ctx context.Context) error {
	who, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.WhoAmI, &adminv1.WhoAmIRequest{})
	if err != nil {
		return err
	}
	if p.Output.IsTree() {
		return p.PrintTree(struct {
			Identity string   `json:"identity"`
			Scopes   []string `json:"scopes"`
		}{who.GetIdentity(), append([]string{}, who.GetScopes()...)})
	}
	if err := p.Printf("%s\n", who.GetIdentity()); err != nil || !p.Output.IsTable() {
		return err
	}
	return p.Printf("may: %s\n", strings.Join(who.GetScopes(), ", "))
}

// errNo ends a command that has printed no.
var errNo = errors.New("the scopes of this caller do not allow it: see mcp-client whoami")

// canI answers whether the caller may do something to a kind.
func (p program) canI(ctx context.Context, verb caller.Verb, kind *kinds.Kind, quiet bool) error {
	return p.answer(ctx, quiet, func(is *caller.Caller, namespace string) bool { return mayOne(is, verb, namespace, kind) })
}

func mayOne(is *caller.Caller, verb caller.Verb, namespace string, kind *kinds.Kind) bool {
	if !kind.Namespaced && namespace != session.Everywhere {
		namespace = ""
	}
	may := is.May(verb, namespace, kind)
	if kind == kinds.Secret {
		may = is.MaySecrets(namespace) && (verb == caller.Read || may)
	}
	return may
}

// mayAll reports whether the caller may do something to all kinds, secrets too.
func mayAll(is *caller.Caller, verb caller.Verb, namespace string) bool {
	return !slices.ContainsFunc(append(kinds.All(), kinds.Secret), func(k *kinds.Kind) bool { return !mayOne(is, verb, namespace, k) })
}

// answer prints yes or no, and fails without a word if it is to be quiet.
func (p program) answer(ctx context.Context, quiet bool, may func(is *caller.Caller, namespace string) bool) error {
	is, err := p.Caller(ctx)
	if err != nil {
		return err
	}
	namespace := p.Namespace.Name
	if p.Namespace.All {
		namespace = session.Everywhere
	}
	allowed := may(is, namespace)
	switch {
	case quiet && allowed:
		return nil
	case quiet:
		return failure.ErrTold
	case allowed:
		return p.Print("yes\n")
	}
	if err := p.Print("no\n"); err != nil {
		return err
	}
	return errNo
}
