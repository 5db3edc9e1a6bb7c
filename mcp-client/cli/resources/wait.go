package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Pauses between looks, and how long to go on looking.
const (
	lookEvery    = 300 * time.Millisecond
	lookFor      = 30 * time.Second
	longestLook  = 7 * 24 * time.Hour
	mostToAnswer = 10 * time.Second
)

// Wait returns the command wait.
func Wait(s *session.Session) *cobra.Command {
	p := program{s}
	var what string
	var chosen choosing
	cmd := &cobra.Command{
		Use:   "wait (KIND NAME... | KIND/NAME... | KIND (-l LABELS | --all)) --for=(condition=TYPE[=STATUS] | delete | create | jsonpath=PATH[=VALUE])",
		Short: "Wait until resources have a condition, a value, or are gone",
		Long: `Wait until all resources that are named have a condition of their status (see mcp-client get -o yaml) with the STATUS, which is True if it
is not said, or a VALUE at a path, or any value if none is said; or until none of them is there, or all are. It gives up after --timeout,
which is 30s here; 0 looks once, and a negative one is a week. If -l or --all choose nothing, it fails, but for --for=delete. Once Programmed, proxies run a resource; --wait of apply waits for that in one go.`,
		Example: `  mcp-client wait vs/reviews --for=condition=Accepted
  mcp-client wait vs/gone --for=delete --timeout 5s
  mcp-client wait vs/reviews --for=jsonpath='{.spec.hosts[0]}'=reviews.example.com`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			met, err := parseAim(what)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			timeout := p.waitFor()
			keys, err := p.namedOrChosen(cmd, args, chosen)
			if err != nil {
				return err
			}
			if len(keys) == 0 && what != "delete" { // else a misspelt label would let everything through
				return errors.New("there is nothing to wait for: no resource is chosen")
			}
			return p.wait(cmd.Context(), keys, timeout, what, met)
		},
	}
	chosen.declareFlags(cmd)
	cmd.Flags().StringVar(&what, "for", "", "what to wait for: condition=TYPE[=STATUS], delete, create, or jsonpath=PATH[=VALUE]")
	return cmd
}

// waitFor is how long to go on looking, which --timeout means here: as with kubectl, 0 looks once, and less than that is a week.
func (p program) waitFor() time.Duration {
	if !p.Given("timeout") {
		return lookFor
	}
	timeout := p.Server.Timeout
	p.Server.Timeout = mostToAnswer
	if timeout < 0 {
		return longestLook
	}
	return timeout
}

// aim tells of a resource as JSON, nil if it is not there, whether it is as it is waited for.
type aim func(text []byte) (bool, error)

// errAbsent is for what has to be there, or it is waited for in vain.
var errAbsent = errors.New("not found")

func parseAim(text string) (aim, error) {
	of, rest, _ := strings.Cut(text, "=")
	switch {
	case text == "delete":
		return func(text []byte) (bool, error) { return text == nil, nil }, nil
	case text == "create":
		return func(text []byte) (bool, error) { return text != nil, nil }, nil
	case of == "condition" && rest != "":
		name, wanted, given := strings.Cut(rest, "=")
		if !given {
			wanted = "True"
		}
		return ofThere(func(text []byte) (bool, error) { return hasCondition(text, name, wanted) }), nil
	case of == "jsonpath" && rest != "":
		return pathAim(rest)
	}
	return nil, fmt.Errorf("--for=%s: write condition=TYPE, condition=TYPE=STATUS, delete, create, or jsonpath=PATH=VALUE", text)
}

// pathAim reads PATH=VALUE, of which the path may have braces, with an = between them.
func pathAim(text string) (aim, error) {
	end := strings.LastIndex(text, "}") + 1
	before, value, given := strings.Cut(text[end:], "=")
	path, err := output.ParsePath(text[:end] + before)
	if err != nil {
		return nil, err
	}
	return ofThere(func(text []byte) (bool, error) {
		found, err := path.In(text)
		if given {
			return found == value, err
		}
		return found != "", err
	}), nil
}

func ofThere(met aim) aim {
	return func(text []byte) (bool, error) {
		if text == nil {
			return false, errAbsent
		}
		return met(text)
	}
}

func hasCondition(text []byte, name, wanted string) (bool, error) {
	all, err := conditionsOf(text)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if strings.EqualFold(c.Type, name) {
			return strings.EqualFold(c.Status, wanted), nil
		}
	}
	if len(all) > 0 && !mayCome(text, name) {
		return false, fmt.Errorf("it has no condition %q, and never will: its conditions are %s", name, typesOf(all))
	}
	return false, nil
}

func conditionsOf(text []byte) ([]output.Condition, error) {
	var read struct {
		Status struct{ Conditions []output.Condition }
	}
	err := json.Unmarshal(text, &read)
	return read.Status.Conditions, err
}

// mayCome reports whether a resource may have a condition later that it does not have now. Those of the
// Gateway API are many, and come and go.
func mayCome(text []byte, name string) bool {
	var read struct{ APIVersion string }
	_ = json.Unmarshal(text, &read) // without a version everything may come
	ours := []string{"Accepted", "ResolvedRefs", "Conflicted", "HasWarnings", output.Programmed}
	return !strings.Contains(read.APIVersion, "istio.io/") || slices.ContainsFunc(ours, func(of string) bool { return strings.EqualFold(of, name) })
}

func typesOf(all []output.Condition) string {
	var types []string
	for _, c := range all {
		types = append(types, c.Type)
	}
	return strings.Join(types, ", ")
}

// whyNot says what the status of a resource says of the condition that was waited for in vain.
func whyNot(what string, text []byte) string {
	condition, waited := strings.CutPrefix(what, "condition=")
	if !waited {
		return ""
	}
	name, _, _ := strings.Cut(condition, "=")
	all, err := conditionsOf(text)
	switch {
	case err != nil:
		return ""
	case len(all) == 0:
		return ": it has no status, since the server tells none"
	}
	for _, c := range all {
		if strings.EqualFold(c.Type, name) {
			return strings.TrimSuffix(fmt.Sprintf(": it is %s (%s): %s", c.Status, c.Reason, c.Message), ": ")
		}
	}
	return ": it does not have this condition; its conditions are " + typesOf(all)
}

func (p program) wait(ctx context.Context, keys []kinds.Key, timeout time.Duration, what string, met aim) error {
	notice := p.Notice("waiting for " + what)
	defer notice.End()
	deadline := time.Now().Add(timeout)
	for _, key := range keys {
		for {
			text, err := p.look(ctx, key)
			if err != nil {
				return err
			}
			done, err := met(text)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if done {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("timed out waiting for %s on %s%s", what, key, whyNot(what, text))
			}
			if !wait.For(ctx, lookEvery) {
				return ctx.Err()
			}
		}
		notice.End()
		if err := p.Print(fmt.Sprintf("%s %s condition met\n", words.Kind(key.Kind), key.FullName())); err != nil {
			return err
		}
	}
	return nil
}

// look reads a resource with its status, as JSON; nil if it is not there.
func (p program) look(ctx context.Context, key kinds.Key) ([]byte, error) {
	namespace := key.Namespace
	if namespace == "" {
		namespace = noNamespaceRequested
	}
	found, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.List, &adminv1.ListRequest{
		Kinds: []string{key.Kind.Plural + "." + key.Kind.Group}, Namespaces: []string{namespace}, Names: []string{key.Name},
	})
	if err != nil || len(found.GetResources()) == 0 {
		return nil, err
	}
	tree, err := treeOf(found.GetResources()[0])
	if err != nil {
		return nil, err
	}
	known, _ := p.statusesOf(ctx, []*kinds.Resource{{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}})
	if status := known[key]; status != nil {
		tree["status"] = status
	}
	return json.Marshal(tree)
}
